// How the threads of a kernel deal out the results of windows, and in what pieces they read them.
#pragma once

#include "codegen/cuda/rows/WindowProblem.h"

namespace kfuse::codegen::cuda {

/// How threads deal out the results of a problem: `strip` by `rows` of them each, times `vector` channels where these
/// are dense.
struct WindowTiles {
  WindowTiles(const WindowProblem &problem, const TileConfig &config);

  int64_t strip, rows, vector;
  int64_t lanes; ///< Threads of neighbouring vectors, before the next strip.
  int64_t count; ///< Threads that have a tile.
  /// Along each dimension of the results, in tiles; the dense one in groups of `lanes` vectors.
  llvm::SmallVector<int64_t, 6> counts;
};

/// The elements, a power of two up to `most`, of aligned accesses to a window's positions, where these are neighbours
/// in memory; in `lead`, how many elements the first access begins ahead of the first position. 1 where positions lie
/// anywhere.
int64_t windowAccess(const WindowProblem &problem, const WindowOperand &operand, int64_t strip, int64_t most,
                     int64_t &lead);

} // namespace kfuse::codegen::cuda
