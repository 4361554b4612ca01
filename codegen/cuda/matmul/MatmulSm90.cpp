// cuda.matmul_sm90: matrix products on Hopper's wgmma, fed by TMA, in persistent clusters. Clusters whose
// warpgroups work in ping-pong may share the tiles that do not fill a wave (stream-K). Where a cluster spans N, it
// reduces rows of the result before it stores them.
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/matmul/RowEpilogue.h"
#include "codegen/cuda/matmul/Sm90Tiles.h"
#include "codegen/cuda/matmul/Templates.h"
#include "codegen/cuda/text/Clusters.h"
#include "codegen/cuda/text/LastBlock.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <set>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using namespace sm90;

constexpr int64_t threads = 384; ///< A producer and two consumer warpgroups.
constexpr int64_t mostStages = 8;
constexpr size_t walksOfTile = 2; ///< How many orders of its tiles a shape of tile is offered with.
constexpr size_t mostCandidates = 160;

/// The config with every order of its tiles that differs: groups of 1 to 16 along M or N.
std::vector<TileConfig> swizzles(const TileConfig &config, const Grid &grid) {
  std::vector<TileConfig> all;
  for (bool alongN : {false, true})
    for (int64_t swizzle : {1, 4, 8, 16}) {
      int64_t along = alongN ? grid.wide : grid.tall, across = alongN ? grid.tall : grid.wide;
      bool isSame =
          (swizzle > 1 && (swizzle >= 2 * along || across == 1)) || (alongN && (grid.tall == 1 || grid.wide == 1));
      if (!isSame)
        all.push_back(config.with("swizzle", swizzle).with("swizzle_n", alongN));
    }
  return all;
}

/// A block's tile, with the columns of all products, and its cluster.
struct Shape {
  int64_t m, n;
  bool pingPong;
  int64_t clusterM, clusterN;
  bool swap = false; ///< Whether the instruction's 64-row side lies along N.
};

/// Tiles whose rows of the result are the instruction's columns: equal shares of few rows, in multiples of 8. 274 rows
/// are 2 of 144, where tiles of 64 would compute 320. Where those compute as few, they leave these no place.
std::vector<Shape> swappedShapes(int64_t rows) {
  constexpr int64_t widest = 256, mostRows = 1024, mostAccumulators = 160;
  struct Tile {
    int64_t n;
    bool pingPong;
  };
  std::vector<Shape> shapes;
  const int64_t fewest = std::max<int64_t>(1, ceilDiv(rows, widest)),
                unswapped = llvm::alignTo(rows, 64); // Rows that others compute.
  for (int64_t parts = fewest; rows <= mostRows && parts < fewest + 3; ++parts)
    for (auto [n, pingPong] : {Tile{128, false}, {256, false}, {64, true}, {128, true}})
      for (auto [clusterM, clusterN] : {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {1, 2}}) {
        const int64_t m = llvm::alignTo(ceilDiv(rows, parts), 8);
        if (m >= 64 && m * parts < unswapped && n / (pingPong ? 1 : 2) / 64 * m / 2 <= mostAccumulators)
          shapes.push_back({m, n, pingPong, clusterM, clusterN, true});
      }
  return shapes;
}

std::vector<Shape> tiledShapes() {
  struct Tile {
    int64_t m, n;
    bool pingPong;
  };
  static constexpr Tile tiles[] = {
      {128, 128, false}, {128, 160, false}, {128, 192, false}, {128, 208, false}, {128, 224, false}, {128, 256, false},
      {256, 64, false},  {256, 96, false},  {256, 128, false}, {256, 160, false}, {256, 192, false}, {128, 64, false},
      {128, 96, false},  {64, 128, true},   {64, 192, true},   {64, 256, true},   {64, 64, true},    {128, 64, true},
      {128, 96, true},   {128, 128, true},  {128, 144, true},  {128, 160, true},  {128, 176, true},  {128, 192, true}};
  static constexpr std::pair<int64_t, int64_t> clusters[] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}};
  std::vector<Shape> shapes;
  for (const Tile &tile : tiles)
    for (auto [clusterM, clusterN] : clusters)
      shapes.push_back({tile.m, tile.n, tile.pingPong, clusterM, clusterN});
  return shapes;
}

/// Clusters whose blocks share out the columns of whole rows.
std::vector<Shape> wholeRowShapes(int64_t columns) {
  constexpr int64_t widest = 256,
                    mostBlocks = 16; // The limits of an instruction and of a cluster, more than 8 where allowed.
  std::vector<Shape> shapes;
  for (int64_t clusterN : {1, 2, 4, 8, 16}) {
    const int64_t exact = llvm::alignTo(ceilDiv(columns, clusterN), 16), panels = llvm::alignTo(exact, 64);
    for (int64_t n : std::set<int64_t>{exact, panels}) { // Where columns are contiguous, a tile has whole panels.
      const bool isNarrow = clusterN > 1 && (n < 64 || (clusterN - 1) * n >= columns);
      if (n > widest || isNarrow)
        continue;
      for (auto [m, pingPong] : {std::pair<int64_t, bool>{64, true}, {128, true}, {128, false}, {256, false}})
        for (int64_t clusterM : {1, 2})
          if (clusterM * clusterN <= mostBlocks)
            shapes.push_back({m, n, pingPong, clusterM, clusterN});
    }
  }
  return shapes;
}

class MatmulSm90Template : public TiledMatmulVariant {
public:
  MatmulSm90Template() : TiledMatmulVariant({1, mostCandidates, MultiplyUnit::Wgmma, RowCount::Any}) {}

  std::string_view name() const override { return "cuda.matmul_sm90"; }
  ir::FusionDecision takes(const Region &region, const MatmulProblem &problem, const ir::Target &target) const override;
  std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                     const ir::Target &target) const override;
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override;
};

ir::FusionDecision MatmulSm90Template::takes(const Region &region, const MatmulProblem &problem,
                                             const ir::Target &target) const {
  ir::FusionDecision decision = takenByWgmma(region, problem, target);
  if (!decision || region.graph.domain.reductionDim < 0)
    return decision;
  if (problem.count() > 1)
    return ir::FusionDecision::no("reduces rows of two products");
  if (std::string refusal = RowEpilogue(problem).refusal(); !refusal.empty())
    return ir::FusionDecision::no(refusal);
  if (space(region, problem, target).empty())
    return ir::FusionDecision::no("reduces rows of " + std::to_string(problem.N) +
                                  " columns, which no cluster's registers hold");
  return decision;
}

/// Adds the configs of a tile: with as many stages as fit, in the best orders of tiles, with and without stream-K.
void addConfigs(std::vector<EstimatedConfig> &ranked, const Region &region, const sm90::Problem &problem,
                TileConfig config, const ir::Target &target) {
  while (config["stages"] > 2 && sharedBytes(problem, config) > target.sharedBytesPerBlock) {
    const int64_t fewer = config["stages"] - 1;
    config = std::move(config).with("stages", fewer);
  }
  if (config["stages"] < 3)
    return;
  std::vector<EstimatedConfig> walks;
  for (TileConfig &walk : swizzles(config, gridOf(problem, config, target)))
    walks.emplace_back(estimate(region, problem, walk, target), std::move(walk));
  walks = fastest(std::move(walks), walksOfTile);
  bool isByRun = false; // Then one kernel shares tiles or does not, as a run's rows ask for.
  for (int64_t segments : segmentsOf(problem, config, target))
    for (const EstimatedConfig &walk : walks) {
      TileConfig streamKTiles = walk.config.with("segments", segments);
      isByRun = sharesTilesOfRun(problem, streamKTiles);
      ranked.emplace_back(estimate(region, problem, streamKTiles, target), std::move(streamKTiles));
      if (!isByRun)
        break;
    }
  if (!isByRun)
    std::move(walks.begin(), walks.end(), std::back_inserter(ranked));
}

std::vector<EstimatedConfig> MatmulSm90Template::space(const Region &region, const MatmulProblem &given,
                                                       const ir::Target &target) const {
  const sm90::Problem problem(given);
  bool rowsAlongK = MatrixOperand::of(problem, 0).contiguousK,
       columnsAlongK = MatrixOperand::of(problem, 1).contiguousK;
  const int64_t depth = depthOf(problem.elementType(0)), products = problem.count();
  // A consumer has 232 or 240 registers. The tiles above have 192 accumulators at most; what of these spills, the
  // search rejects. Where rows are reduced, as many values of the row lie beside the accumulators.
  const int64_t mostAccumulators = problem.reducesRows ? 128 : 192;
  std::vector<EstimatedConfig> ranked;
  std::vector<Shape> shapes = problem.reducesRows ? wholeRowShapes(problem.N) : tiledShapes();
  if (!problem.reducesRows && problem.placed && !problem.readsRows())
    llvm::append_range(shapes, swappedShapes(problem.M));
  for (const Shape &shape : shapes) {
    const auto [m, columns, pingPong, clusterM, clusterN, swap] = shape;
    const int64_t n = columns / products; // The epilogue takes segments of 16 columns of each product.
    if (n % 16 != 0 || !dividesInto(m, clusterN, rowsAlongK) || !dividesInto(n, clusterM, columnsAlongK))
      continue;
    // A warpgroup has 64 rows of each product, as the instruction has them.
    if (swap && products > 1 && columns / (pingPong ? 1 : 2) != 64 * products)
      continue;
    if ((clusterM > 1 && problem.M <= m) || (clusterN > 1 && problem.N <= n))
      continue;
    if ((m >= 2 * problem.M && m > 64) || (n >= 2 * problem.N && n > 64))
      continue;
    TileConfig tile{
        {"cluster_m", clusterM}, {"cluster_n", clusterN}, {"k", depth},     {"m", m},       {"n", n},
        {"pingpong", pingPong},  {"swizzle", 1},          {"swizzle_n", 0}, {"split_k", 1}, {"stages", mostStages}};
    if (swap)
      tile = std::move(tile).with("swap", 1);
    if (accumulatorRegisters(problem, tile) <= mostAccumulators)
      addConfigs(ranked, region, problem, tile, target);
  }
  return ranked;
}

/// Flags for each warp that shares a tile and room for its partial sums, for every segment, as
/// device/matmul/partial_sums.cuh lays them out.
void passPartialSums(KernelPlan &plan, const MatmulProblem &problem, const TileConfig &config, const Grid &grid) {
  constexpr int64_t tileWarps = consumerWarps / 2; // In ping-pong.
  const int64_t places = grid.places * config["cluster_m"] * config["cluster_n"];
  plan.zeroedBytes = llvm::alignTo(places * tileWarps * 4, zeroedGranule);
  plan.workspaceBytes =
      plan.zeroedBytes + static_cast<uint64_t>(places * config["m"] * columnsOf(problem, config)) * sizeof(float);
  Launch &launch = plan.launches.front();
  launch.args.push_back({KernelArg::Kind::Workspace, 0});
  launch.args.push_back({KernelArg::Kind::Workspace, plan.zeroedBytes});
}

/// The problem as a kernel's text has it.
MatmulProblem printedProblem(const MatmulProblem &problem, const TileConfig &config) {
  MatmulProblem printed = problem;
  if (problem.batches == 1)
    printed.M = printedExtent(problem.graph, problem.dimM, config["m"] * config["cluster_m"]);
  return printed;
}

Result<KernelPlan> MatmulSm90Template::print(const Region &region, const TileConfig &config,
                                             const ir::Target &target) const {
  const sm90::Problem problem(*MatmulProblem::of(region));
  const MatmulProblem printed = printedProblem(problem, config);
  const bool swapped = isSwapped(config);
  const unsigned rowsAt = swapped ? 1 : 0, columnsAt = 1 - rowsAt; // Which operands.
  const TmaSide rowSide = sideOf(problem, rowsAt), columnSide = sideOf(problem, columnsAt);
  const DType rowsType = problem.elementType(rowsAt), columnsType = problem.elementType(columnsAt);
  const int64_t clusterM = config["cluster_m"], clusterN = config["cluster_n"];
  const Grid grid = gridOf(problem, config, target);
  const TmaResult *result = problem.resultThroughTma(config);
  const int64_t epilogueVector = swapped ? 1 : result || problem.reducesRows ? RowEpilogue::lanesOfWgmma : 8;
  const int64_t ofN = columnsOf(problem, config), tileRows = swapped ? ofN : config["m"],
                tileColumns = swapped ? config["m"] : ofN, clusterRows = swapped ? clusterN : clusterM,
                clusterColumns = swapped ? clusterM : clusterN;
  const std::string ofNText = std::string(problem.count() > 1 ? "2 * " : "") + "tileN";
  MatmulPrinter printer(region, printed, config, target, epilogueVector);
  printer.writeHead("gemm_sm90.cuh");
  auto field = [](const std::string &text) { return "static constexpr " + text + ";"; };
  auto number = [](const char *name, int64_t value) { return std::string(name) + " = " + std::to_string(value); };
  printer.writeConfig(
      threads,
      {field("int " + number("rows", swapped ? problem.N : printed.M) + ", " +
             number("columns", swapped ? printed.M : problem.N)),
       field("int tileRows = " + (swapped ? ofNText : "tileM") + ", tileColumns = " + (swapped ? "tileM" : ofNText) +
             ", " + number("stages", config["stages"])),
       field("int " + number("clusterRows", clusterRows) + ", " + number("clusterColumns", clusterColumns)),
       field(std::string("bool ") + (swapped ? "swapped = true, " : "") +
             "pingPong = " + (config["pingpong"] ? "true" : "false") +
             ", tileSwizzleColumns = " + ((config["swizzle_n"] != 0) != swapped ? "true" : "false")),
       field(sharesTilesOfRun(problem, config)
                 ? "int " + number("streamKTiles", grid.places) + ", " + number("mostSegments", config["segments"]) +
                       ", " + number("segmentCost", segmentCost) + ", " + number("leastBlocks", leastBlocks)
                 : "int " + number("streamKTiles", grid.streamKTiles) + ", " +
                       number("contributors", grid.contributors) + ", " + number("segments", grid.segments) + ", " +
                       number("segmentBlocks", grid.segmentBlocks))});
  const int64_t gridBlocks = grid.clusters * clusterM * clusterN;
  const TmaArgument rowsArgument = writeTmaSide(printer, sideOf(printed, rowsAt), "Rows",
                                                earlyBlocks(region, rowSide, rowsType, gridBlocks, target)),
                    columnsArgument = writeTmaSide(printer, sideOf(printed, columnsAt), "Columns",
                                                   earlyBlocks(region, columnSide, columnsType, gridBlocks, target));
  writeProduct(printer.out(), rowsType, columnsType, tileColumns, rowSide, columnSide);
  if (problem.reducesRows)
    RowEpilogue(problem).write(printer, result);
  else if (result)
    printer.writeTileEpilogue(*result);
  else
    printer.writeEpilogue();
  const std::string to = problem.reducesRows ? "ToRow" : "To";
  const std::string partials = grid.places > 0 ? "PartialSums{flags, partials}" : "";
  printer.writeEntries(
      [&](const std::string &epilogue) {
        const bool reads = result && result->read;
        std::string finish = reads                 ? "ToTilesFrom<Epilogue>{" + epilogue + ", &resultMap, &readMap}"
                             : result              ? to + "Tiles<Epilogue>{" + epilogue + ", &resultMap}"
                             : problem.reducesRows ? to + "s<Epilogue>{" + epilogue + "}"
                                                   : epilogue;
        const std::string rows = runExtent(problem.graph, problem.dimM, printer.out());
        std::string call =
            "gemmSm90<Config, Product>(" + rowsArgument.value + ", " + columnsArgument.value + ", " + finish;
        if (!partials.empty() || !rows.empty())
          call += ", " + (partials.empty() ? "{}" : partials);
        return call + (rows.empty() ? "" : ", " + rows) + ");";
      },
      rowsArgument.parameters + columnsArgument.parameters +
          (result ? "const __grid_constant__ TensorMap resultMap, " : "") +
          (result && result->read ? "const __grid_constant__ TensorMap readMap, " : ""),
      grid.places > 0 ? ", unsigned *flags, float *partials" : "");
  KernelPlan plan = printer.plan(threads, sharedBytes(problem, config));
  std::vector<TensorMapRecipe> maps = recipesOf(rowSide, rowsType, tileRows, clusterColumns);
  llvm::append_range(maps, recipesOf(columnSide, columnsType, tileColumns, clusterRows));
  const auto boxColumns = static_cast<uint32_t>(swapped ? 64 : storedColumns(config)),
             boxRows = static_cast<uint32_t>(swapped ? transposedRows(config) : 16);
  if (result)
    maps.push_back(result->written.recipe(boxColumns, boxRows));
  if (result && result->read)
    maps.push_back(result->read->recipe(boxColumns));
  passTensorMaps(plan, std::move(maps));
  Launch &launch = plan.launches.front();
  launch.needsNoL1 = true; // TMA brings the operands.
  launch.cluster = {static_cast<uint32_t>(clusterM * clusterN), 1, 1};
  if (grid.places > 0) {
    passPartialSums(plan, problem, config, grid);
    setWaitingGrid(launch, gridBlocks, target);
  } else {
    setPersistentGrid(launch, grid.tiles * clusterM * clusterN,
                      clustersAtOnce(clusterM * clusterN, target) * clusterM * clusterN, target);
  }
  return plan;
}

} // namespace

const MatmulVariant &matmulSm90Template() {
  static const MatmulSm90Template instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
