// What the estimates of templates share: the issue of instructions, memory, grids that stream.
#pragma once

#include "codegen/TileConfig.h"
#include "ir/Target.h"

#include <vector>

namespace kfuse::codegen::cuda {

/// The first `most` configs by modelled time, the fastest first.
std::vector<EstimatedConfig> fastest(std::vector<EstimatedConfig> ranked, std::size_t most);

/// Microseconds to issue so many instructions of lanes on all SMs (128 a clock each).
inline double issueUs(double instructions, const ir::Target &target) {
  return instructions / (target.f32FlopsPerUs / 2);
}

/// Microseconds to move `bytes` through DRAM when `inFlight` bytes are requested on each SM at a time.
/// Little's law: 4.8 TB/s times 0.7 us of latency are 25 KB on each of 132 SMs.
double memoryUs(double bytes, double inFlight, const ir::Target &target);

/// The same for kernels that stream, with `inFlight` bytes of their reads under way on each SM: the time that reads
/// wait, 1 us of latency each, and that all bytes take on the bus add up as squares. A gather of 512 MB on an H200
/// takes 368, 277 and 257 us with 16, 32 and 64 KB; this says 357, 280 and 258.
double streamUs(double read, double written, double inFlight, const ir::Target &target);

/// A grid whose blocks each load their part, work on it and store it.
struct StreamingGrid {
  double bytes = 0;        ///< All that is moved.
  double blocks = 0;       ///< Parts, one after the other on as many blocks as fit.
  double threads = 0;      ///< Threads of a block.
  double blocksPerSm = 1;  ///< How many blocks fit on one.
  double instructions = 0; ///< Instructions of a thread.
  double waitsUs = 0;      ///< What a part waits for beyond its first bytes: barriers, further passes over memory.
  bool startsOnce = false; ///< Each block takes one part after the other.
};

/// Microseconds it takes after its launch: the bus, the issue of instructions, the latency of the parts that follow
/// each other on an SM and the start of their blocks overlap but for a little, and the first part's latency shows.
double streamingGridUs(const StreamingGrid &grid, const ir::Target &target);

} // namespace kfuse::codegen::cuda
