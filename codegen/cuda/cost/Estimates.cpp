#include "codegen/cuda/cost/Estimates.h"

#include <algorithm>
#include <cmath>

namespace kfuse::codegen::cuda {

std::vector<EstimatedConfig> fastest(std::vector<EstimatedConfig> ranked, std::size_t most) {
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(std::min(ranked.size(), most));
  return ranked;
}

double memoryUs(double bytes, double inFlight, const ir::Target &target) {
  constexpr double latencyUs = 0.7; // HBM's by rule of thumb, not measured.
  double needed = target.memoryBytesPerUs * latencyUs / target.multiprocessors;
  return bytes / (target.memoryBytesPerUs * std::min(1.0, inFlight / needed));
}

double streamUs(double read, double written, double inFlight, const ir::Target &target) {
  constexpr double latencyUs = 1, ofNominal = 0.9; // Copies reach 4.3 of an H200's 4.8 TB/s; the latency is by hand.
  double waiting = read * latencyUs / (inFlight * target.multiprocessors);
  return std::hypot(waiting, (read + written) / (ofNominal * target.memoryBytesPerUs));
}

namespace {

/// What streamingGridUs() knows of an H200. These, and the instructions and waits that templates count, fit 280 configs
/// of seven row kernels (256 x 1024 to 4096 x 4096) and 480 of ten elementwise ones, in bf16 (commit a15c9e7; the sweep
/// was not kept).
struct Coefficients {
  double busShare = 0.88, issueShare = 0.75; ///< Shares of nominal rates.
  double latencyUs = 0.45;                   ///< A load's.
  double usPerInstruction = 2 / 1755.;       ///< That of each instruction that follows a load in its thread.
  double startUs = 0.14;                     ///< An SM starts a block in 280 clocks.
  double sharpness = 6;                      ///< Terms within 10 % of each other add 12 %.
  double shown = 0.4;                        ///< What shows of the first part's latency; the rest overlaps the launch.
};
constexpr Coefficients h200;

} // namespace

double streamingGridUs(const StreamingGrid &grid, const ir::Target &target) {
  double parts = std::ceil(grid.blocks / target.multiprocessors); // On the busiest SM.
  double atOnce = std::clamp(parts, 1.0, std::max(1.0, grid.blocksPerSm));
  double partUs = h200.latencyUs + grid.instructions * h200.usPerInstruction + grid.waitsUs;
  double sum = 0;
  for (double us :
       {grid.bytes / (h200.busShare * target.memoryBytesPerUs),
        issueUs(parts * grid.threads * grid.instructions * target.multiprocessors, target) / h200.issueShare,
        parts / atOnce * partUs, (grid.startsOnce ? atOnce : parts) * h200.startUs})
    sum += std::pow(us, h200.sharpness);
  return std::pow(sum, 1 / h200.sharpness) + h200.shown * partUs;
}

} // namespace kfuse::codegen::cuda
