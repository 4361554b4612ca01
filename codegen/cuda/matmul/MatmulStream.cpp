// cuda.matmul_stream: products of few rows on tensor cores, whose weights stream once through registers.
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/matmul/Streamed.h"
#include "codegen/cuda/matmul/StreamedPanels.h"
#include "codegen/cuda/matmul/Templates.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace kfuse::codegen::cuda {

using namespace streamed;

namespace {

constexpr int64_t leastRows = 3;      ///< With fewer cuda.gemv issues less.
constexpr size_t mostCandidates = 12; ///< All that there are.
constexpr int64_t lineBytes = 128;    ///< The K block that a warp takes at a time.

/// Accumulators, K blocks in flight, and what addresses and the loop were seen to take, more of it where K blocks wait
/// for each other.
int64_t registersOf(const MatmulProblem &problem, const TileConfig &config) {
  const int64_t columns = columnsOf(problem, config), rows = rowsOf(problem);
  const int64_t kBlock = (columns + rows) * lineBytes / 32 / 4;
  const int64_t widened =
      byteWidth(problem.elementType(1)) == 1 ? columns - panelColumns : 0; // Elements of 8 bits become f16.
  return rows * columns / 32 + config["unroll"] * kBlock + widened + (config["unroll"] > 1 ? 28 : 14);
}

int64_t blocksPerSm(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target) {
  const int64_t threads = threadsOf(config), registers = (registersOf(problem, config) + 7) / 8 * 8;
  return std::min({target.registersPerSm / (registers * threads), target.threadsPerSm / threads,
                   (target.sharedBytesPerBlock + 1024) / (sharedBytes(problem, config) + 1024)});
}

/// What the estimate knows of an H200, fitted to 100 configs on eight products of 4 to 16 rows (root mean square 5 % of
/// those within 12 % of the best); the overlap, waves and sums to nine products of 8 to 16 rows (commits df62920 and
/// e19a952). The sweeps were not kept.
struct Coefficients {
  double startUs = 0.2;      ///< A kernel's start.
  double overlap = 0.3;      ///< What of the shorter of HBM and SM shows beside the longer.
  double reachSpeedup = 3.5; ///< What reaches all SMs, over nominal HBM bandwidth.
  double turnUs = 0.11;      ///< A warp's turn, for all K blocks that it has in flight.
  double waveUs = 2;         ///< A further wave of blocks.
  double sumUs = 1.3e-4;     ///< One of all warps' partial sums.
};
constexpr Coefficients h200;

/// Modelled microseconds: HBM at the depth of the loads in flight, or what reaches the busiest SM; a latency for each
/// turn of a warp, and the warps' partial sums.
double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  const auto sms = static_cast<double>(target.multiprocessors);
  const auto blocks = static_cast<double>(ceilDiv(problem.N, config["panels"] * panelColumns) * problem.batches);
  const auto resident = static_cast<double>(blocksPerSm(problem, config, target));
  const auto columns = static_cast<double>(columnsOf(problem, config)), rows = static_cast<double>(rowsOf(problem));
  const auto split = static_cast<double>(config["split"]);
  const double bytesK = static_cast<double>(problem.K) * static_cast<double>(byteWidth(problem.elementType(1)));
  // A warp has no more K blocks in flight than its share of K holds.
  const double kBlocks = bytesK / lineBytes / split;
  const double unrolled = std::min(static_cast<double>(config["unroll"]), std::ceil(kBlocks));
  const double inFlight =
      std::min(resident, blocks / sms) * split * unrolled * columns * static_cast<double>(lineBytes);
  const double hbmUs = memoryUs(region.bytesRead + region.bytesWritten, inFlight, target);
  // One of the blocks on an SM reads the rows, the others find them in its L1: 16 x 8192 x 28672 takes 121 us with
  // blocks of 16 warps and two K blocks each, of which an SM holds one, and 110 with four warps.
  const double rowsMissed = 1 / std::min(resident, std::ceil(blocks / sms));
  const double reachUs = std::ceil(blocks / sms) * (columns + rowsMissed * rows) * bytesK * sms /
                         (target.memoryBytesPerUs * h200.reachSpeedup);
  const double wavesUs = blocks > sms * resident ? h200.waveUs : 0;
  const double boundUs = std::max(hbmUs, reachUs) + h200.overlap * std::min(hbmUs, reachUs);
  const double turnsUs = h200.turnUs * std::ceil(kBlocks / unrolled), sumsUs = h200.sumUs * split * rows * columns;
  return target.launchUs + h200.startUs + boundUs + wavesUs + turnsUs + sumsUs;
}

class MatmulStreamTemplate : public MatmulVariant {
public:
  MatmulStreamTemplate() : MatmulVariant({5, mostCandidates, MultiplyUnit::MmaSync, RowCount::Some}) {}

  std::string_view name() const override { return "cuda.matmul_stream"; }
  ir::FusionDecision takes(const Region &region, const MatmulProblem &problem, const ir::Target &target) const override;
  std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                     const ir::Target &target) const override;
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override;
};

ir::FusionDecision MatmulStreamTemplate::takes(const Region &region, const MatmulProblem &problem,
                                               const ir::Target &target) const {
  if (ir::FusionDecision taken = takenByMmaSync(problem, target); !taken)
    return taken;
  if (problem.M < leastRows || problem.M > mostRows)
    return ir::FusionDecision::no("has " + std::to_string(problem.M) + " rows; " + std::to_string(leastRows) + " to " +
                                  std::to_string(mostRows) + " stream well");
  if (problem.batches > 65535)
    return ir::FusionDecision::no("has more than 65535 batches");
  for (unsigned product = 0; product < problem.count(); ++product)
    for (unsigned side : {0, 1})
      if (std::string refusal = whyNotStreamed(problem, side, product); !refusal.empty())
        return ir::FusionDecision::no(refusal);
  if (ir::FusionDecision multiplied = multipliedByMmaSync(problem, /*takesTf32=*/false); !multiplied)
    return multiplied;
  return printable(region);
}

std::vector<EstimatedConfig> MatmulStreamTemplate::space(const Region &region, const MatmulProblem &problem,
                                                         const ir::Target &target) const {
  std::vector<EstimatedConfig> all;
  for (int64_t split : {4, 8, 16})
    for (int64_t panels : {1, 2})
      for (int64_t unroll : {1, 2}) {
        const TileConfig config{{"split", split}, {"panels", panels}, {"unroll", unroll}};
        const bool isTooWide = panels > 1 && panels * panelColumns >= 2 * problem.N;
        if (!isTooWide && blocksPerSm(problem, config, target) >= 1)
          all.emplace_back(estimate(region, problem, config, target), config);
      }
  return all;
}

Result<KernelPlan> MatmulStreamTemplate::print(const Region &region, const TileConfig &config,
                                               const ir::Target &target) const {
  const MatmulProblem problem = *MatmulProblem::of(region);
  const MatrixOperand a = MatrixOperand::of(problem, 0);
  // What all matrix templates print: a tile of this shape, not split over launches.
  const TileConfig frame = config.with("m", problem.M)
                               .with("n", config["panels"] * panelColumns)
                               .with("k", lineBytes / static_cast<int64_t>(byteWidth(problem.elementType(1))))
                               .with("split_k", 1)
                               .with("swizzle", 1);
  MatmulPrinter printer(region, problem, frame, target, epilogueVector);
  printer.writeHead("gemm_stream.cuh");
  printer.writeConfig(threadsOf(config), {"static constexpr int panels = " + std::to_string(config["panels"]) +
                                              ", split = " + std::to_string(config["split"]) +
                                              ", unroll = " + std::to_string(config["unroll"]) + ";",
                                          fetchField(region, problem, columnBytes(problem), target)});
  printer.writeOperand(a, "A", "m");
  const std::string left =
      "StoredRows<A, " + storedType(problem.elementType(0)).str() + ">{in" + std::to_string(a.input) + "}";
  const std::string right = printer.writeRightOperands("Weights", "TwoWeights");
  printer.writeEpilogue();
  printer.writeEntries([&](const std::string &epilogue) {
    return "gemmStream<Config>(" + left + ", " + right + ", " + epilogue + ");";
  });
  KernelPlan plan = printer.plan(threadsOf(config), sharedBytes(problem, config));
  plan.launches.front().grid = {static_cast<uint32_t>(ceilDiv(problem.N, config["panels"] * panelColumns)),
                                static_cast<uint32_t>(problem.batches), 1};
  return plan;
}

} // namespace

const MatmulVariant &matmulStreamTemplate() {
  static const MatmulStreamTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
