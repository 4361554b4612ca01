// What a config of cuda.rows makes of a region: how its rows are dealt out, what that takes of an SM, and how long.
#pragma once

#include "codegen/KernelTemplate.h"
#include "codegen/cuda/rows/RowPrinter.h"
#include "codegen/cuda/rows/RowTile.h"

#include <map>

namespace kfuse::codegen::cuda {

inline RowStorage storageOf(const TileConfig &config) { return static_cast<RowStorage>(config["storage"]); }

/// Rows that each of a block's groups of threads takes of a tile in shared memory; 0 where there is no tile.
inline int64_t rowsEachOf(const TileConfig &config) { return config.valueOr("rows_each", 0); }
inline int64_t rowsOfBlock(const TileConfig &config) {
  return config["rows"] * std::max<int64_t>(1, rowsEachOf(config));
}

/// What no config changes.
struct RowWork {
  RowWork(const LinearGraph &graph, const RowPasses &passes);

  const RowLoads &loadsOf(const TileConfig &config) const { return loads.at(storageOf(config)); }

  std::map<RowStorage, RowLoads> loads;
  double instructions = 0; ///< For an element, in all passes.
  RowTile tile;
};

/// What a config asks of an SM, before it is compiled.
struct RowResources {
  RowResources(const LinearGraph &graph, const RowPasses &passes, const RowWork &work, const TileConfig &config,
               const ir::Target &target);

  bool fit() const { return blocksPerSm >= 1 && registers <= 224; }
  /// Rows that fit on the device together.
  int64_t rowsAtOnce(const TileConfig &config, const ir::Target &target) const;

  double registers = 0; ///< Per thread.
  int64_t sharedBytes = 0;
  int64_t blocksPerSm = 0;
};

/// Modelled microseconds of one config.
double rowsUs(const Region &region, const LinearGraph &graph, const RowPasses &passes, const RowWork &work,
              const TileConfig &config, const ir::Target &target);

} // namespace kfuse::codegen::cuda
