#include "tests/emulation/Wgmma.h"

#include "kfuse/half.h"
#include "tests/emulation/TensorBox.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>

namespace kfuse::test {
namespace {

float tf32ToFloat(std::uint32_t bits) { return std::bit_cast<float>(bits & 0xffffe000U); }

/// What an instruction has of a row along K.
template <class Bits> constexpr std::size_t depthOf = 32 / sizeof(Bits);
template <class Bits> using Line = std::array<float, depthOf<Bits>>;

template <class Bits, auto toFloat> Line<Bits> floatsOf(const std::array<Bits, depthOf<Bits>> &bits) {
  Line<Bits> values;
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k] = toFloat(bits[k]);
  return values;
}

/// use.operator()<Bits, toFloat>() of a type.
template <class Use> void withType(DType type, Use use) {
  switch (type) {
  case DType::BF16:
    return use.template operator()<std::uint16_t, bf16ToFloat>();
  case DType::F16:
    return use.template operator()<std::uint16_t, f16ToFloat>();
  case DType::F8E4M3:
    return use.template operator()<std::uint8_t, e4m3ToFloat>();
  case DType::F8E5M2:
    return use.template operator()<std::uint8_t, e5m2ToFloat>();
  default:
    return use.template operator()<std::uint32_t, tf32ToFloat>();
  }
}

/// By halves, which the compiler makes vectors of.
template <std::size_t depth> float dot(const std::array<float, depth> &a, const std::array<float, depth> &b) {
  std::array<float, depth> products;
  for (std::size_t k = 0; k < depth; ++k)
    products[k] = a[k] * b[k];
  for (std::size_t half = depth / 2; half > 0; half /= 2)
    for (std::size_t k = 0; k < half; ++k)
      products[k] += products[k + half];
  return products[0];
}

/// An operand in shared memory: its "rows" are the product's rows or columns (PTX ISA, "Matrix descriptor format").
struct Matrix {
  std::span<const std::byte> shared;
  unsigned long long descriptor;
  DType type;
  bool isTransposed;
  unsigned start = (descriptor & 0x3fff) * 16, leading = (descriptor >> 16 & 0x3fff) * 16,
           stride = (descriptor >> 32 & 0x3fff) * 16; ///< Bytes.

  /// Whether it is swizzled by 128 bytes from multiples of 1024 on, and its last element lies in shared memory.
  bool isLegal(int rows, int depth) const {
    const auto width = static_cast<unsigned>(byteWidth(type));
    return descriptor >> 62 == 1 && (descriptor >> 49 & 7) == 0 &&
           (addressOf(rows - 1, depth - 1, width) | 127) < shared.size();
  }

  /// A row, or column, along K: 32 bytes, which lie in two pieces or element by element.
  template <class Bits, auto toFloat> Line<Bits> line(unsigned row) const {
    std::array<Bits, depthOf<Bits>> bits;
    if (isTransposed)
      for (unsigned k = 0; k < bits.size(); ++k)
        std::memcpy(&bits[k], shared.data() + swizzled(addressOf(row, k, sizeof(Bits)), 128), sizeof(Bits));
    else
      for (unsigned k = 0; k < bits.size(); k += bits.size() / 2)
        std::memcpy(&bits[k], shared.data() + swizzled(addressOf(row, k, sizeof(Bits)), 128), sizeof(bits) / 2);
    return floatsOf<Bits, toFloat>(bits);
  }

private:
  /// With K contiguous eight rows of 128 bytes make an atom, and atoms lie `stride` apart. Else a line of 128 bytes is
  /// 64 rows at one k, and eight lines make an atom: along K they lie `stride` apart, along the rows `leading`.
  unsigned addressOf(unsigned row, unsigned k, unsigned width) const {
    const unsigned perLine = 128 / width;
    return isTransposed ? start + row / perLine * leading + k / 8 * stride + k % 8 * 128 + row % perLine * width
                        : start + row / 8 * stride + row % 8 * 128 + k * width;
  }
};

} // namespace

std::optional<WgmmaInstruction> WgmmaInstruction::parse(const std::string &text) {
  WgmmaInstruction to;
  std::array<char, 8> rows{}, columns{};
  int scaleRows = 0, scaleColumns = 0, turnsRows = 0, turnsColumns = 0;
  const int found =
      std::sscanf(text.c_str(), "m64n%dk%d.f32.%7[a-z0-9].%7[a-z0-9] %d, %d, %d, %d", &to.columns, &to.depth,
                  rows.data(), columns.data(), &scaleRows, &scaleColumns, &turnsRows, &turnsColumns);
  const std::map<std::string, DType> types = {{"bf16", DType::BF16},
                                              {"f16", DType::F16},
                                              {"tf32", DType::F32},
                                              {"e4m3", DType::F8E4M3},
                                              {"e5m2", DType::F8E5M2}};
  if (!types.contains(rows.data()) || !types.contains(columns.data()) || scaleRows != 1 || scaleColumns != 1)
    return std::nullopt;
  to.rowsType = types.at(rows.data()), to.columnsType = types.at(columns.data());
  to.areRowsTransposed = turnsRows != 0, to.areColumnsTransposed = turnsColumns != 0;
  const auto width = static_cast<int>(byteWidth(to.rowsType));
  to.areRowsInRegisters = found == 7 && width == 2;
  if (to.areRowsInRegisters)
    to.areRowsTransposed = false, to.areColumnsTransposed = turnsRows != 0;
  const bool areTypesLegal = to.rowsType == to.columnsType || (width == 1 && byteWidth(to.columnsType) == 1);
  const bool isLegal = areTypesLegal && (to.areRowsInRegisters || found == (width == 2 ? 8 : 6)) &&
                       to.depth * width == 32 && to.columns % 8 == 0 && to.columns <= 256;
  return isLegal ? std::optional(to) : std::nullopt;
}

/// sums (+)= the thread's two rows times all columns, of which it has two neighbours of every eight.
template <class Bits, auto toFloat>
static void addProducts(int count, unsigned thread, float *sums, const std::array<Line<Bits>, 2> &rows,
                        const Matrix &columns, bool accumulate) {
  for (int j = 0; j < count / 8; ++j)
    for (int i = 0; i < 2; ++i) {
      const Line<Bits> column = columns.line<Bits, toFloat>(j * 8 + thread % 4 * 2 + i);
      for (int half = 0; half < 2; ++half) {
        float &sum = sums[j * 4 + half * 2 + i];
        const float product = dot(rows[half], column);
        sum = accumulate ? sum + product : product;
      }
    }
}

bool WgmmaInstruction::multiply(std::span<const std::byte> shared, unsigned thread, float *sums,
                                unsigned long long rowsDescriptor, unsigned long long columnsDescriptor,
                                bool accumulate) const {
  const Matrix a{shared, rowsDescriptor, rowsType, areRowsTransposed},
      b{shared, columnsDescriptor, columnsType, areColumnsTransposed};
  if (areRowsInRegisters || !a.isLegal(64, depth) || !b.isLegal(columns, depth))
    return false;
  // Rows lane / 4 and lane / 4 + 8 of the warp's 16.
  const unsigned first = thread / 32 * 16 + thread % 32 / 4;
  withType(rowsType, [&]<class RowBits, auto rowToFloat>() {
    withType(columnsType, [&]<class Bits, auto toFloat>() {
      if constexpr (sizeof(Bits) == sizeof(RowBits)) // parse() has refused all others.
        addProducts<Bits, toFloat>(columns, thread, sums,
                                   {a.line<RowBits, rowToFloat>(first), a.line<RowBits, rowToFloat>(first + 8)}, b,
                                   accumulate);
    });
  });
  return true;
}

bool WgmmaInstruction::multiply(std::span<const std::byte> shared, unsigned thread, float *sums,
                                const std::array<std::array<unsigned short, 16>, 2> &rows,
                                unsigned long long columnsDescriptor, bool accumulate) const {
  const Matrix b{shared, columnsDescriptor, columnsType, areColumnsTransposed};
  if (!areRowsInRegisters || !b.isLegal(columns, depth))
    return false;
  withType(rowsType, [&]<class Bits, auto toFloat>() {
    if constexpr (sizeof(Bits) == 2)
      addProducts<Bits, toFloat>(columns, thread, sums,
                                 {floatsOf<Bits, toFloat>(rows[0]), floatsOf<Bits, toFloat>(rows[1])}, b, accumulate);
  });
  return true;
}

} // namespace kfuse::test
