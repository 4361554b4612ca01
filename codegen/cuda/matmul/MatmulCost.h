// What the estimates of products share.
#pragma once

#include "codegen/cuda/matmul/MatmulProblem.h"

namespace kfuse::codegen::cuda {

/// What the estimates of both templates need to know of a config.
struct MatmulCost {
  double tileM = 0, tileN = 0, splits = 1;
  double flopsPerUsPerSm = 0; ///< The rate of all blocks resident on an SM together.
  double blocksPerSm = 1;
  double elementBytes = 2;
  double latencyUs = 0;     ///< What a block takes at least, however fast its SM.
  double inFlightBytes = 0; ///< Bytes that a block keeps requested.
};

/// The bytes of the right operands of all products and batches.
double weightBytes(const MatmulProblem &problem);

/// What it costs, in bytes of HBM, that blocks of several tiles down read the same weights: though the last-level cache
/// has them, each of its halves fetches a `share` of them.
double bytesReadAgain(const MatmulProblem &problem, int64_t rowsAtOnce, double share);

/// A time of `us` at full clocks, of which an SM multiplies for `mathUs`, at the clocks that the card's power leaves: a
/// product that multiplies for more than 0.6 of its time takes longer, by 0.4 of what is beyond. Fitted to 39 products
/// of 8 to 32768 rows on an H200, whose SMs run at 1380 to 1480 MHz in the largest, at 1980 where memory bounds them.
double atPowerLimit(double us, double mathUs);

/// Waves of tiles at the given rate, bounded by HBM and L2 traffic, plus start, epilogue and split K.
double matmulUs(const Region &region, const MatmulProblem &problem, const MatmulCost &cost, const ir::Target &target);

} // namespace kfuse::codegen::cuda
