// cuda.matmul_sm80: matrix products on tensor cores through mma.sync and cp.async. Operands have 16 bits; those
// of 8 become f16, which holds their every value, on their way to shared memory, and weights of few bits the left
// operand's type; those of 32 are cut (tf32).
#include "codegen/KernelLimits.h"
#include "codegen/cuda/matmul/LowBitSide.h"
#include "codegen/cuda/matmul/MatmulCost.h"
#include "codegen/cuda/matmul/MatmulPrinter.h"
#include "codegen/cuda/matmul/MatmulVariant.h"
#include "codegen/cuda/matmul/Templates.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

constexpr int64_t epilogueVector = 8; ///< 16 bytes of output.
constexpr size_t mostCandidates = 48;

int64_t threadsOf(const TileConfig &config) { return config["warps_m"] * config["warps_n"] * 32; }

/// Whether the right operand is computed in the region.
bool isComputed(const MatmulProblem &problem) {
  return problem.graph[problem.operand(1)].kind != ir::ScalarNode::Kind::Load;
}

/// Bytes of an element in shared memory.
int64_t widthOf(const MatmulProblem &problem) { return problem.elementType(0) == DType::F32 ? 4 : 2; }

/// Columns of all products in a tile.
int64_t columnsOf(const MatmulProblem &problem, const TileConfig &config) { return config["n"] * problem.count(); }

/// The ring of tiles; the epilogue stages each warp's tile in f32 in the same memory, rows 8 floats apart.
int64_t sharedBytes(const MatmulProblem &problem, const TileConfig &config) {
  int64_t columns = columnsOf(problem, config);
  int64_t ring = config["stages"] * (config["m"] + columns) * config["k"] * widthOf(problem);
  int64_t staging = config["warps_n"] * config["m"] * (columns / config["warps_n"] + 8) * 4;
  return std::max(ring, staging);
}

/// Accumulators, two sets of fragments, and about 56 for addresses and the loop; a second product's rows of B
/// have addresses of their own.
int64_t registersOf(const MatmulProblem &problem, const TileConfig &config) {
  int64_t warpM = config["m"] / config["warps_m"], warpN = columnsOf(problem, config) / config["warps_n"];
  const int64_t held = isComputed(problem) ? columnsOf(problem, config) * config["k"] / threadsOf(config) / 4 : 0;
  return warpM * warpN / 32 + 2 * (warpM / 16 * 4 + warpN / 16 * 4) + 56 + (problem.count() - 1) * 24 + held;
}

int64_t blocksPerSm(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target) {
  int64_t byShared = (target.sharedBytesPerBlock + 1024) / (sharedBytes(problem, config) + 1024);
  int64_t registers = (registersOf(problem, config) + 7) / 8 * 8 * threadsOf(config);
  return std::min({byShared, target.registersPerSm / registers, target.threadsPerSm / threadsOf(config)});
}

/// Where every block may have an SM to itself, more than half of its shared memory: launched while the kernel before
/// still runs, blocks would come two to an SM that is free early, and leave others idle.
int64_t askedBytes(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target) {
  const int64_t blocks = ceilDiv(problem.M, config["m"]) * ceilDiv(problem.N, config["n"]) * problem.batches *
                         config["split_k"],
                needed = sharedBytes(problem, config), overHalf = (target.sharedBytesPerBlock + 1024) / 2 - 1024 + 16;
  return blocks <= target.multiprocessors ? std::max(needed, overHalf) : needed;
}

bool fits(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target) {
  return sharedBytes(problem, config) <= target.sharedBytesPerBlock && registersOf(problem, config) <= mostRegisters &&
         blocksPerSm(problem, config, target) >= 1;
}

/// What the estimate knows beside matmulUs() and mmaShare(): by hand (commit 4ec1027), but for stepUs of an H200's
/// configs (75f81ee) and perCopy (326a3a5); no sweep was kept.
struct Coefficients {
  /// The share of mma.sync's rate that a warp tile reaches: at most, without loads, and what a fragment's load costs.
  double warpTileShare = 0.95, nominalShare = 1.2, perLoad = 10;
  /// The share of that which hardly any warps reach; `warpsHiding` / 2 of a multiprocessor hide each other's waits.
  double fewestHiding = 0.5, warpsHiding = 16;
  double stepUs = 0.033; ///< A warp's products of 32 bytes of K and up to 32 x 32 elements.
  double perCopy = 12;   ///< Instructions of an element that is copied by itself.
};
constexpr Coefficients h200;

/// Share of the nominal rate that mma.sync reaches: Hopper and datacenter Blackwell keep the rest for instructions of
/// their own. Hopper's is of an H200 (commit a4d04ff; the sweep was not kept), the others are guesses.
double mmaShare(const ir::Target &target) {
  if (target.capability >= 100 && target.capability < 120)
    return 0.3;
  return target.capability == 90 ? 0.55 : 0.7;
}

/// Share of that rate a warp tile reaches: small ones load more fragments for each product.
double warpTileShare(const MatmulProblem &problem, const TileConfig &config) {
  int64_t rows = config["m"] / config["warps_m"], columns = columnsOf(problem, config) / config["warps_n"];
  auto warpM = static_cast<double>(rows), warpN = static_cast<double>(columns);
  double loadsPerProduct = 1 / warpM + 1 / warpN; // 1/32 at 64 x 64.
  return std::min(h200.warpTileShare, h200.nominalShare / (1 + h200.perLoad * loadsPerProduct));
}

/// Share of the products' rate that is left beside copying windows element by element. A multiprocessor issues 128
/// instructions of lanes a clock; its tensor cores' multiply-adds are 2048.
double windowShare(const MatmulProblem &problem, const TileConfig &config, double mmaShare) {
  double elements = 0; // Copied one by one, for each step of K.
  const int64_t columns = columnsOf(problem, config);
  for (unsigned side : {0, 1})
    if (MatrixOperand operand = MatrixOperand::withBounds(problem, side); operand.isWindowed && operand.vector == 1)
      elements += static_cast<double>(side == 0 ? config["m"] : columns);
  const double copyClocks = elements * h200.perCopy / 128,
               mathClocks = static_cast<double>(config["m"] * columns) / (2048 * mmaShare);
  return mathClocks / (mathClocks + copyClocks);
}

/// Modelled microseconds of one config.
double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  const double share = mmaShare(target) * warpTileShare(problem, config);
  double perSm = target.halfFlopsPerUs * 2 / static_cast<double>(widthOf(problem)) * share *
                 windowShare(problem, config, share) / target.multiprocessors;
  double resident = static_cast<double>(blocksPerSm(problem, config, target));
  double warps = resident * static_cast<double>(threadsOf(config)) / 32;
  MatmulCost cost;
  cost.tileM = static_cast<double>(config["m"]);
  cost.tileN = static_cast<double>(config["n"]);
  cost.splits = static_cast<double>(config["split_k"]);
  cost.flopsPerUsPerSm = perSm * std::min(1.0, h200.fewestHiding + warps / h200.warpsHiding);
  cost.blocksPerSm = resident;
  cost.elementBytes = isComputed(problem) ? 2 : static_cast<double>(byteWidth(problem.elementType(1)));
  // The slowest warp issues at least its own products.
  const int64_t warpM = config["m"] / config["warps_m"], warpN = columnsOf(problem, config) / config["warps_n"];
  const auto warpTile = static_cast<double>(warpM * warpN);
  cost.latencyUs = static_cast<double>(problem.K * widthOf(problem)) / cost.splits / 32 * h200.stepUs *
                   std::max(1.0, warpTile / 1024);
  // All stages but the one that is multiplied; elements of 8 bits pass through registers, a stage or so at a time. Only
  // the weights count: rows come from the last-level cache.
  const double underWay = cost.elementBytes < 2 || isComputed(problem) ? 1 : static_cast<double>(config["stages"] - 1);
  const auto weights = static_cast<double>(columnsOf(problem, config) * config["k"]);
  cost.inFlightBytes = underWay * weights * cost.elementBytes;
  return matmulUs(region, problem, cost, target);
}

class MatmulSm80Template : public TiledMatmulVariant {
public:
  MatmulSm80Template() : TiledMatmulVariant({0, mostCandidates, MultiplyUnit::MmaSync, RowCount::Any}) {}

  std::string_view name() const override { return "cuda.matmul_sm80"; }
  ir::FusionDecision takes(const Region &region, const MatmulProblem &problem, const ir::Target &target) const override;
  std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                     const ir::Target &target) const override;
  /// Tiles that split K are a group of their own, for their estimates err otherwise: the last product of the five heads
  /// takes 4.4 us on an H200 where 6.0 are estimated; the best of the 40 configs without a split takes 5.0, and 4.8 to
  /// 5.2 are estimated.
  std::int64_t estimateGroup(const TileConfig &config) const override { return config.valueOr("split_k", 1) > 1; }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override;
};

/// Whether integers of few bits become floats on their way to shared memory; why not.
ir::FusionDecision takenAsLowBits(const Region &region, const MatmulProblem &problem) {
  const LowBitSide weights = LowBitSide::of(region, problem);
  if (!weights.refusal.empty())
    return ir::FusionDecision::no(weights.refusal);
  if (weights.front().rowBytes % 16 != 0 || (weights.front().block % 8 != 0 && weights.front().blocksOfRow > 1))
    return ir::FusionDecision::no("has rows of " + std::to_string(weights.front().rowBytes) +
                                  " bytes of weights in blocks of " + std::to_string(weights.front().block) +
                                  "; mma.sync takes rows of whole 16 bytes, and 8 weights of one scale");
  return printable(region);
}

ir::FusionDecision MatmulSm80Template::takes(const Region &region, const MatmulProblem &problem,
                                             const ir::Target &target) const {
  if (ir::FusionDecision taken = takenByMmaSync(problem, target); !taken)
    return taken;
  if (MatrixOperand left = MatrixOperand::withBounds(problem, 0); !left.refusal.empty())
    return ir::FusionDecision::no(left.refusal);
  if (isComputed(problem))
    return takenAsLowBits(region, problem);
  const MatrixOperand first = MatrixOperand::withBounds(problem, 1);
  for (unsigned product = 0; product < problem.count(); ++product) {
    MatrixOperand right = MatrixOperand::withBounds(problem, 1, product);
    if (!right.refusal.empty())
      return ir::FusionDecision::no(right.refusal);
    if (right.contiguousK != first.contiguousK)
      return ir::FusionDecision::no("the right operands are contiguous along different dimensions");
  }
  if (ir::FusionDecision multiplied = multipliedByMmaSync(problem, /*takesTf32=*/true); !multiplied)
    return multiplied;
  if (problem.elementType(0) == DType::F32 && !(MatrixOperand::withBounds(problem, 0).contiguousK && first.contiguousK))
    return ir::FusionDecision::no("operands of f32 are not contiguous along K, which mma.sync needs of them");
  return printable(region);
}

std::vector<EstimatedConfig> MatmulSm80Template::space(const Region &region, const MatmulProblem &problem,
                                                       const ir::Target &target) const {
  struct Tile {
    int64_t m, n, k, warpsM, warpsN; ///< k of 16 bits.
  };
  static constexpr Tile tiles[] = {
      {256, 128, 32, 4, 2}, {256, 128, 64, 4, 2}, {128, 256, 32, 2, 4}, {128, 256, 64, 2, 4}, {128, 128, 32, 2, 2},
      {128, 128, 64, 2, 2}, {128, 128, 64, 2, 4}, {128, 64, 64, 2, 2},  {64, 128, 64, 2, 2},  {64, 256, 64, 1, 4},
      {64, 64, 64, 2, 2},   {64, 64, 128, 2, 2},  {32, 128, 64, 1, 4},  {32, 64, 128, 1, 4},  {16, 128, 64, 1, 4},
      {16, 128, 128, 1, 4}, {16, 64, 128, 1, 4},  {16, 64, 256, 1, 4}};
  std::vector<EstimatedConfig> ranked;
  for (const Tile &tile : tiles) {
    int64_t blocks = ceilDiv(problem.M, tile.m) * ceilDiv(problem.N, tile.n) * problem.batches,
            k = tile.k * 2 / widthOf(problem), tilesK = ceilDiv(problem.K, k);
    bool isTooTall = tile.m >= 2 * problem.M && tile.m > 16, isTooWide = tile.n >= 2 * problem.N && tile.n > 64;
    if (isTooTall || isTooWide)
      continue;
    for (int64_t stages : {3, 4, 5})
      for (int64_t splits : {1, 2, 4, 8, 16})
        for (int64_t swizzle : {8, 1}) {
          bool isIdleSplit = splits > 1 && (blocks * splits > 4 * target.multiprocessors || tilesK < 2 * splits);
          bool sameSwizzle = swizzle > 1 && ceilDiv(problem.M, tile.m) == 1;
          if (isIdleSplit || sameSwizzle || (splits > 1 && problem.count() > 1))
            continue;
          TileConfig config{{"k", k},
                            {"m", tile.m},
                            {"n", tile.n},
                            {"swizzle", swizzle},
                            {"split_k", splits},
                            {"stages", stages},
                            {"warps_m", tile.warpsM},
                            {"warps_n", tile.warpsN}};
          if (fits(problem, config, target))
            ranked.emplace_back(estimate(region, problem, config, target), std::move(config));
        }
  }
  return ranked;
}

/// The right operands as the kernel is given them.
std::string rightText(MatmulPrinter &printer, const Region &region, const MatmulProblem &problem) {
  if (!isComputed(problem))
    return printer.writeRightOperands("Matrix", "TwoMatrices");
  const LowBitSide weights = LowBitSide::of(region, problem);
  return "LowBitMatrix<" + weights.type() + ">{" + weights.type() + weights.value() + "}";
}

Result<KernelPlan> MatmulSm80Template::print(const Region &region, const TileConfig &config,
                                             const ir::Target &target) const {
  MatmulProblem problem = *MatmulProblem::of(region);
  MatrixOperand a = MatrixOperand::withBounds(problem, 0);
  const DType type = problem.elementType(0);
  MatmulPrinter printer(region, problem, config, target, epilogueVector);
  printer.writeHead("gemm_sm80.cuh");
  printer.writeConfig(threadsOf(config),
                      {("using Element = " + storedType(isFloat8(type) ? DType::F16 : type) + ";").str(),
                       "static constexpr int stages = " + std::to_string(config["stages"]) +
                           ", warpsM = " + std::to_string(config["warps_m"]) +
                           ", warpsN = " + std::to_string(config["warps_n"]) + ";"});
  printer.writeOperand(a, "A", "m");
  const std::string right = rightText(printer, region, problem);
  printer.writeEpilogue();
  printer.writeEntries([&](const std::string &epilogue) {
    printer.endBehindRun();
    return "gemm<Config>(Matrix<A, " + storedType(type).str() + ">{in" + std::to_string(a.input) + "}, " + right +
           ", " + epilogue + ");";
  });
  return printer.plan(threadsOf(config), askedBytes(problem, config, target));
}

} // namespace

const MatmulVariant &matmulSm80Template() {
  static const MatmulSm80Template instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
