// cuda.gemv: products of a few rows, whose weights stream once through registers.
#include "codegen/KernelLimits.h"
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/matmul/ComputedRows.h"
#include "codegen/cuda/matmul/Streamed.h"
#include "codegen/cuda/matmul/Templates.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

constexpr int64_t mostRows = 4; ///< With more, conversions and products take longer than the weights.
constexpr size_t mostCandidates = 48;

int64_t groupsOf(const TileConfig &config) { return config["warps"] / config["split"]; }

/// Accumulators, loads in flight, a chunk of the left operand, what a word of each operand holds, and about 40 for
/// addresses; a second product's columns have addresses of their own.
int64_t registersOf(const MatmulProblem &problem, const TileConfig &config) {
  const int64_t outputs = config["outputs"] * problem.count(), seconds = outputs - config["outputs"];
  const auto perWord = std::max<int64_t>(2, 4 / static_cast<int64_t>(byteWidth(problem.elementType(1))));
  return problem.M * outputs + outputs * config["unroll"] * 4 + 4 + perWord * (problem.M + outputs) + 2 * seconds + 40;
}

int64_t blocksPerSm(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target) {
  int64_t threads = config["warps"] * 32, registers = (registersOf(problem, config) + 7) / 8 * 8;
  int64_t blocks = std::min(target.registersPerSm / (registers * threads), target.threadsPerSm / threads);
  if (problem.reducesRows)
    blocks = std::min(blocks, target.sharedBytesPerBlock / (ComputedRows::bytes(problem) + 1024));
  return blocks;
}

/// What the estimate knows of an H200, fitted to configs measured back to back there (commits a4d04ff and 9416087;
/// deepShare 2a28f0e: 128 configs behind a norm). The sweeps were not kept.
struct Coefficients {
  double startUs = 0.2;       ///< A kernel's start.
  double memoryShare = 0.95;  ///< Share of the nominal HBM bandwidth with two loads of a warp in flight or more.
  double oneLoadShare = 0.89; ///< The same with one: 14.7 us instead of 13.8 for 6144 x 4096.
  double deepShare = 0.005; ///< For each doubling of loads behind rows that are computed: by measured times it is up to
                            ///< three times that.
  double tailUs = 0.25;     ///< The longer a warp's part of a row, the less evenly SMs end: 13.8, 13.4, 13.1 us for
                            ///< rows in 1, 2, 4 parts.
  double inFlightFactor = 10; ///< Loads are asked for again as soon as one is used.
  /// Instructions of a weight, of a product, and of a read of a row, which the columns of a warp share.
  double perWeight = 12, perProduct = 2.3, perRead = 0.67;
  /// A row that is computed first comes with a latency of L2 and of each reduction's barrier (573cc31, by hand).
  double rowUs = 0.2, reductionUs = 0.3;
  double sumInstructions = 12; ///< The instructions that add one of a warp's accumulators over its lanes.
};
constexpr Coefficients h200;

/// Modelled microseconds: HBM at the depth of the loads in flight, or what the lanes issue for each weight.
double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  const auto sms = static_cast<double>(target.multiprocessors);
  const auto blocks = static_cast<double>(ceilDiv(problem.N, groupsOf(config) * config["outputs"]) * problem.batches);
  const auto resident = static_cast<double>(blocksPerSm(problem, config, target));
  const double width = static_cast<double>(accessBytes) / static_cast<double>(byteWidth(problem.elementType(1)));
  // A warp has no more loads in flight than its share of K holds.
  const double chunks = static_cast<double>(problem.K) / width / 32 / static_cast<double>(config["split"]);
  const double unrolled = std::min(static_cast<double>(config["unroll"]), std::ceil(chunks));
  const int64_t columns = config["outputs"] * problem.count(); // What a warp reads.
  const double perBlock = static_cast<double>(config["warps"] * 32 * columns * accessBytes) * unrolled;
  const double inFlight = std::min(resident, blocks / sms) * perBlock * h200.inFlightFactor;
  // The same holds for each of two products: a gate and its matrix of 14336 x 4096 take 58.5 us instead of 53.1.
  const double loads = static_cast<double>(config["outputs"]) * unrolled;
  double share = loads < 2 ? h200.oneLoadShare : h200.memoryShare;
  // While rows are computed first, as many loads wait: 53.2, 52.7, 51.5 us for these two with two, four, eight of each.
  if (problem.reducesRows)
    share *= 1 + h200.deepShare * std::log2(std::clamp(loads / 2, 1.0, 4.0));
  const double hbmUs = memoryUs(region.bytesRead + region.bytesWritten, inFlight, target) / share;
  const double kilobytes = chunks * 32 * static_cast<double>(accessBytes) / 1024; // What a warp reads of a row.
  const double weights =
      static_cast<double>(problem.N * problem.count() * problem.batches) * static_cast<double>(problem.K);
  const auto rows = static_cast<double>(problem.M), outputs = static_cast<double>(columns);
  const double mathUs =
      issueUs(weights * (h200.perWeight + h200.perProduct * rows + h200.perRead * rows / outputs), target);
  // Weights flow while rows are computed, but no more than are in flight.
  const double rowsUs =
      problem.reducesRows ? rows * (h200.rowUs + h200.reductionUs * ComputedRows(problem).reductionCount()) : 0;
  // At a warp's end its lanes' accumulators are added: five shuffles and more for each, while it has no loads in
  // flight. 2 x 7168 x 2048 takes 8.5 us with rows in 2 parts, 8.7 in 4 and 9.0 in 8 (of four columns a warp).
  const double sums = static_cast<double>(problem.N * problem.count() * problem.batches * config["split"]) * rows;
  const double sumUs = issueUs(h200.sumInstructions * 32 * sums, target);
  const double tailUs = h200.tailUs * std::log2(std::max(1.0, kilobytes));
  return target.launchUs + h200.startUs + rowsUs + sumUs + std::max(hbmUs, mathUs) + tailUs;
}

/// Writes how the left operand is read; returns its value.
std::string writeLeft(MatmulPrinter &printer, const MatmulProblem &problem, int64_t threads) {
  const std::string type = storedType(problem.elementType(problem.reducesRows ? 1 : 0)).str();
  if (problem.reducesRows)
    return "ComputedRows<Config, Left, " + type + ">{" + ComputedRows(problem).write(printer, "Left", threads) + "}";
  const MatrixOperand operand = MatrixOperand::of(problem, 0);
  printer.writeOperand(operand, "A", "m");
  return "StoredRows<A, " + type + ">{in" + std::to_string(operand.input) + "}";
}

class GemvTemplate : public MatmulVariant {
public:
  GemvTemplate() : MatmulVariant({3, mostCandidates, MultiplyUnit::Fma, RowCount::Few}) {}

  std::string_view name() const override { return "cuda.gemv"; }
  ir::FusionDecision takes(const Region &region, const MatmulProblem &problem, const ir::Target &target) const override;
  std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                     const ir::Target &target) const override;
  /// Warps of a row, which split K, and columns that they share; in warps of a block and loads in flight configs differ
  /// less.
  TileConfig kind(const TileConfig &config) const override {
    return {{"outputs", config["outputs"]}, {"split", config["split"]}};
  }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override;
};

ir::FusionDecision GemvTemplate::takes(const Region &region, const MatmulProblem &problem, const ir::Target &) const {
  if (problem.reducesRows && !ComputedRows::isIn(problem))
    return ir::FusionDecision::no(holdsTiles);
  if (problem.M > mostRows)
    return ir::FusionDecision::no("has " + std::to_string(problem.M) + " rows, at most " + std::to_string(mostRows) +
                                  " stream well");
  if (problem.batches > 65535)
    return ir::FusionDecision::no("has more than 65535 batches");
  for (unsigned product = 0; product < problem.count(); ++product)
    for (unsigned side : {0, 1})
      if (std::string refusal = side == 0 && problem.reducesRows ? ComputedRows(problem).refusal()
                                                                 : whyNotStreamed(problem, side, product);
          !refusal.empty())
        return ir::FusionDecision::no(refusal);
  DType right = problem.elementType(1), left = problem.reducesRows ? right : problem.elementType(0);
  if ((left != right && !(isFloat8(left) && isFloat8(right))) || !problem.isRightType(right))
    return ir::FusionDecision::no("multiplies two types");
  return printable(region);
}

std::vector<EstimatedConfig> GemvTemplate::space(const Region &region, const MatmulProblem &problem,
                                                 const ir::Target &target) const {
  std::vector<EstimatedConfig> ranked;
  for (int64_t warps : {4, 8, 16})
    for (int64_t outputs : {1, 2, 4, 8})
      for (int64_t split : {1, 2, 4, 8})
        for (int64_t unroll : {1, 2, 4, 8}) {
          TileConfig config{{"warps", warps}, {"outputs", outputs}, {"split", split}, {"unroll", unroll}};
          if (split <= warps && outputs * problem.count() * unroll <= (warps == 16 ? 8 : 16) &&
              registersOf(problem, config) <= mostRegisters && outputs < 2 * problem.N &&
              blocksPerSm(problem, config, target) >= 1)
            ranked.emplace_back(estimate(region, problem, config, target), config);
        }
  return ranked;
}

Result<KernelPlan> GemvTemplate::print(const Region &region, const TileConfig &config, const ir::Target &target) const {
  MatmulProblem problem = *MatmulProblem::of(region);
  // What all matrix templates print: a tile of this shape, not split over launches.
  TileConfig frame = config.with("m", problem.M)
                         .with("n", groupsOf(config) * config["outputs"])
                         .with("k", problem.K)
                         .with("split_k", 1)
                         .with("swizzle", 1);
  MatmulPrinter printer(region, problem, frame, target, config["outputs"]);
  const int64_t threads = config["warps"] * 32;
  printer.writeHead("gemv.cuh");
  printer.writeConfig(threads, {"static constexpr int outputs = " + std::to_string(config["outputs"]) +
                                    ", split = " + std::to_string(config["split"]) +
                                    ", unroll = " + std::to_string(config["unroll"]) + ";",
                                fetchField(region, problem, columnBytes(problem), target)});
  const std::string left = writeLeft(printer, problem, threads);
  const std::string right = printer.writeRightOperands("Weights", "TwoWeights");
  printer.writeEpilogue();
  printer.writeEntries(
      [&](const std::string &epilogue) { return "gemv<Config>(" + left + ", " + right + ", " + epilogue + ");"; });
  KernelPlan plan = printer.plan(threads, problem.reducesRows ? ComputedRows::bytes(problem) : 0);
  plan.launches.front().grid = {static_cast<uint32_t>(ceilDiv(problem.N, groupsOf(config) * config["outputs"])),
                                static_cast<uint32_t>(problem.batches), 1};
  return plan;
}

} // namespace

const MatmulVariant &gemvTemplate() {
  static const GemvTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
