#include "codegen/cuda/matmul/MatmulCost.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace kfuse::codegen::cuda {

double weightBytes(const MatmulProblem &problem) {
  const double weights = static_cast<double>(problem.N * problem.K) * static_cast<double>(problem.count()) *
                         static_cast<double>(problem.batches);
  return weights * static_cast<double>(byteWidth(problem.elementType(1)));
}

double bytesReadAgain(const MatmulProblem &problem, int64_t rowsAtOnce, double share) {
  return problem.M <= rowsAtOnce ? 0 : share * weightBytes(problem);
}

double atPowerLimit(double us, double mathUs) {
  constexpr double sustainedShare = 0.6, slowing = 0.4; // An H200 at 700 W (commit 7e144e7; the sweep was not kept).
  return us * (1 + slowing * std::max(0.0, mathUs / us - sustainedShare));
}

namespace {

/// What matmulUs() knows of an H200: by hand, from the times named here and from mma.sync's configs measured back to
/// back (commit a4d04ff), which were not kept.
struct Coefficients {
  double startUs = 1.5;      ///< First loads, and the last stores.
  double l2Speedup = 2.0;    ///< Reads from the L2, over nominal HBM bandwidth.
  double readAgain = 0.15;   ///< 32 x 4096 x 4096 takes 13.0 us as two tiles of 16 rows, 10.3 where they share.
  double latencyUs = 0.55;   ///< HBM's. What is waited for and what HBM gives show both where they are near: 32 x 64
                             ///< tiles of 32 x 5120 x 8192 take 32, 27 and 25.6 us with 3, 4 and 5 stages.
  double hbmShare = 0.92;    ///< The share reached of the nominal HBM bandwidth.
  double splitUs = 2.6;      ///< The second launch of split K.
  double splitSpeedup = 2.2; ///< Its partial sums, over nominal HBM bandwidth.
  double shown = 0.3;        ///< What shows of the bound that comes second.
};
constexpr Coefficients h200;

} // namespace

double matmulUs(const Region &region, const MatmulProblem &problem, const MatmulCost &cost, const ir::Target &target) {
  auto M = static_cast<double>(problem.M), N = static_cast<double>(problem.N), K = static_cast<double>(problem.K);
  auto batches = static_cast<double>(problem.batches), products = static_cast<double>(problem.count());
  double tilesM = std::ceil(M / cost.tileM), tilesN = std::ceil(N / cost.tileN);
  double blocks = tilesM * tilesN * batches * cost.splits, slots = target.multiprocessors * cost.blocksPerSm;
  double waves = std::ceil(blocks / slots);

  // A partly filled wave still shares its SMs among fewer blocks.
  double resident = std::min(cost.blocksPerSm, std::ceil(blocks / target.multiprocessors));
  double blockUs = 2 * cost.tileM * cost.tileN * products * (K / cost.splits) / (cost.flopsPerUsPerSm / resident);
  double walkUs = waves * (std::max(blockUs, cost.latencyUs) + h200.startUs);

  double operands = (M * K * tilesN + K * N * products * tilesM) * cost.elementBytes * batches;
  double l2Us = operands / (target.memoryBytesPerUs * h200.l2Speedup);
  double bytes = region.bytesRead + region.bytesWritten +
                 bytesReadAgain(problem, static_cast<int64_t>(cost.tileM), h200.readAgain);
  double inFlight = std::min(1.0, blocks / target.multiprocessors) * resident * cost.inFlightBytes;
  double waitingUs = bytes * h200.latencyUs / (inFlight * target.multiprocessors);
  double hbmUs = std::hypot(waitingUs, bytes / (h200.hbmShare * target.memoryBytesPerUs));
  double partials = cost.splits > 1 ? cost.splits * M * N * batches * sizeof(float) : 0;
  double splitUs = partials > 0 ? h200.splitUs + 2 * partials / (target.memoryBytesPerUs * h200.splitSpeedup) : 0;
  std::array<double, 3> terms{walkUs, l2Us, hbmUs};
  std::sort(terms.begin(), terms.end());
  return target.launchUs + terms[2] + h200.shown * terms[1] + splitUs;
}

} // namespace kfuse::codegen::cuda
