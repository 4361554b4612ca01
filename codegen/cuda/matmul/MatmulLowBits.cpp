// cuda.matmul_low_bits: products of few rows with weights of 4 or 8 bits, which become floats in registers.
#include "codegen/KernelLimits.h"
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/matmul/LowBitSide.h"
#include "codegen/cuda/matmul/Streamed.h"
#include "codegen/cuda/matmul/StreamedPanels.h"
#include "codegen/cuda/matmul/Templates.h"

#include <algorithm>

using namespace mlir;

namespace kfuse::codegen::cuda {

using namespace streamed;

namespace {

constexpr size_t mostCandidates = 24;
constexpr int64_t lineBytes = 64; ///< What a warp takes of a column at a time: sixteen bytes for each of four lanes.

/// Registers of a thread that device/matmul/gemm_low_bits.cuh declares: for K blocks in flight each column's scale and
/// zero; the left operand as it came and in pairs, sums and accumulators of each eight rows; two columns' weights as
/// they came and as floats.
int64_t declaredRegisters(const MatmulProblem &problem, const LowBitOperand &weights, const TileConfig &config) {
  const int64_t panels = config["panels"] * problem.count(), eights = rowsOf(problem) / 8,
                pairs = weights.perAccess() / 2;
  return config["unroll"] * panels * 4 + eights * (2 * pairs + 4 + 4 * panels) + 8 + 2 * pairs;
}
constexpr int64_t besideDeclared = 40; ///< Addresses and the loop, as of cuda.gemv.

/// The weights in flight, and behind them the warps' partial sums.
int64_t sharedBytesOf(const MatmulProblem &problem, const TileConfig &config) {
  return config["split"] * config["unroll"] * columnsOf(problem, config) * lineBytes + sharedBytes(problem, config);
}

/// What the estimate knows of an H200: what cuda.matmul_stream knows that is the same here (MatmulStream.cpp);
/// instructions by hand; overlap, turnUs and panelUs of 56 configs for 1 and 16 rows of 8192 x 8192, INT4, with driver
/// 580.159.04. Half of these take within 14 % of what is modelled, and the fastest is its first or second.
struct Coefficients {
  double startUs = 0.2;   ///< A kernel's start.
  double overlap = 0.37;  ///< What of the shorter of HBM and issue shows beside the longer.
  double turnUs = 0.18;   ///< A warp's turn, for all K blocks that it has in flight.
  double panelUs = 0.094; ///< A warp's time for a panel of a K block, one after the other.
  double waveUs = 2;      ///< A further wave of blocks.
  double sumUs = 1.3e-4;  ///< One of all warps' partial sums.
  /// Instructions: 1.4 make a float of a weight. Each K block's left operand is loaded and paired by every warp.
  double perWeight = 1.6, perProduct = 0.125, perPair = 1.6;
  /// Registers that a thread takes, for how many blocks an SM has: of it, of a pair of a K block's elements, a panel, a
  /// K block in flight and its panels; of eight more rows the same. What 36 configs took is within 21 of the sum, and
  /// on its side of 128, where two blocks of eight warps fit an SM (NVRTC 13.0, sm_90a).
  double ofThread = 5, ofPair = 2.9, ofPanel = 9.8, ofKBlock = 3.7, ofPanelOfKBlock = 2.3;
  double ofMoreRows = 5, ofTheirPair = 1.2, ofTheirPanel = 8.5;
};
constexpr Coefficients h200;

int64_t registersOf(const MatmulProblem &problem, const LowBitOperand &weights, const TileConfig &config) {
  const auto panels = static_cast<double>(config["panels"] * problem.count()),
             pairs = static_cast<double>(weights.perAccess()) / 2, unroll = static_cast<double>(config["unroll"]),
             moreEights = static_cast<double>(rowsOf(problem)) / 8 - 1;
  return static_cast<int64_t>(h200.ofThread + h200.ofPair * pairs + h200.ofPanel * panels +
                              unroll * (h200.ofKBlock + h200.ofPanelOfKBlock * panels) +
                              moreEights * (h200.ofMoreRows + h200.ofTheirPair * pairs + h200.ofTheirPanel * panels));
}

int64_t blocksPerSm(const MatmulProblem &problem, const LowBitOperand &weights, const TileConfig &config,
                    const ir::Target &target) {
  const int64_t threads = threadsOf(config), registers = (registersOf(problem, weights, config) + 7) / 8 * 8;
  return std::min({target.registersPerSm / (registers * threads), target.threadsPerSm / threads,
                   (target.sharedBytesPerBlock + 1024) / (sharedBytesOf(problem, config) + 1024)});
}

/// Modelled microseconds: HBM at the depth of the loads in flight, or what the lanes issue for each weight; the warps'
/// turns and partial sums as cuda.matmul_stream has them; and each panel that a warp multiplies, which few warps show.
double estimate(const Region &region, const MatmulProblem &problem, const LowBitOperand &weights,
                const TileConfig &config, const ir::Target &target) {
  const auto sms = static_cast<double>(target.multiprocessors);
  const auto blocks = static_cast<double>(ceilDiv(problem.N, config["panels"] * panelColumns));
  const auto resident = static_cast<double>(blocksPerSm(problem, weights, config, target));
  const auto columns = static_cast<double>(columnsOf(problem, config)), rows = static_cast<double>(rowsOf(problem));
  const auto split = static_cast<double>(config["split"]);
  const double kBlocks = static_cast<double>(weights.rowBytes) / lineBytes / split;
  const double unrolled = std::min(static_cast<double>(config["unroll"]), std::ceil(kBlocks));
  const double inFlight = std::min(resident, blocks / sms) * split * unrolled * columns * lineBytes;
  const double hbmUs = memoryUs(region.bytesRead + region.bytesWritten, inFlight, target);
  const double perWeight = h200.perWeight + rows / 8 * (h200.perProduct + h200.perPair * panelColumns / columns);
  const double count = static_cast<double>(problem.N * problem.count()) * static_cast<double>(problem.K);
  const double issuedUs = issueUs(count * perWeight, target);
  const double wavesUs = blocks > sms * resident ? h200.waveUs : 0;
  return target.launchUs + h200.startUs + std::max(hbmUs, issuedUs) + h200.overlap * std::min(hbmUs, issuedUs) +
         wavesUs + h200.turnUs * std::ceil(kBlocks / unrolled) +
         h200.panelUs * kBlocks * columns / static_cast<double>(panelColumns) + h200.sumUs * split * rows * columns;
}

class MatmulLowBitsTemplate : public MatmulVariant {
public:
  MatmulLowBitsTemplate()
      : MatmulVariant({6, mostCandidates, MultiplyUnit::MmaSync, RowCount::Few, /*isForLowBits=*/true}) {}

  std::string_view name() const override { return "cuda.matmul_low_bits"; }
  ir::FusionDecision takes(const Region &region, const MatmulProblem &problem, const ir::Target &target) const override;
  std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                     const ir::Target &target) const override;
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override;
};

ir::FusionDecision MatmulLowBitsTemplate::takes(const Region &region, const MatmulProblem &problem,
                                                const ir::Target &target) const {
  if (ir::FusionDecision taken = takenByMmaSync(problem, target); !taken)
    return taken;
  const LowBitSide side = LowBitSide::of(region, problem);
  if (!side.refusal.empty())
    return ir::FusionDecision::no(side.refusal);
  if (problem.M > mostRows)
    return ir::FusionDecision::no("has " + std::to_string(problem.M) +
                                  " rows; weights of 4 and 8 bits stream for up to " + std::to_string(mostRows));
  if (std::string refusal = whyNotStreamed(problem, 0, 0); !refusal.empty())
    return ir::FusionDecision::no(refusal);
  const LowBitOperand &weights = side.front();
  const int64_t access = weights.perAccess();
  if (problem.K % access != 0 || weights.rowBytes % 16 != 0 || (weights.block % access != 0 && weights.blocksOfRow > 1))
    return ir::FusionDecision::no("has K = " + std::to_string(problem.K) + " and blocks of " +
                                  std::to_string(weights.block) + "; weights of its type stream in pieces of " +
                                  std::to_string(access));
  return printable(region);
}

std::vector<EstimatedConfig> MatmulLowBitsTemplate::space(const Region &region, const MatmulProblem &problem,
                                                          const ir::Target &target) const {
  const LowBitOperand weights = LowBitOperand::of(region, 0);
  std::vector<EstimatedConfig> all;
  for (int64_t split : {2, 4, 8, 16})
    for (int64_t panels : {1, 2, 4})
      for (int64_t unroll : {1, 2, 4}) {
        const TileConfig config{{"split", split}, {"panels", panels}, {"unroll", unroll}};
        const bool isTooWide = panels > 1 && panels * panelColumns >= 2 * problem.N;
        if (!isTooWide && declaredRegisters(problem, weights, config) + besideDeclared <= mostRegisters &&
            blocksPerSm(problem, weights, config, target) >= 1)
          all.emplace_back(estimate(region, problem, weights, config, target), config);
      }
  return all;
}

Result<KernelPlan> MatmulLowBitsTemplate::print(const Region &region, const TileConfig &config,
                                                const ir::Target &target) const {
  const MatmulProblem problem = *MatmulProblem::of(region);
  const MatrixOperand a = MatrixOperand::of(problem, 0);
  const LowBitSide weights = LowBitSide::of(region, problem);
  // What all matrix templates print: a tile of this shape, not split over launches.
  const TileConfig frame = config.with("m", problem.M)
                               .with("n", config["panels"] * panelColumns)
                               .with("k", 4 * weights.front().perAccess())
                               .with("split_k", 1)
                               .with("swizzle", 1);
  MatmulPrinter printer(region, problem, frame, target, epilogueVector);
  printer.writeHead("gemm_low_bits.cuh");
  printer.writeConfig(threadsOf(config), {"static constexpr int panels = " + std::to_string(config["panels"]) +
                                              ", split = " + std::to_string(config["split"]) +
                                              ", unroll = " + std::to_string(config["unroll"]) + ";",
                                          fetchField(region, problem, weights.front().rowBytes, target)});
  printer.writeOperand(a, "A", "m");
  const std::string left =
      "StoredRows<A, " + storedType(problem.elementType(0)).str() + ">{in" + std::to_string(a.input) + "}";
  printer.writeEpilogue();
  printer.writeEntries([&](const std::string &epilogue) {
    return "gemmLowBits<Config>(" + left + ", " + weights.type() + weights.value() + ", " + epilogue + ");";
  });
  KernelPlan plan = printer.plan(threadsOf(config), sharedBytesOf(problem, config));
  plan.launches.front().grid = {static_cast<uint32_t>(ceilDiv(problem.N, config["panels"] * panelColumns)), 1, 1};
  return plan;
}

} // namespace

const MatmulVariant &matmulLowBitsTemplate() {
  static const MatmulLowBitsTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
