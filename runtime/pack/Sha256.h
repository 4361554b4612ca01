// SHA-256 (FIPS 180-4), for seals: the runtime library links nothing that has it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kfuse::runtime {

using Sha256 = std::array<std::uint8_t, 32>;

/// At some 300 MB/s.
Sha256 sha256(std::span<const std::byte> bytes);
/// In lower-case hexadecimal digits.
std::string toHex(const Sha256 &digest);

} // namespace kfuse::runtime
