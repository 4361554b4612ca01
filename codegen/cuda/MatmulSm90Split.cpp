// cuda.matmul_sm90_split: wgmma products of few rows or few tiles, K split over clusters and warpgroups.
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/Tma.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

constexpr int64_t depth = 64, lineBytes = 128;
constexpr int64_t epilogueVector = 8;
constexpr int64_t mostStages = 24;
constexpr double mostTiles = 16; ///< Tiles for each SM; beyond it persistent blocks waste less.
constexpr size_t mostCandidates = 64;

/// The config's tile as the instruction sees it.
struct Shape {
  int64_t rows, columns; ///< Of the product.
  int64_t tileRows, tileColumns;
};
Shape shapeOf(const MatmulProblem &problem, const TileConfig &config) {
  if (config["swap"])
    return {problem.N, problem.M, config["n"], config["m"]};
  return {problem.M, problem.N, config["m"], config["n"]};
}

int64_t threadsOf(const TileConfig &config) {
  int64_t rowGroups = (config["swap"] ? config["n"] : config["m"]) / 64;
  return rowGroups * config["groups_k"] * 128 + 32;
}

int64_t stageBytes(const TileConfig &config) { return (config["m"] + config["n"]) * lineBytes; }

/// The ring of tiles; the partial sums lie in the same memory (device/gemm_sm90_split.cuh).
int64_t ringBytes(const TileConfig &config) {
  int64_t pitch = config["n"] + (config["swap"] ? 4 : 8);
  int64_t parts = config["groups_k"] * config["m"] * pitch * 4;
  return std::max(config["stages"] * stageBytes(config), (parts + 127) / 128 * 128);
}
int64_t sharedBytes(const TileConfig &config) { return ringBytes(config) + config["stages"] * 16; }

int64_t blocksPerSm(const TileConfig &config, const ir::Target &target) {
  int64_t tileColumns = config["swap"] ? config["m"] : config["n"], registers = tileColumns / 2 + 64;
  int64_t byShared = (target.sharedBytesPerBlock + 1024) / (sharedBytes(config) + 1024);
  return std::min(
      {byShared, target.registersPerSm / (registers * threadsOf(config)), target.threadsPerSm / threadsOf(config)});
}

int64_t tilesOf(const MatmulProblem &problem, const TileConfig &config) {
  return ceilDiv(problem.M, config["m"]) * ceilDiv(problem.N, config["n"]) * problem.batches;
}

/// Modelled microseconds: what HBM, L2 or the tensor cores take, whichever is most, on the SMs that have
/// work, and the time to start, to fill the ring and to meet.
double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  const Shape shape = shapeOf(problem, config);
  const auto tiles = static_cast<double>(tilesOf(problem, config)), parts = static_cast<double>(config["blocks_k"]);
  const auto resident = static_cast<double>(blocksPerSm(config, target)),
             sms = static_cast<double>(target.multiprocessors);
  const double K = static_cast<double>(ceilDiv(problem.K, depth) * depth);
  const double blocks = tiles * parts, waves = std::ceil(blocks / (sms * resident));
  const double perSm = std::min(resident, std::ceil(blocks / sms)); // Blocks that share an SM.

  // One warpgroup with a narrow tile waits for its own sums: 64 of K take at least these microseconds.
  const double groups = static_cast<double>(config["groups_k"]);
  const double stageUs = 0.057 + 0.0005 * static_cast<double>(shape.tileColumns);
  const double ownUs = K / depth / parts / groups * stageUs;
  const double rate = target.halfFlopsPerUs / sms;
  const double mathUs = 2 * static_cast<double>(shape.tileRows * shape.tileColumns) * K / parts * perSm / rate;
  const double tileBytes = static_cast<double>(config["m"] + config["n"]) * K / parts * 2;
  const double l2Us = tileBytes * std::min(blocks, sms * resident) / (target.memoryBytesPerUs * 3.0);
  const double walkUs = waves * std::max({ownUs, mathUs, l2Us});

  // Little's law: what the rings of all SMs have under way.
  const double busy = std::min(1.0, blocks / sms);
  const double inFlight = busy * perSm * static_cast<double>(config["stages"] * stageBytes(config));
  const double hbmUs = memoryUs(region.bytesRead + region.bytesWritten, inFlight * 1.5, target) / 0.87;
  const double meetUs =
      (parts > 1 ? 0.27 + 0.16 * parts : 0.2) + static_cast<double>(config["m"] * config["n"]) * groups / 8500;
  return target.launchUs + 1.27 + std::max(walkUs, hbmUs) + 0.33 * std::min(walkUs, hbmUs) + meetUs;
}

class MatmulSm90SplitTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.matmul_sm90_split"; }
  ir::FusionDecision match(const Region &region, const ir::Target &target) const override;
  std::vector<TileConfig> candidates(const Region &region, const ir::Target &target) const override;
  double estimateUs(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return estimate(region, *MatmulProblem::of(region), config, target);
  }
  Result<KernelPlan> emit(const Region &region, const TileConfig &config, const ir::Target &target) const override;
};

ir::FusionDecision MatmulSm90SplitTemplate::match(const Region &region, const ir::Target &target) const {
  ir::FusionDecision decision = takenByWgmma(region, target);
  if (decision && candidates(region, target).empty())
    return ir::FusionDecision::no("is large: persistent blocks take it");
  return decision;
}

std::vector<TileConfig> MatmulSm90SplitTemplate::candidates(const Region &region, const ir::Target &target) const {
  struct Tile {
    int64_t m, n;
    bool swap;
  };
  static constexpr Tile tiles[] = {{64, 32, false},   {64, 64, false}, {64, 128, false}, {128, 64, false},
                                   {128, 128, false}, {8, 64, true},   {16, 64, true},   {32, 64, true},
                                   {64, 64, true},    {8, 128, true},  {16, 128, true},  {32, 128, true},
                                   {64, 128, true},   {128, 64, true}};
  MatmulProblem problem = *MatmulProblem::of(region);
  bool alongK[2] = {MatrixOperand::of(problem, 0).contiguousK, MatrixOperand::of(problem, 1).contiguousK};
  const int64_t stagesK = ceilDiv(problem.K, depth);
  std::vector<std::pair<double, TileConfig>> ranked;
  for (const Tile &tile : tiles) {
    // The columns of the instruction may be few, but where they are contiguous a panel holds 64.
    int64_t tileColumns = tile.swap ? tile.m : tile.n;
    if (!alongK[tile.swap ? 0 : 1] && tileColumns % 64 != 0)
      continue;
    bool isTooTall = tile.m >= 2 * problem.M && tile.m > (tile.swap ? 8 : 64),
         isTooWide = tile.n >= 2 * problem.N && tile.n > 64;
    if (isTooTall || isTooWide)
      continue;
    for (int64_t blocksK : {1, 2, 4, 8})
      for (int64_t groupsK : {1, 2})
        for (int64_t blocks : {1, 2}) {
          TileConfig config{{"m", tile.m},       {"n", tile.n},         {"k", depth},
                            {"swap", tile.swap}, {"blocks_k", blocksK}, {"groups_k", groupsK},
                            {"split_k", 1},      {"raster", 1},         {"stages", mostStages}};
          auto isTooBig = [&] { return (sharedBytes(config) + 1024) * blocks > target.sharedBytesPerBlock + 1024; };
          auto isTooDeep = [&] { return config["stages"] > std::max<int64_t>(4, stagesK / blocksK); };
          while (config["stages"] > 3 && (isTooBig() || isTooDeep()))
            config = config.with("stages", config["stages"] - 1);
          double tilesOfSm = static_cast<double>(tilesOf(problem, config) * blocksK) / target.multiprocessors;
          bool isIdle = stagesK < 2 * blocksK * groupsK || tilesOfSm > mostTiles || (blocks == 2 && tilesOfSm <= 1);
          if (isIdle || isTooBig() || config["stages"] < 4 || blocksPerSm(config, target) < blocks)
            continue;
          ranked.emplace_back(estimate(region, problem, config, target), config);
        }
  }
  return fastest(std::move(ranked), mostCandidates);
}

Result<KernelPlan> MatmulSm90SplitTemplate::emit(const Region &region, const TileConfig &config,
                                                 const ir::Target &target) const {
  MatmulProblem problem = *MatmulProblem::of(region);
  const Shape shape = shapeOf(problem, config);
  const unsigned rowSide = config["swap"] ? 1 : 0;
  TmaOperand rows = TmaOperand::of(problem, rowSide), columns = TmaOperand::of(problem, 1 - rowSide);
  const DType type = problem.elementType(0);
  MatmulPrinter printer(region, problem, config, target, epilogueVector);
  printer.writeHead("gemm_sm90_split.cuh");
  auto number = [](const char *name, int64_t value) { return std::string(name) + " = " + std::to_string(value); };
  printer.writeConfig(
      threadsOf(config),
      {"static constexpr int " + number("rows", shape.rows) + ", " + number("columns", shape.columns) + ";",
       "static constexpr int " + number("tileRows", shape.tileRows) + ", " + number("tileColumns", shape.tileColumns) +
           ";",
       "static constexpr int " + number("stages", config["stages"]) + ", " + number("ringBytes", ringBytes(config)) +
           ";",
       "static constexpr int " + number("blocksK", config["blocks_k"]) + ", " + number("groupsK", config["groups_k"]) +
           ";",
       std::string("static constexpr bool swapped = ") + (config["swap"] ? "true;" : "false;")});
  writeTmaOperand(printer, rows, "Rows");
  writeTmaOperand(printer, columns, "Columns");
  writeProduct(printer.out(), type, shape.tileColumns, rows.matrix.contiguousK, columns.matrix.contiguousK);
  printer.writeEpilogue();
  printer.writeEntries(
      [&](const std::string &epilogue) {
        return "gemmSm90Split<Config, Rows, Columns, Product>(rowsMap, columnsMap, " + epilogue + ");";
      },
      tensorMapParameters);
  KernelPlan plan = printer.plan(threadsOf(config), sharedBytes(config));
  passTensorMaps(plan, {rows.recipe(type, shape.tileRows), columns.recipe(type, shape.tileColumns)});
  Launch &launch = plan.launches.front();
  launch.grid = {static_cast<uint32_t>(tilesOf(problem, config) * config["blocks_k"]), 1, 1};
  launch.cluster = {static_cast<uint32_t>(config["blocks_k"]), 1, 1};
  return plan;
}

} // namespace

const KernelTemplate &matmulSm90SplitTemplate() {
  static const MatmulSm90SplitTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
