// What is asked of CBOR bytes before a reader gets them that recurses once per nesting level and trusts lengths.
#pragma once

#include <cstddef>
#include <span>

namespace kfuse::runtime {

/// Whether `bytes` are one CBOR item (RFC 8949) of integers, booleans, strings, arrays and maps of known length,
/// shallow and within the bytes.
bool isPlainCbor(std::span<const std::byte> bytes);

} // namespace kfuse::runtime
