// cuda.matmul_sm90_split: wgmma products of few rows or few tiles, K split over clusters and warpgroups.
#include "codegen/cuda/matmul/MatmulCost.h"
#include "codegen/cuda/matmul/Templates.h"
#include "codegen/cuda/matmul/Tma.h"
#include "codegen/cuda/text/Clusters.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

constexpr int64_t lineBytes = 128;
constexpr int64_t epilogueVector = 8;
constexpr int64_t mostStages = 24;
constexpr double mostBlocks = 40;        ///< For each SM; beyond it persistent blocks waste less.
constexpr int64_t mostClusterBlocks = 8; ///< What every device allows.
constexpr int64_t mostSplits = 8;        ///< Splits of K, whose partial sums a thread adds up at once.
constexpr int64_t mostThreads = 1024;    ///< The most threads of a block.
constexpr int64_t producerThreads = 64;  ///< The threads of a block that bring its operands.
constexpr int64_t widestShare = 256;     ///< Rows of a tile that has its share of all.
constexpr size_t mostCandidates = 160;

/// The config's tile as the instruction sees it, with the columns of all products.
struct Shape {
  int64_t rows, columns; ///< Those of one product.
  int64_t tileRows, tileColumns;
  int64_t clusterRows, clusterColumns; ///< Blocks that share operands.
  int64_t groupsK, stages;
  bool swapped;

  Shape(const MatmulProblem &problem, const TileConfig &config)
      : Shape(problem, config["m"], config["n"], config.valueOr("cluster_m", 1), config.valueOr("cluster_n", 1),
              config["groups_k"], config["stages"], config["swap"]) {}
  Shape(const MatmulProblem &problem, int64_t m, int64_t n, int64_t clusterM, int64_t clusterN, int64_t groupsK,
        int64_t stages, bool swapped)
      : rows(problem.M), columns(problem.N), tileRows(m), tileColumns(n * problem.count()), clusterRows(clusterM),
        clusterColumns(clusterN), groupsK(groupsK), stages(stages), swapped(swapped) {
    if (swapped)
      std::swap(rows, columns), std::swap(tileRows, tileColumns), std::swap(clusterRows, clusterColumns);
  }

  bool isShared() const { return clusterRows * clusterColumns > 1; }
  int64_t threads() const { return tileRows / 64 * groupsK * 128 + producerThreads; }
  int64_t stageBytes() const { return (tileRows + tileColumns) * lineBytes; }
  /// The ring of tiles; the partial sums lie in the same memory (device/matmul/gemm_sm90_split.cuh).
  int64_t ringBytes() const {
    int64_t m = swapped ? tileColumns : tileRows, n = swapped ? tileRows : tileColumns;
    int64_t partials = groupsK * m * (ceilDiv(n, 16) * 16 + (swapped ? 4 : 8)) * 4;
    return std::max(stages * stageBytes(), (partials + 127) / 128 * 128);
  }
  int64_t sharedBytes() const { return ringBytes() + stages * 16; }
  int64_t blocksPerSm(const ir::Target &target) const {
    int64_t registers = tileColumns / 2 + 40, byShared = (target.sharedBytesPerBlock + 1024) / (sharedBytes() + 1024);
    return std::min({byShared, target.registersPerSm / (registers * threads()), target.threadsPerSm / threads()});
  }
};

int64_t clusterBlocks(const TileConfig &config) {
  return config["blocks_k"] * config.valueOr("cluster_m", 1) * config.valueOr("cluster_n", 1);
}
/// Whole clusters of blocks, those past the edge included.
int64_t blocksOf(const MatmulProblem &problem, int64_t m, int64_t n, int64_t clusterM, int64_t clusterN,
                 int64_t blocksK) {
  return ceilDiv(problem.M, m * clusterM) * ceilDiv(problem.N, n * clusterN) * problem.batches *
         (blocksK * clusterM * clusterN);
}
int64_t blocksOf(const MatmulProblem &problem, const TileConfig &config) {
  return blocksOf(problem, config["m"], config["n"], config.valueOr("cluster_m", 1), config.valueOr("cluster_n", 1),
                  config["blocks_k"]);
}

/// The result as TMA writes it, from the registers of a block that finishes its tile alone; else a cluster's blocks or
/// the warps of one put partial sums together, and each thread stores `epilogueVector` neighbours.
std::optional<TmaResult> resultThroughTma(const MatmulProblem &problem, const TileConfig &config) {
  if (!config["swap"] || config["blocks_k"] > 1 || problem.count() > 1)
    return std::nullopt;
  return TmaResult::ofColumns(problem);
}

/// Whether lanes store their own accumulators, neighbours of 4: blocks that finish tiles of rows alone, with an
/// epilogue that reads the same for all of them.
bool storesOwnRows(const MatmulProblem &problem, const TileConfig &config) {
  return !config["swap"] && config["blocks_k"] * config["groups_k"] == 1 && problem.count() == 1 &&
         config["n"] % 16 == 0 && !problem.readsRows();
}

/// Blocks that are launched side by side though they share nothing by multicast: two that read the same weights, on the
/// two SMs that share a path to the L2. It saves 6 us of the 139 of 20 layers of five times 256 x 1024 x 1024 in tiles
/// of 128 x 80; sharing by multicast takes 10 us more.
int64_t neighboursOf(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target) {
  const bool arePairs = ceilDiv(problem.M, config["m"]) % 2 == 0;
  const bool fitAtOnce = blocksOf(problem, config) <= target.multiprocessors;
  return clusterBlocks(config) == 1 && arePairs && fitAtOnce && storesOwnRows(problem, config) ? 2 : 1;
}

/// Rows and columns of both operands that clusters at work together read, of which those down come first: what they
/// share comes from HBM once.
double patchOf(const MatmulProblem &problem, const TileConfig &config, int64_t clusters) {
  const int64_t height = config["m"] * config.valueOr("cluster_m", 1),
                width = config["n"] * config.valueOr("cluster_n", 1);
  const int64_t tall = ceilDiv(problem.M, height);
  return static_cast<double>(std::min(problem.M, height * std::min(tall, clusters)) +
                             static_cast<int64_t>(problem.count()) *
                                 std::min(problem.N, width * ceilDiv(clusters, tall)));
}

/// What the estimate knows of an H200, fitted to the 51 products of sm90::estimate, last in commit 5ebaf4c; turnUs by
/// hand in c98837a. The sweeps were not kept. A speedup is over the target's nominal HBM bandwidth.
struct Coefficients {
  double mathShare = 0.9;       ///< The share reached of the tensor cores' rate.
  double l2Speedup = 3.55;      ///< Reads from the L2.
  double reachSpeedup = 3.65;   ///< What reaches all SMs, 64 bytes a clock each.
  double memoryShare = 0.98;    ///< The share reached of the HBM bandwidth.
  double inFlightFactor = 1.16; ///< Bytes in flight over those of the rings.
  double readAgainShare = 0.05; ///< The share of weights that is read again: tiles of the same ones are neighbours.
  double kBlockUs = 0.05;       ///< A K block takes at least so long, since a warpgroup waits for its own products.
  double columnUs = 0.0007;     ///< So much longer it takes for each column of the tile.
  double aloneUs = 0.01;        ///< What of it shows for each K block where the warpgroup is the only one of its SM.
  double waveUs = 5;            ///< The start and the stores of a further wave, which nothing hides.
  double startUs = 1.1;         ///< A kernel's start.
  double overlap = 0.26;        ///< What of the shorter of walk and HBM shows beside the longer.
  double turnUs = 0.04;         ///< Results that are transposed: 256 x 1024 x 1024 on an H200 takes 3.53 us instead of
                                ///< 3.49 with 32 x 64 as with 64 x 32.
  double foldedPerUs = 11000;   ///< Accumulators that a block finishes.
  double gatheredPerUs = 25000; ///< Accumulators of further warpgroups that a block gathers.
};
constexpr Coefficients h200;

/// The time of one config, term by term.
class Cost {
public:
  Cost(const Region &region, const MatmulProblem &problem, const TileConfig &config, const ir::Target &target)
      : region(region), problem(problem), config(config), target(target), shape(problem, config),
        type(problem.elementType(0)), splits(static_cast<double>(config["blocks_k"])),
        groups(static_cast<double>(config["groups_k"])), tileRows(static_cast<double>(shape.tileRows)),
        tileColumns(static_cast<double>(shape.tileColumns)),
        kBlocks(static_cast<double>(ceilDiv(problem.K, depthOf(type)))),
        blocks(static_cast<double>(blocksOf(problem, config))), sms(static_cast<double>(target.multiprocessors)),
        resident(static_cast<double>(shape.blocksPerSm(target))), together(clusterBlocks(config)),
        atOnce(static_cast<double>(clustersAtOnce(together, target) * together) * resident),
        waves(std::ceil(blocks / atOnce)), perSm(std::min(resident, std::ceil(blocks / sms))),
        neighbours(neighboursOf(problem, config, target)) {}

  double us() const {
    const double walkUs = this->walkUs(), hbmUs = this->hbmUs();
    const double boundUs = std::max(walkUs, hbmUs) + h200.overlap * std::min(walkUs, hbmUs);
    const double us = target.launchUs + h200.startUs + boundUs + waitUs() + fixUpUs();
    return atPowerLimit(us, waves * mathUs());
  }

private:
  /// A tile's products on an SM. Instructions of few columns read more of A than they multiply.
  double mathUs() const {
    const double K = kBlocks * static_cast<double>(depthOf(type)), narrow = std::min(1.0, 0.355 + tileColumns / 146);
    const double rate = target.matmulFlopsPerUs(type, problem.tf32) * h200.mathShare * narrow / sms;
    return 2 * tileRows * tileColumns * K / splits * perSm / rate;
  }
  /// A tile, by what a warpgroup waits for its own products.
  double ownUs() const { return kBlocks / splits / groups * (h200.kBlockUs + h200.columnUs * tileColumns); }
  /// Bytes of a row or column that a block reads.
  double bytesK() const { return static_cast<double>(lineBytes) * kBlocks / splits; }
  /// A tile's operands from the L2.
  double l2Us() const {
    const auto readers = static_cast<double>(shape.clusterRows * neighbours);
    const double bytes = bytesK() * (tileRows / static_cast<double>(shape.clusterColumns) + tileColumns / readers);
    return bytes * std::min(blocks, sms * resident) / (target.memoryBytesPerUs * h200.l2Speedup);
  }
  /// The time of a tile's operands from the L2 to the SM.
  double reachUs() const {
    const double bytes = bytesK() * (tileRows + tileColumns);
    return bytes * perSm * sms / (target.memoryBytesPerUs * h200.reachSpeedup);
  }
  double walkUs() const { return waves * std::max({ownUs(), mathUs(), l2Us(), reachUs()}) + (waves - 1) * h200.waveUs; }
  /// Little's law: what the rings of all SMs have in flight.
  double hbmUs() const {
    const double busy = std::min(1.0, blocks / sms);
    const double inFlight = busy * perSm * static_cast<double>(shape.stages * shape.stageBytes());
    const double readAgain = weightsReadAgain(problem, config, neighbours, h200.readAgainShare);
    const auto clusters = static_cast<int64_t>(std::min(blocks, atOnce)) / together;
    const double ofWaves =
        waves * patchOf(problem, config, std::max<int64_t>(clusters, 1)) * kBlocks * static_cast<double>(lineBytes);
    const double bytes = std::max(region.bytesRead, ofWaves) + region.bytesWritten + readAgain;
    return std::hypot(memoryUs(bytes, inFlight * h200.inFlightFactor, target) / h200.memoryShare,
                      pastEdgeUs(problem, config, kBlocks));
  }
  /// Where a warpgroup is the only one of its SM, some of its wait shows whatever bounds the rest: 32 x 64 tiles of 24
  /// x 7168 x 5120 take 21.5 us with one warpgroup, 20.9 with two that share K.
  double waitUs() const {
    const bool isAlone = tileRows * groups * perSm <= 64;
    return isAlone ? waves * kBlocks / splits * h200.aloneUs : 0;
  }
  /// The fix-up of splits. A block gathers the accumulators of each further warpgroup, and the longer the more blocks
  /// of the cluster do: with two warpgroups instead of one 128 x 112 and 64 x 224 tiles take 2.8 us more where a block
  /// has all of K, 3.2 and 4.8 where two and four share it (medians of 92 pairs, blocks alone on an SM and not). What
  /// an SM's blocks gather, at once or in waves, adds up.
  double fixUpUs() const {
    const double accumulators = tileRows * tileColumns;
    return (splits > 1         ? 1.06 * splits - 0.15
            : shape.isShared() ? 0.25
                               : 0.2) +
           (shape.swapped ? h200.turnUs : 0) + accumulators / h200.foldedPerUs +
           (groups - 1) * (splits + 2) * accumulators * perSm * waves / h200.gatheredPerUs;
  }

  const Region &region;
  const MatmulProblem &problem;
  const TileConfig &config;
  const ir::Target &target;
  const Shape shape;
  const DType type;
  const double splits, groups, tileRows, tileColumns;
  const double kBlocks; ///< Those of the whole product.
  const double blocks, sms, resident;
  const int64_t together;            ///< Blocks of a cluster.
  const double atOnce, waves, perSm; ///< Blocks on the device at once; blocks that share an SM.
  const int64_t neighbours;
};

double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  return Cost(region, problem, config, target).us();
}

/// Whether a thread's share of an SM's registers, as whole warpgroups get them in eights, holds its accumulators and at
/// least what addresses, descriptors and counters take. How much an epilogue needs beside them is the compiler's to
/// say: the search refuses what spills.
bool fitsRegisters(const Shape &shape, const ir::Target &target) {
  constexpr int64_t leastBeside = 26; // With 96 registers ptxas refuses a wgmma of 72 accumulators.
  const int64_t threads = (shape.threads() + 127) / 128 * 128;
  return (shape.tileColumns / 2 + leastBeside + 7) / 8 * 8 * threads <= target.registersPerSm;
}

/// As many stages, up to those of the shape, as `blocks` of it leave room for on an SM and each of `blocksK` that share
/// `stagesK` of K has use for; nothing where those are too few, or registers or threads too many.
std::optional<int64_t> stagesFor(Shape shape, const MatmulProblem &problem, int64_t stagesK, int64_t blocksK,
                                 int64_t blocks, const ir::Target &target) {
  if (!fitsRegisters(shape, target) || shape.threads() > mostThreads)
    return std::nullopt;
  auto isTooBig = [&] { return (shape.sharedBytes() + 1024) * blocks > target.sharedBytesPerBlock + 1024; };
  auto isTooDeep = [&] { return shape.stages > std::max<int64_t>(4, stagesK / blocksK); };
  auto isUneven = [&] { return shape.stages % shape.groupsK != 0; }; // device/matmul/gemm_sm90_split.cuh says why.
  while (shape.stages > 3 && (isTooBig() || isTooDeep() || isUneven()))
    --shape.stages;
  if (shape.stages < 4 || isTooBig() || shape.blocksPerSm(target) < blocks)
    return std::nullopt;
  return shape.stages;
}

struct Tile {
  int64_t m, n;
  bool swap;
};
/// Tiles of one product for `rows`.
std::vector<Tile> tilesFor(int64_t rows) {
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

/// Shows `visit` every config that fits, until it has seen enough (false).
void forEachConfig(const MatmulProblem &problem, const ir::Target &target,
                   llvm::function_ref<bool(const TileConfig &)> visit) {
  // How many tiles down by how many across share operands.
  static constexpr std::pair<int64_t, int64_t> clusters[] = {{1, 1}, {1, 2}, {2, 1}, {2, 2}};
  const bool alongK[2] = {MatrixOperand::of(problem, 0).contiguousK, MatrixOperand::of(problem, 1).contiguousK};
  const int64_t depth = depthOf(problem.elementType(0)), stagesK = ceilDiv(problem.K, depth);
  const auto products = static_cast<int64_t>(problem.count());
  for (const Tile &tile : tilesFor(problem.M)) {
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
            const std::optional<int64_t> stages = stagesFor(shape, problem, stagesK, blocksK, blocks, target);
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
  MatmulSm90SplitTemplate()
      : TiledMatmulVariant({.number = 2, .mostCandidates = mostCandidates, .usesTensorCores = true}) {}

  std::string_view name() const override { return "cuda.matmul_sm90_split"; }
  ir::FusionDecision takes(const Region &region, const MatmulProblem &problem, const ir::Target &target) const override;
  std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                     const ir::Target &target) const override;
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override;
};

ir::FusionDecision MatmulSm90SplitTemplate::takes(const Region &region, const MatmulProblem &problem,
                                                  const ir::Target &target) const {
  ir::FusionDecision decision = takenByWgmma(region, problem, target);
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

std::vector<EstimatedConfig> MatmulSm90SplitTemplate::space(const Region &region, const MatmulProblem &problem,
                                                            const ir::Target &target) const {
  std::vector<EstimatedConfig> ranked;
  forEachConfig(problem, target, [&](const TileConfig &config) {
    ranked.emplace_back(estimate(region, problem, config, target), config);
    return true;
  });
  return ranked;
}

Result<KernelPlan> MatmulSm90SplitTemplate::print(const Region &region, const TileConfig &config,
                                                  const ir::Target &target) const {
  MatmulProblem problem = *MatmulProblem::of(region);
  const Shape shape(problem, config);
  const unsigned rowSide = shape.swapped ? 1 : 0;
  const TmaSide rows = sideOf(problem, rowSide);
  TmaSide columns = sideOf(problem, 1 - rowSide);
  const DType rowsType = problem.elementType(rowSide), columnsType = problem.elementType(1 - rowSide);
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
  printer.writeConfig(
      shape.threads(),
      {"static constexpr int " + number("rows", shape.rows) + ", " + number("columns", shape.columns) + ";",
       "static constexpr int " + number("tileRows", shape.tileRows) + ", " + number("tileColumns", shape.tileColumns) +
           ";",
       "static constexpr int " + number("stages", config["stages"]) + ", " + number("ringBytes", shape.ringBytes()) +
           ";",
       "static constexpr int " + number("clusterRows", shape.clusterRows) + ", " +
           number("clusterColumns", shape.clusterColumns) + ";",
       "static constexpr int " + number("blocksK", config["blocks_k"]) + ", " + number("groupsK", config["groups_k"]) +
           ";",
       std::string("static constexpr bool swapped = ") + (config["swap"] ? "true;" : "false;")});
  const TmaArgument rowsArgument =
                        writeTmaSide(printer, rows, "Rows", earlyBlocks(region, rows, rowsType, blocks, target)),
                    columnsArgument = writeTmaSide(printer, columns, "Columns", columnFetchers);
  writeProduct(printer.out(), rowsType, columnsType, shape.tileColumns, rows, columns);
  if (result)
    printer.writeTileEpilogue(*result);
  else
    printer.writeEpilogue();
  printer.writeEntries(
      [&](const std::string &epilogue) {
        const std::string runRows = runExtent(problem.graph, problem.dimM, printer.out());
        return "gemmSm90Split<Config, Product>(" + rowsArgument.value + ", " + columnsArgument.value + ", " +
               (result       ? "ToTiles<Epilogue>{" + epilogue + ", &resultMap}"
                : storesRows ? "ToRows<Epilogue>{" + epilogue + "}"
                             : epilogue) +
               (runRows.empty() ? "" : ", " + runRows) + ");";
      },
      rowsArgument.parameters + columnsArgument.parameters +
          (result ? "const __grid_constant__ TensorMap resultMap, " : ""));
  KernelPlan plan = printer.plan(shape.threads(), shape.sharedBytes());
  std::vector<TensorMapRecipe> maps = recipesOf(rows, rowsType, shape.tileRows, shape.clusterColumns);
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
