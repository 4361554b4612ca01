// Integers of few bits in words of 32, and as kfuse keeps them.
#pragma once

#include "ir/import/checkpoint/Layer.h"

#include <bit>
#include <cstring>

namespace kfuse::ir::checkpoint {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

/// A matrix of I32 in which the integers of a line lie one behind the other from the low bits of its first word on:
/// integer i begins at bit i * bits, and may end in the next word.
class PackedWords {
public:
  /// `lines` lines of `count` integers along `axis` of the tensor. Unreadable for another shape.
  PackedWords(const Layer &layer, std::string_view name, std::size_t axis, std::int64_t lines, std::int64_t count,
              std::int64_t bits);

  unsigned at(std::int64_t line, std::int64_t i) const {
    const std::int64_t bit = i * bits, in = bit % 32;
    std::uint64_t word = wordAt(line, bit / 32);
    if (in + bits > 32)
      word |= wordAt(line, bit / 32 + 1) << 32;
    return static_cast<unsigned>(word >> in) & ((1U << bits) - 1);
  }

private:
  std::uint64_t wordAt(std::int64_t line, std::int64_t word) const {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes + (line * lineStride + word * wordStride) * std::int64_t{sizeof value}, sizeof value);
    return value;
  }

  const std::byte *bytes;
  std::int64_t lineStride, wordStride, bits;
};

/// The type in which integers of `bits` bits are kept.
constexpr DType codeType(std::int64_t bits) { return bits > 4 ? DType::U8 : DType::U4; }

/// A matrix of `at(row, column)`, U8 or U4.
template <class At> ParameterData smallIntegers(DType type, std::int64_t rows, std::int64_t columns, const At &at) {
  ParameterData data{type, {rows, columns}, {}, {}};
  auto bytes = std::make_shared<std::vector<std::byte>>(byteSize(type, data.shape));
  const std::int64_t perByte = isPacked(type) ? 2 : 1, rowBytes = (columns - 1) / perByte + 1;
  constexpr std::int64_t rowsAtOnce = 16; // A word along the rows is read for all of them while it is in the cache.
  for (std::int64_t first = 0; first < rows; first += rowsAtOnce)
    for (std::int64_t byte = 0; byte < rowBytes; ++byte)
      for (std::int64_t row = first; row < std::min(first + rowsAtOnce, rows); ++row) {
        const std::int64_t column = byte * perByte;
        unsigned value = at(row, column);
        if (perByte == 2 && column + 1 < columns)
          value |= at(row, column + 1) << 4;
        (*bytes)[static_cast<std::size_t>(row * rowBytes + byte)] = static_cast<std::byte>(value);
      }
  data.bytes = *bytes;
  data.owner = bytes;
  return data;
}

/// Which of `candidates` bits the integers of a line of `count` have that fill `words` words; Unreadable for none, and
/// for several.
std::int64_t bitsOf(std::string_view name, std::int64_t words, std::int64_t count,
                    std::span<const std::int64_t> candidates);

/// How many of K columns share a scale, where there are `groups`: what the config says, if it fits, else equal parts.
std::int64_t groupSize(std::int64_t said, std::int64_t k, std::int64_t groups);

/// QuantisedMatrix::order by the tensor that says to which group each of K columns belongs; none without it.
std::vector<std::int64_t> columnOrderOf(const Layer &layer, std::string_view name, std::int64_t k, std::int64_t group);

/// Gives `matrix` zeros of [rows, columns], or the one zero that they all are.
template <class At>
void setZeros(QuantisedMatrix &matrix, std::string name, DType type, std::int64_t rows, std::int64_t columns,
              const At &at) {
  const unsigned first = at(0, 0);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      if (at(row, column) != first) {
        matrix.zeros = LayerTensor{std::move(name), smallIntegers(type, rows, columns, at)};
        return;
      }
  matrix.zero = first;
}

} // namespace kfuse::ir::checkpoint
