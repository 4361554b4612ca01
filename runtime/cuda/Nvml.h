// NVIDIA's management library, where there is one: clocks, power and temperature of a GPU.
#pragma once

#include "runtime/Device.h"

#include <optional>
#include <string>

namespace kfuse::runtime::cuda {

/// Of the GPU at `pciPlace` ("0000:1b:00.0"), now. Nothing without the library, which is opened by the first call.
std::optional<Conditions> conditionsOf(const std::string &pciPlace);

} // namespace kfuse::runtime::cuda
