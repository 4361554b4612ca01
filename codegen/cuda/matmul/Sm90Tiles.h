// What a config of cuda.matmul_sm90 makes of a product: registers, shared memory, the grid, how a last wave that tiles
// do not fill is worked off, and the time that it should take.
#pragma once

#include "codegen/cuda/matmul/Tma.h"

#include <optional>
#include <set>

namespace kfuse::codegen::cuda::sm90 {

constexpr int64_t lineBytes = 128;
constexpr int64_t consumerWarps = 8;

/// Columns of all products in a tile.
inline int64_t columnsOf(const MatmulProblem &problem, const TileConfig &config) {
  return config["n"] * problem.count();
}
/// Whether the instruction's 64-row side lies along N, and a tile's rows of the result are its columns.
inline bool isSwapped(const TileConfig &config) { return config.valueOr("swap", 0) != 0; }
/// Columns of a result that a consumer warp collects at a time for TMA, with 16 rows of them.
int64_t storedColumns(const TileConfig &config);
/// Rows of a swapped result that a consumer warpgroup collects at a time for TMA, with 64 columns of them.
int64_t transposedRows(const TileConfig &config);
/// Accumulators of a thread, one a register.
int64_t accumulatorRegisters(const MatmulProblem &problem, const TileConfig &config);

/// A region's product, and its result where TMA can write it, whatever the config.
struct Problem : MatmulProblem {
  int64_t inputs; ///< Those that the result is computed from: not the lengths that say how many rows a run has.
  std::optional<TmaResult> placed;

  explicit Problem(MatmulProblem problem);

  /// Operands of the epilogue that threads load, as a bias.
  int64_t loaded() const { return inputs - static_cast<int64_t>(count()) - 1 - (placed && placed->read ? 1 : 0); }
  /// The result as TMA writes it in a config, or null where warps stage it as f32 instead, since a thread does not hold
  /// what TMA takes beside its accumulators. Where rows are reduced an epilogue takes two columns a lane either way.
  const TmaResult *resultThroughTma(const TileConfig &config) const;
};

/// A block's shared memory: the ring, barriers, and what warps stage.
int64_t sharedBytes(const Problem &problem, const TileConfig &config);

/// The clusters of a launch, and the tiles that they walk.
struct Grid {
  int64_t tall, wide, tiles, clusters; ///< Cluster tiles down, across and in all; clusters launched.
  int64_t streamKTiles = 0; ///< Tiles of a last wave that is not full, whose K is shared (device/matmul/tile_walk.cuh).
  int64_t contributors = 0; ///< Clusters without one of them, which compute segments of them.
  int64_t segments = 1, segmentBlocks = 0; ///< Segments of a tile that contributors have, and the K blocks of each.
  int64_t places = 0;                      ///< Cluster tiles of partial sums that may lie in memory together.

  bool isStreamK() const { return streamKTiles > 0; }
};
constexpr int64_t leastBlocks = 4; ///< The fewest K blocks of a segment.
constexpr int64_t segmentCost = 3; ///< K blocks that a segment is taken to cost beside its own (docs/experiments.md).
/// Whether a config shares the last tiles of as many rows as a run has.
bool sharesTilesOfRun(const MatmulProblem &problem, const TileConfig &config);
/// Contributors compute up to config["segments"] segments of each tile of the last wave, so deep that they take as long
/// as what is left of it. Some may have none: 100 segments are 25 times four for 32 contributors.
Grid gridOf(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target);

/// Into how many segments beside what is left the tiles of a last wave that is not full may be cut: one, or as many as
/// there are contributors for; where a run's rows decide, at most. None where warpgroups share a tile, or where an
/// epilogue stages its own accumulators as f32.
std::set<int64_t> segmentsOf(const Problem &problem, const TileConfig &config, const ir::Target &target);

/// Modelled microseconds: the tiles that the busiest cluster walks, at the rate of the tensor cores or of
/// what feeds them, and what no other work hides of each tile's end. The constants here and in the other variants'
/// estimates fit 3800 configs on 24 shapes measured back to back on an H200 (docs/tuning.md), and all 7260 of 27 more;
/// these sweeps were not kept.
double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config, const ir::Target &target);

} // namespace kfuse::codegen::cuda::sm90
