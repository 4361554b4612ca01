// What parent and worker say to each other. The parent asks, the worker answers in order:
//
//   worker  {"protocol": N} or {"error": ...}, once its device is open
//   parent  {"call": "fill", "at": 139..., "value": 255, "bytes": 4096}
//   worker  {"value": null} or {"error": {"code": 4, "message": "..."}}
//
// A compiler hears {"headers": [...]} before it says its protocol and its "version", then {"plan": ...} again and
// again; it answers
// {"kernel": ..., "ms": ..., "log": ..., "assembly": ...} or {"error": ...}.
//
// Addresses are the worker's own. "free", "unload" and "forget" have no answer. Buffers travel through SharedMemory,
// a piece at a time.
#pragma once

#include "runtime/PlanJson.h"
#include "runtime/worker/Channel.h"

#include <bit>
#include <cstdint>

namespace kfuse {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Error, code, message)
}

namespace kfuse::runtime {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Conditions, smMhz, memoryMhz, watts, celsius)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MeasureOptions, repetitions, warmupMs, maxSeconds, cold, programmaticLaunch)
} // namespace kfuse::runtime

namespace kfuse::runtime::worker {

/// The greeting of a worker that understands its parent.
constexpr int protocolVersion = 7;

inline std::uint64_t toNumber(const void *address) { return reinterpret_cast<std::uintptr_t>(address); }
inline void *toAddress(std::uint64_t number) { return std::bit_cast<void *>(number); }

} // namespace kfuse::runtime::worker
