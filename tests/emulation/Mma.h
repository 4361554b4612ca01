// mma.sync and ldmatrix, as the PTX manual describes them.
#pragma once

#include "tests/emulation/EmulatorApi.h"

#include <cstdint>

namespace kfuse::test {

/// What a lane holds of both operands. Lane l has of rows l / 4 and l / 4 + 8, and of column l / 4, the elements
/// l % 4 * 2 and the next along K, then those 8 further; of tf32, elements l % 4 and l % 4 + 4.
struct Fragment {
  float rows[2][4] = {}, columns[4] = {};

  static Fragment of(MmaType type, const unsigned *rows, const unsigned *columns);
};

/// Adds a warp's product to the sums of a lane: rows l / 4 and l / 4 + 8, columns l % 4 * 2 and the next of each.
void addMma(float *sums, const Fragment *lanes, unsigned lane);

/// A row of 8 halves that a lane names to ldmatrix.
struct MatrixRow {
  std::uint16_t halves[8];
};

/// Gives a lane l elements (l / 4, l % 4 * 2) and the next of four matrices of 8x8, whose rows are the lanes' in turn.
void loadMatrices(unsigned *to, const MatrixRow *rows, unsigned lane, bool isTransposed);

} // namespace kfuse::test
