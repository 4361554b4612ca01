// Uploads of memory that is not pinned, such as a mapped file's, through a ring of a few pinned buffers.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/PrimaryContext.h"

#include <span>

namespace kfuse::runtime::cuda {

/// The pinned memory is so many slots of so many bytes, however much is uploaded. Each has a thread that fills it: one
/// core reads a mapped file at 5 to 10 GB/s, a bus of the fifth generation takes 50.
inline constexpr std::size_t ringSlots = 4, slotBytes = std::size_t(4) << 20;

/// Everything is on the device when it returns, for every stream. Few bytes, or where no memory can be pinned, go as
/// the driver's own plain copies.
Result<void> uploadThroughRing(const ContextRef &context, std::span<const Transfer> transfers);

} // namespace kfuse::runtime::cuda
