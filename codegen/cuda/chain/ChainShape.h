// What a config makes of a chain: tiles, blocks, shared memory, and the time that it should take.
#pragma once

#include "codegen/cuda/chain/ChainProblem.h"

namespace kfuse::codegen::cuda {

constexpr std::int64_t chainPanelRows = 64; ///< Of the result's columns, the instruction's rows.

/// In shared memory lie the ring, the sums of each warpgroup, the barriers, the links' values.
struct ChainShape {
  std::int64_t rows, columns; ///< Of a tile: the result's columns, and its rows.
  std::int64_t groupsK, stages;
  std::int64_t clusterRows, clusterColumns; ///< Blocks that share weights, or whole rows (device/chain.cuh).

  explicit ChainShape(const TileConfig &config)
      : rows(config["n"]), columns(config["m"]), groupsK(config["groups_k"]), stages(config["stages"]),
        clusterRows(config["cluster_m"]), clusterColumns(config["cluster_n"]) {}

  bool holdsRows() const { return clusterColumns > 1; }
  std::int64_t threads() const { return warps() * 32 + 64; }
  std::int64_t warps() const { return rows / chainPanelRows * groupsK * 4; }
  /// Whether sums and what else a thread holds fit registers, which four warps are given together, in eights.
  bool fitsRegisters(const ir::Target &target) const;

  std::int64_t stageBytes() const;
  std::int64_t partsOffset() const { return stages * stageBytes(); }
  std::int64_t barriersOffset() const { return partsOffset() + groupsK * columns * rows * 4; }
  /// A stage's barriers: full, empty and, in a cluster, that of those who await tokens; there also one of the result.
  std::int64_t linksOffset() const { return barriersOffset() + (holdsRows() ? stages * 24 + 8 : stages * 16); }
  std::int64_t sharedBytes(const ChainProblem &chain) const;

  /// Row blocks of a batch that clusters share, and all row blocks.
  std::int64_t rowBlocks(const ChainProblem &chain) const;
  /// What one row block of a link is in: tiles of a product, pieces of `rowsOfPart` rows.
  std::int64_t parts(const ChainProblem &chain, const Link &link, const ir::Target &target) const;
  std::int64_t tiles(const ChainProblem &chain, const Link &link, const ir::Target &target) const;
  /// Rows that a block takes at a time, a warp each: as few as give every block some.
  std::int64_t rowsOfPart(const ChainProblem &chain, const ir::Target &target) const;
  /// Of the launch. Where blocks wait for each other, those that are on the device together.
  std::int64_t blocks(const ChainProblem &chain, const ir::Target &target) const;
  /// Tiles of a link that one place on the device computes, one after the other.
  std::int64_t mostTurns(const ChainProblem &chain, const ir::Target &target) const;

  /// Modelled microseconds.
  double estimateUs(const ChainProblem &chain, const ir::Target &target) const;
};

} // namespace kfuse::codegen::cuda
