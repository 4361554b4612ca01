// What a config makes of a chain: tiles, blocks, shared memory, and the time that it should take.
#pragma once

#include "codegen/cuda/chain/ChainProblem.h"

namespace kfuse::codegen::cuda {

constexpr std::int64_t chainPanelRows = 64;     ///< The instruction's rows, which are columns of the result.
constexpr std::int64_t chainEpilogueVector = 4; ///< Neighbouring columns that a thread finishes.

/// In shared memory lie the ring, the partial sums of each warpgroup, the barriers, the layers' values, and what warps
/// send each other of rows that are reduced.
struct ChainShape {
  std::int64_t rows, columns; ///< A tile's columns and rows of the result.
  std::int64_t groupsK, stages;
  std::int64_t clusterColumns; ///< Blocks that share whole rows (device/chain/chain_cluster.cuh).

  explicit ChainShape(const TileConfig &config)
      : rows(config["n"]), columns(config["m"]), groupsK(config["groups_k"]), stages(config["stages"]),
        clusterColumns(config["cluster_n"]) {}

  std::int64_t threads() const { return warps() * 32 + 64; }
  std::int64_t warps() const { return rows / chainPanelRows * groupsK * 4; }
  /// Whether accumulators and a reserve fit registers, which four warps are given together, in eights.
  bool fitsRegisters(const ir::Target &target) const;

  std::int64_t stageBytes() const;
  std::int64_t partialsOffset() const { return stages * stageBytes(); }
  std::int64_t barriersOffset() const { return partialsOffset() + groupsK * columns * rows * 4; }
  /// A stage's barriers: full, empty, and that of those who await tokens; then one of the result.
  std::int64_t layersOffset() const { return barriersOffset() + stages * 24 + 8; }
  std::int64_t exchangeOffset(const ChainProblem &chain) const;
  std::int64_t sharedBytes(const ChainProblem &chain) const;

  std::int64_t blocks(const ChainProblem &chain) const;
  /// Tiles of a layer that one place on the device computes, one after the other.
  std::int64_t turns(const ChainProblem &chain, const ir::Target &target) const;

  /// Modelled microseconds.
  double estimateUs(const ChainProblem &chain, const ir::Target &target) const;
};

} // namespace kfuse::codegen::cuda
