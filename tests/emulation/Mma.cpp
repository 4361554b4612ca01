#include "tests/emulation/Mma.h"

#include "kfuse/half.h"

#include <bit>
#include <cstdint>
#include <utility>

namespace kfuse::test {

Fragment Fragment::of(MmaType type, const unsigned *rows, const unsigned *columns) {
  Fragment fragment;
  if (type == MmaType::Tf32) {
    auto cut = [](unsigned bits) { return std::bit_cast<float>(bits & 0xffffe000U); };
    for (int i = 0; i < 4; ++i)
      fragment.rows[i % 2][i / 2] = cut(rows[i]);
    for (int i = 0; i < 2; ++i)
      fragment.columns[i] = cut(columns[i]);
    return fragment;
  }
  auto half = [type](unsigned pair, int i) {
    const auto bits = static_cast<std::uint16_t>(pair >> i * 16);
    return type == MmaType::Bf16 ? bf16ToFloat(bits) : f16ToFloat(bits);
  };
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j)
      fragment.rows[j % 2][j / 2 * 2 + i] = half(rows[j], i);
    for (int j = 0; j < 2; ++j)
      fragment.columns[j * 2 + i] = half(columns[j], i);
  }
  return fragment;
}

void addMma(float *sums, const Fragment *lanes, unsigned lane) {
  const Fragment *rows = lanes + lane / 4 * 4, *columns = lanes + lane % 4 * 8;
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 2; ++i)
      for (int part = 0; part < 4; ++part)
        for (int k = 0; k < 4; ++k)
          sums[half * 2 + i] += rows[part].rows[half][k] * columns[i * 4 + part].columns[k];
}

void loadMatrices(unsigned *to, const MatrixRow *rows, unsigned lane, bool isTransposed) {
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    unsigned pair[2];
    for (unsigned i = 0; i < 2; ++i) {
      unsigned y = lane / 4, x = lane % 4 * 2 + i;
      if (isTransposed)
        std::swap(x, y);
      pair[i] = rows[matrix * 8 + y].halves[x];
    }
    to[matrix] = pair[0] | pair[1] << 16;
  }
}

} // namespace kfuse::test
