// cuda.matmul_sm90_split: wgmma products of few rows or few tiles, K split over clusters and warpgroups.
#include "codegen/cuda/matmul/Sm90Split.h"
#include "codegen/cuda/matmul/Templates.h"
#include "codegen/cuda/text/Wgmma.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using namespace sm90split;

constexpr int64_t epilogueVector = 8;
constexpr int64_t mostStages = 24;
constexpr double mostBlocks = 40;        ///< For each SM; beyond it persistent blocks waste less.
constexpr int64_t mostClusterBlocks = 8; ///< What every device allows.
constexpr int64_t mostSplits = 8;        ///< Splits of K, whose partial sums a thread adds up at once.
constexpr int64_t widestShare = 256;     ///< Rows of a tile that has its share of all.
constexpr size_t mostCandidates = 160;

/// The result as TMA writes it, from the registers of a block that finishes its tile alone; else a cluster's blocks or
/// the warps of one put partial sums together, and each thread stores `epilogueVector` neighbours.
std::optional<TmaResult> resultThroughTma(const MatmulProblem &problem, const TileConfig &config) {
  if (!config["swap"] || config["blocks_k"] > 1 || problem.count() > 1)
    return std::nullopt;
  return TmaResult::ofColumns(problem);
}

struct Tile {
  int64_t m, n;
  bool swap;
};
/// Tiles of one product for `rows`, whose weights are in memory as they are multiplied.
std::vector<Tile> floatTiles(int64_t rows) {
  // Widths of 40, 48, 80, 96, 112 and 224 are for layers whose multiples of 32 or 64 leave SMs idle: 6144 / 48 and
  // 28672 / 224 are 128 tiles, five times 256 x 1024 are 130 of 128 x 80.
  std::vector<Tile> tiles = {
      {64, 32, false},  {64, 40, false},   {64, 48, false},   {64, 64, false},   {64, 80, false},   {64, 96, false},
      {64, 128, false}, {64, 192, false},  {64, 224, false},  {128, 48, false},  {128, 64, false},  {128, 80, false},
      {128, 96, false}, {128, 112, false}, {128, 128, false}, {128, 224, false}, {256, 128, false}, {8, 64, true},
      {16, 64, true},   {32, 64, true},    {48, 64, true},    {64, 64, true},    {8, 128, true},    {16, 128, true},
      {32, 128, true},  {64, 128, true},   {128, 64, true}};
  // All rows in equal parts: 3 of 88 for 256, 2 of 160 for 320, of which 128 x 192 tiles waste a sixth.
  for (int64_t parts : {1, 2, 3, 4})
    if (const int64_t m = llvm::alignTo(ceilDiv(rows, parts), 8); m > 64 && m <= widestShare)
      for (int64_t n : {64, 128})
        tiles.push_back({m, n, true});
  return tiles;
}

/// The same where the instruction takes weights of registers, and so as its rows.
std::vector<Tile> lowBitTiles(int64_t rows) {
  std::vector<Tile> tiles;
  for (int64_t n : {64, 128, 256}) {
    for (int64_t m : {8, 16, 32, 64, 96, 128})
      tiles.push_back({m, n, true});
    for (int64_t parts : {1, 2, 3, 4})
      if (const int64_t m = llvm::alignTo(ceilDiv(rows, parts), 8); m < 128 && m % 32 != 0)
        tiles.push_back({m, n, true});
  }
  return tiles;
}

/// Shows `visit` every config that fits, until it has seen enough (false).
void forEachConfig(const Problem &problem, const ir::Target &target,
                   llvm::function_ref<bool(const TileConfig &)> visit) {
  // How many tiles down by how many across share operands.
  static constexpr std::pair<int64_t, int64_t> clusters[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}};
  const bool alongK[2] = {problem.isAlongK(0), problem.isAlongK(1)};
  const int64_t depth = problem.depth(), stagesK = ceilDiv(problem.K, depth);
  const auto products = static_cast<int64_t>(problem.count());
  for (const Tile &tile : problem.lowBits ? lowBitTiles(problem.M) : floatTiles(problem.M)) {
    // The columns of the instruction may be few, but where they are contiguous a panel holds 64.
    const int64_t n = tile.n / products, ofColumns = tile.swap ? tile.m : n, ofRows = tile.swap ? n : tile.m;
    if (ofColumns % 8 != 0 || (!alongK[tile.swap ? 0 : 1] && ofColumns % 64 != 0) ||
        (!alongK[tile.swap ? 1 : 0] && ofRows % 64 != 0))
      continue;
    bool isTooTall = tile.m >= 2 * problem.M && tile.m > (tile.swap ? 8 : 64), isTooWide = n >= 2 * problem.N && n > 64;
    if (isTooTall || isTooWide)
      continue;
    for (auto [clusterM, clusterN] : clusters) {
      if ((clusterM > 1 && problem.M <= tile.m * (clusterM - 1)) || (clusterN > 1 && problem.N <= n * (clusterN - 1)) ||
          !dividesInto(tile.m, clusterN, alongK[0]) || !dividesInto(n, clusterM, alongK[1]))
        continue;
      for (int64_t blocksK : {1, 2, 4, 8})
        for (int64_t groupsK : {1, 2, 4})
          for (int64_t blocks : {1, 2}) {
            const double blocksOfSm =
                static_cast<double>(blocksOf(problem, tile.m, n, clusterM, clusterN, blocksK)) / target.multiprocessors;
            // SMs would idle, or be better served by persistent blocks.
            const bool isIdle =
                stagesK < 2 * blocksK * groupsK || blocksOfSm > mostBlocks || (blocks == 2 && blocksOfSm <= 1);
            if (isIdle || blocksK * groupsK > mostSplits || clusterM * clusterN * blocksK > mostClusterBlocks)
              continue;
            const Shape shape(problem, tile.m, n, clusterM, clusterN, groupsK, mostStages, tile.swap);
            const std::optional<int64_t> stages = stagesFor(shape, stagesK, blocksK, blocks, target);
            if (stages && !visit({{"blocks_k", blocksK},
                                  {"cluster_m", clusterM},
                                  {"cluster_n", clusterN},
                                  {"groups_k", groupsK},
                                  {"k", depth},
                                  {"m", tile.m},
                                  {"n", n},
                                  {"swizzle", 1},
                                  {"split_k", 1},
                                  {"stages", *stages},
                                  {"swap", tile.swap}}))
              return;
          }
    }
  }
}

class MatmulSm90SplitTemplate : public TiledMatmulVariant {
public:
  MatmulSm90SplitTemplate() : TiledMatmulVariant({2, mostCandidates, MultiplyUnit::Wgmma, RowCount::Any}) {}

  std::string_view name() const override { return "cuda.matmul_sm90_split"; }
  ir::FusionDecision takes(const Region &region, const MatmulProblem &problem, const ir::Target &target) const override;
  std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                     const ir::Target &target) const override;
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override;
};

ir::FusionDecision MatmulSm90SplitTemplate::takes(const Region &region, const MatmulProblem &given,
                                                  const ir::Target &target) const {
  const Problem problem(region, given);
  ir::FusionDecision decision =
      problem.lowBits ? problem.lowBits->takenByWgmma(region, problem, target) : takenByWgmma(region, problem, target);
  if (!decision)
    return decision;
  if (problem.reducesRows)
    return ir::FusionDecision::no(holdsTiles);
  bool isTaken = false;
  forEachConfig(problem, target, [&](const TileConfig &) {
    isTaken = true;
    return false;
  });
  return isTaken ? decision : ir::FusionDecision::no("is large: persistent blocks take it");
}

std::vector<EstimatedConfig> MatmulSm90SplitTemplate::space(const Region &region, const MatmulProblem &given,
                                                            const ir::Target &target) const {
  const Problem problem(region, given);
  std::vector<EstimatedConfig> ranked;
  forEachConfig(problem, target, [&](const TileConfig &config) {
    ranked.emplace_back(estimate(region, problem, config, target), config);
    return true;
  });
  return ranked;
}

/// A side as the kernel is given it, the type of what it multiplies, and the recipes for its maps.
struct SideOfKernel {
  TmaArgument argument;
  DType type = DType::BF16;
  std::vector<TensorMapRecipe> maps;
};

SideOfKernel writeRows(MatmulPrinter &printer, const Region &region, const Problem &problem, const Shape &shape,
                       unsigned side, int64_t blocks, const ir::Target &target) {
  if (problem.lowBits)
    return {problem.lowBits->argument(problem.elementType(0)), problem.elementType(0),
            problem.lowBits->recipes(problem.N, shape.tileRows / shape.clusterColumns)};
  const TmaSide rows = sideOf(problem, side);
  const DType type = problem.elementType(side);
  return {writeTmaSide(printer, rows, "Rows", earlyBlocks(region, rows, type, blocks, target)), type,
          recipesOf(rows, type, shape.tileRows, shape.clusterColumns)};
}

Result<KernelPlan> MatmulSm90SplitTemplate::print(const Region &region, const TileConfig &config,
                                                  const ir::Target &target) const {
  const Problem problem(region, *MatmulProblem::of(region));
  const Shape shape(problem, config);
  const unsigned rowSide = shape.swapped ? 1 : 0;
  TmaSide columns = sideOf(problem, 1 - rowSide);
  const DType columnsType = problem.elementType(1 - rowSide);
  const std::optional<TmaResult> result = resultThroughTma(problem, config);
  const bool storesRows = storesOwnRows(problem, config);
  const int64_t blocks = blocksOf(problem, config),
                columnFetchers = earlyBlocks(region, columns, columnsType, blocks, target);
  // So that lanes hold what they store.
  columns.front().isPermuted = storesRows && columns.front().canBePermuted() && columnFetchers == 0 &&
                               shape.tileColumns / shape.clusterRows % 16 == 0;
  MatmulPrinter printer(region, problem, config, target, result ? 1 : storesRows ? 4 : epilogueVector);
  printer.writeHead("gemm_sm90_split.cuh");
  auto number = [](const char *name, int64_t value) { return std::string(name) + " = " + std::to_string(value); };
  std::vector<std::string> fields = {
      "static constexpr int " + number("rows", shape.rows) + ", " + number("columns", shape.columns) + ";",
      "static constexpr int " + number("tileRows", shape.tileRows) + ", " + number("tileColumns", shape.tileColumns) +
          ";",
      "static constexpr int " + number("stages", config["stages"]) + ", " + number("ringBytes", shape.ringBytes()) +
          ";",
      "static constexpr int " + number("clusterRows", shape.clusterRows) + ", " +
          number("clusterColumns", shape.clusterColumns) + ";",
      "static constexpr int " + number("blocksK", config["blocks_k"]) + ", " + number("groupsK", config["groups_k"]) +
          ";",
      std::string("static constexpr bool swapped = ") + (config["swap"] ? "true;" : "false;")};
  if (problem.lowBits)
    fields.push_back("static constexpr int " + number("rowBytes", shape.rowBytes) + ", " +
                     number("columnLines", shape.columnBytes / lineBytes) + ";");
  printer.writeConfig(shape.threads(), fields);
  const SideOfKernel rows = writeRows(printer, region, problem, shape, rowSide, blocks, target);
  const TmaArgument columnsArgument = writeTmaSide(printer, columns, "Columns", columnFetchers);
  writeWgmma(printer.out(), {.name = "Product",
                             .rowsType = rows.type,
                             .columnsType = columnsType,
                             .columns = shape.tileColumns,
                             .areRowsInRegisters = problem.lowBits.has_value(),
                             .areRowsTransposed = !problem.isAlongK(rowSide),
                             .areColumnsTransposed = !columns.front().matrix.contiguousK});
  if (result)
    printer.writeTileEpilogue(*result);
  else
    printer.writeEpilogue();
  printer.writeEntries(
      [&](const std::string &epilogue) {
        const std::string runRows = runExtent(problem.graph, problem.dimM, printer.out());
        return "gemmSm90Split<Config, Product>(" + rows.argument.value + ", " + columnsArgument.value + ", " +
               (result       ? "ToTiles<Epilogue>{" + epilogue + ", &resultMap}"
                : storesRows ? "ToRows<Epilogue>{" + epilogue + "}"
                             : epilogue) +
               (runRows.empty() ? "" : ", " + runRows) + ");";
      },
      rows.argument.parameters + columnsArgument.parameters +
          (result ? "const __grid_constant__ TensorMap resultMap, " : ""));
  KernelPlan plan = printer.plan(shape.threads(), shape.sharedBytes());
  std::vector<TensorMapRecipe> maps = rows.maps;
  llvm::append_range(maps, recipesOf(columns, columnsType, shape.tileColumns, shape.clusterRows));
  if (result)
    maps.push_back(result->written.recipe(64, static_cast<uint32_t>(shape.tileColumns)));
  passTensorMaps(plan, std::move(maps));
  Launch &launch = plan.launches.front();
  launch.needsNoL1 = true; // TMA brings the operands.
  launch.grid = {static_cast<uint32_t>(blocks), 1, 1};
  launch.cluster = {static_cast<uint32_t>(clusterBlocks(config) * neighboursOf(problem, config, target)), 1, 1};
  return plan;
}

} // namespace

const MatmulVariant &matmulSm90SplitTemplate() {
  static const MatmulSm90SplitTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
