// Bytes as an object file, which links to programs.
#pragma once

#include "kfuse/error.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace kfuse::runtime::cpu {

/// A relocatable object of this processor's kind that defines `symbol` as constant data, aligned to 256 bytes.
Result<std::vector<std::byte>> dataObject(const std::string &symbol, std::span<const std::byte> bytes);

} // namespace kfuse::runtime::cpu
