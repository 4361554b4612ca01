// What the tiles of one config make of a region's work. Plain data.
#pragma once

namespace kfuse::codegen {

/// Lower bounds: a config never does less.
struct TileWork {
  double flops = 0;      ///< With tiles filled up, and the waves of tiles that multiprocessors run.
  double cacheBytes = 0; ///< Read from the last-level cache into multiprocessors: an operand once a tile; 0: unknown.
};

} // namespace kfuse::codegen
