// cuda.matmul_sm90_low_bits: products of many rows with weights of 4 or 8 bits on wgmma, in persistent clusters. The
// weights are the instruction's rows, of which registers make floats, so a tile's columns are rows of the result.
#include "codegen/cuda/matmul/LowBitSide.h"
#include "codegen/cuda/matmul/MatmulCost.h"
#include "codegen/cuda/matmul/Templates.h"
#include "codegen/cuda/text/Clusters.h"
#include "codegen/cuda/text/Wgmma.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

constexpr int64_t threads = 384; ///< A producer and two consumer warpgroups.
constexpr int64_t consumers = 2;
constexpr int64_t lineBytes = 128;
constexpr int64_t mostStages = 8;
constexpr int64_t swizzle = 8; ///< Tiles of a group that clusters walk together.
constexpr size_t mostCandidates = 96;

/// A block's tile: rows of the weights of all products by rows of the result.
struct Tile {
  int64_t rows, columns;
  bool pingPong;
};
/// Up to 160 accumulators a thread: what it makes floats of takes 50 registers of 240. None has
/// 96 columns beside 128 rows of a warpgroup: 12 of 16 spilling configs of the GPU tests did, with NVRTC 13.0.
constexpr Tile tiles[] = {{128, 256, false}, {128, 192, false}, {128, 160, false}, {128, 128, false}, {128, 96, false},
                          {128, 64, false},  {128, 32, false},  {256, 128, false}, {256, 160, false}, {256, 64, false},
                          {64, 256, true},   {64, 192, true},   {64, 128, true},   {128, 128, true},  {128, 64, true}};

/// Rows of the weights of all products in a tile.
int64_t rowsOf(const MatmulProblem &problem, const TileConfig &config) { return config["n"] * problem.count(); }

/// Bytes of a stage.
int64_t stageBytes(const MatmulProblem &problem, const LowBitSide &weights, const TileConfig &config) {
  const int64_t lines = LowBitSide::stageDepth / depthOf(problem.elementType(0));
  return rowsOf(problem, config) * weights.stageBytes() + config["m"] * lines * lineBytes;
}
/// The ring, what each warpgroup transposes on its way to memory (device/matmul/column_store.cuh), and barriers.
int64_t sharedBytes(const MatmulProblem &problem, const LowBitSide &weights, const TileConfig &config) {
  const int64_t pieceRows = config["m"] % 32 == 0 ? 16 : 8, transposed = consumers * 2 * pieceRows * lineBytes;
  return config["stages"] * stageBytes(problem, weights, config) + transposed + 128;
}

/// What the estimate knows of an H200: the terms of sm90::estimate that are the same here (Sm90Tiles.cpp); the rest is
/// by hand, without a sweep. A speedup is over the target's nominal HBM bandwidth.
struct Coefficients {
  double mathShare = 0.85;    ///< The share reached of the tensor cores' rate.
  double narrowShare = 0.375; ///< The share of that which a tile of no columns would reach.
  double fullColumns = 100;   ///< How many columns reach it all.
  double l2Speedup = 3.1;     ///< Reads from the L2.
  double startUs = 1.2;       ///< A kernel's start.
  double finishUs = 1.2;      ///< A tile's end, which ping-pong hides but for the last.
};
constexpr Coefficients h200;

/// Modelled microseconds: the tiles that the busiest cluster walks, at the rate of the tensor cores or of the L2, as
/// cuda.matmul_sm90 has them, and the weights once from HBM.
double estimate(const Region &region, const MatmulProblem &problem, const LowBitSide &weights, const TileConfig &config,
                const ir::Target &target) {
  auto of = [&](const char *field) { return static_cast<double>(config[field]); };
  const int64_t clusterBlocks = config["cluster_m"] * config["cluster_n"];
  const auto rows = static_cast<double>(rowsOf(problem, config)), columns = of("m"), K = static_cast<double>(problem.K);
  const int64_t tiles = ceilDiv(problem.M, config["m"] * config["cluster_m"]) *
                        ceilDiv(problem.N, config["n"] * config["cluster_n"]),
                clusters = std::min(tiles, clustersAtOnce(clusterBlocks, target));
  const auto waves = static_cast<double>(ceilDiv(tiles, clusters)),
             active = static_cast<double>(clusters * clusterBlocks);
  const double rate = target.matmulFlopsPerUs(problem.elementType(0), false) * h200.mathShare / target.multiprocessors,
               share = std::min(1.0, h200.narrowShare + (1 - h200.narrowShare) * columns / h200.fullColumns),
               mathUs = 2 * rows * columns * K / (rate * share);
  const double weightBytes = static_cast<double>(weights.stageBytes()) / LowBitSide::stageDepth;
  const double l2Us = K * (rows * weightBytes / of("cluster_m") + 2 * columns / of("cluster_n")) * active /
                      (target.memoryBytesPerUs * h200.l2Speedup);
  const double tileUs = std::max(mathUs, l2Us);
  const double walkUs = config["pingpong"] ? waves * tileUs + h200.finishUs : waves * (tileUs + h200.finishUs);
  const double hbmUs = (region.bytesRead + region.bytesWritten) / target.memoryBytesPerUs;
  return target.launchUs + h200.startUs + atPowerLimit(std::hypot(walkUs, hbmUs), waves * mathUs);
}

class MatmulSm90LowBitsTemplate : public TiledMatmulVariant {
public:
  MatmulSm90LowBitsTemplate() : TiledMatmulVariant({7, mostCandidates, MultiplyUnit::Wgmma, RowCount::Any, true}) {}

  std::string_view name() const override { return "cuda.matmul_sm90_low_bits"; }
  ir::FusionDecision takes(const Region &region, const MatmulProblem &problem, const ir::Target &target) const override;
  std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                     const ir::Target &target) const override;
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override;
};

ir::FusionDecision MatmulSm90LowBitsTemplate::takes(const Region &region, const MatmulProblem &problem,
                                                    const ir::Target &target) const {
  const LowBitSide weights = LowBitSide::of(region, problem);
  if (ir::FusionDecision taken = weights.takenByWgmma(region, problem, target); !taken)
    return taken;
  if (!TmaResult::ofColumns(problem))
    return ir::FusionDecision::no("has a result that TMA cannot write, or reads what differs between its rows");
  return space(region, problem, target).empty() ? ir::FusionDecision::no("is smaller than any tile")
                                                : ir::FusionDecision::yes();
}

std::vector<EstimatedConfig> MatmulSm90LowBitsTemplate::space(const Region &region, const MatmulProblem &problem,
                                                              const ir::Target &target) const {
  static constexpr std::pair<int64_t, int64_t> clusters[] = {{1, 1}, {1, 2}, {2, 1}};
  const LowBitSide weights = LowBitSide::of(region, problem);
  const auto products = static_cast<int64_t>(problem.count());
  std::vector<EstimatedConfig> ranked;
  for (const Tile &tile : tiles) {
    const int64_t n = tile.rows / products, m = tile.columns;
    // A thread holds both products' accumulators: a block of 64 rows of each.
    const bool arePairs = products == 1 || (tile.pingPong ? tile.rows : tile.rows / consumers) == 64 * products;
    const bool isTooTall = m >= 2 * problem.M, isTooWide = n >= 2 * problem.N && n > 64;
    if (!arePairs || isTooTall || isTooWide)
      continue;
    for (auto [clusterM, clusterN] : clusters) {
      if ((clusterM > 1 && problem.M <= m) || (clusterN > 1 && problem.N <= n) || !dividesInto(m, clusterN, true) ||
          !dividesInto(n, clusterM, true))
        continue;
      for (bool alongM : {false, true}) {
        TileConfig config{{"cluster_m", clusterM},
                          {"cluster_n", clusterN},
                          {"k", LowBitSide::stageDepth},
                          {"m", m},
                          {"n", n},
                          {"pingpong", tile.pingPong},
                          {"swizzle", swizzle},
                          {"swizzle_n", alongM},
                          {"split_k", 1},
                          {"stages", mostStages}};
        while (config["stages"] > 1 && sharedBytes(problem, weights, config) > target.sharedBytesPerBlock) {
          const int64_t fewer = config["stages"] - 1;
          config = std::move(config).with("stages", fewer);
        }
        if (config["stages"] >= 2)
          ranked.emplace_back(estimate(region, problem, weights, config, target), std::move(config));
      }
    }
  }
  return ranked;
}

Result<KernelPlan> MatmulSm90LowBitsTemplate::print(const Region &region, const TileConfig &config,
                                                    const ir::Target &target) const {
  const MatmulProblem problem = *MatmulProblem::of(region);
  const LowBitSide weights = LowBitSide::of(region, problem);
  const TmaSide columnSide = sideOf(problem, 0);
  const DType type = problem.elementType(0);
  const TmaResult result = *TmaResult::ofColumns(problem);
  const int64_t m = config["m"], rows = rowsOf(problem, config), clusterM = config["cluster_m"],
                clusterN = config["cluster_n"];
  const int64_t clusterTiles = ceilDiv(problem.M, m * clusterM) * ceilDiv(problem.N, config["n"] * clusterN);
  const int64_t blocks = std::min(clusterTiles, clustersAtOnce(clusterM * clusterN, target)) * clusterM * clusterN;
  MatmulPrinter printer(region, problem, config, target, 1);
  printer.writeHead("gemm_sm90.cuh");
  auto number = [](const char *name, int64_t value) { return std::string(name) + " = " + std::to_string(value); };
  const std::string numbers = "static constexpr int ";
  printer.writeConfig(threads,
                      {numbers + number("rows", problem.N) + ", " + number("columns", problem.M) + ";",
                       numbers + number("tileRows", rows) + ", " + number("tileColumns", m) + ", " +
                           number("stages", config["stages"]) + ";",
                       numbers + number("rowBytes", weights.stageBytes()) + ", " +
                           number("columnLines", LowBitSide::stageDepth / depthOf(type)) + ";",
                       numbers + number("clusterRows", clusterN) + ", " + number("clusterColumns", clusterM) + ";",
                       std::string("static constexpr bool swapped = true, pingPong = ") +
                           (config["pingpong"] ? "true" : "false") +
                           ", tileSwizzleColumns = " + (config["swizzle_n"] ? "true;" : "false;"),
                       numbers + "streamKTiles = 0, contributors = 0, segments = 1, segmentBlocks = 0;"});
  const TmaArgument rowsArgument = weights.argument(type),
                    columnsArgument = writeTmaSide(printer, columnSide, "Columns",
                                                   earlyBlocks(region, columnSide, type, blocks, target));
  writeWgmma(printer.out(),
             {.name = "Product", .rowsType = type, .columnsType = type, .columns = m, .areRowsInRegisters = true});
  printer.writeTileEpilogue(result);
  printer.writeEntries(
      [&](const std::string &epilogue) {
        const std::string runRows = runExtent(problem.graph, problem.dimM, printer.out());
        return "gemmSm90<Config, Product>(" + rowsArgument.value + ", " + columnsArgument.value +
               ", ToTiles<Epilogue>{" + epilogue + ", &resultMap}" + (runRows.empty() ? "" : ", {}, " + runRows) + ");";
      },
      rowsArgument.parameters + columnsArgument.parameters + "const __grid_constant__ TensorMap resultMap, ");
  KernelPlan plan = printer.plan(threads, sharedBytes(problem, weights, config));
  std::vector<TensorMapRecipe> maps = weights.recipes(problem.N, rows / clusterM);
  llvm::append_range(maps, recipesOf(columnSide, type, m, clusterN));
  constexpr uint32_t storedColumns = 64;
  maps.push_back(result.written.recipe(storedColumns, m % 32 == 0 ? 16 : 8));
  passTensorMaps(plan, std::move(maps));
  Launch &launch = plan.launches.front();
  launch.needsNoL1 = true; // TMA brings the operands.
  setPersistentGrid(launch, clusterTiles * clusterM * clusterN,
                    clustersAtOnce(clusterM * clusterN, target) * clusterM * clusterN, target);
  launch.cluster = {static_cast<uint32_t>(clusterM * clusterN), 1, 1};
  return plan;
}

} // namespace

const MatmulVariant &matmulSm90LowBitsTemplate() {
  static const MatmulSm90LowBitsTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
