// Tensors, kernel plans and binaries as JSON values, for files and for messages to a worker. Field names are
// those of the structs.
#pragma once

#include "codegen/KernelPlan.h"
#include "runtime/Device.h"

#include <nlohmann/json.hpp>

// Outside of kfuse, where nlohmann looks for conversions of std types.
template <> struct nlohmann::adl_serializer<std::vector<std::byte>> {
  static void to_json(json &value, const std::vector<std::byte> &bytes) {
    const auto *first = reinterpret_cast<const std::uint8_t *>(bytes.data());
    value = json::binary({first, first + bytes.size()});
  }
  static void from_json(const json &value, std::vector<std::byte> &bytes) {
    const json::binary_t &binary = value.get_binary();
    const auto *first = reinterpret_cast<const std::byte *>(binary.data());
    bytes.assign(first, first + binary.size());
  }
};

namespace kfuse {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorDesc, name, type, shape)
}

namespace kfuse::codegen {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceHeader, name, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelArg, kind, index)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorMapRecipe, buffer, type, sizes, strideBytes, box, swizzleBytes, offsetBytes,
                                   inWorkspace)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Residency, multiprocessors, heldBlocks, workBlocks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Launch, entry, grid, block, cluster, sharedBytes, programmaticLaunch,
                                                needsNoL1, items, grain, args, residency)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BufferDesc, type, shape)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelPlan, name, target, source, options, inputs, outputs, inPlace, launches,
                                   tensorMaps, workspaceBytes, programmaticLaunch, zeroedBytes)
} // namespace kfuse::codegen

namespace kfuse::runtime {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResourceFacts, registers, spillBytes, stackBytes, staticSharedBytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CompiledKernel, image, facts)
} // namespace kfuse::runtime
