// cuda.matmul_sm90: matrix products on Hopper's wgmma, fed by TMA, in persistent clusters. Clusters may share the tiles
// that do not fill a wave (stream-K), or take tiles of two widths, so many that they fill whole waves. Where a cluster
// spans N, it reduces rows of the result before it stores them.
#include "codegen/cuda/LastBlock.h"
#include "codegen/cuda/RowEpilogue.h"
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/Tma.h"
#include "codegen/cuda/TwoWidths.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

constexpr int64_t lineBytes = 128;
constexpr int64_t threads = 384; ///< A producer and two consumer warpgroups.
constexpr int64_t consumerWarps = 8;
constexpr int64_t mostStages = 8;
constexpr size_t walksOfTile = 2; ///< Orders of its tiles that a shape of tile is offered with.
constexpr size_t mostCandidates = 160;
constexpr int64_t leastLines = 4; ///< Of K in a piece of shared tiles, and ...
constexpr int64_t mostPieces = 7; ///< ... pieces that others compute of a tile: whoever finishes it adds them up.
constexpr int64_t pieceCost = 3; ///< In lines of K, what a piece is taken to cost beside its own (docs/experiments.md).

/// Columns of all products in a tile.
int64_t columnsOf(const MatmulProblem &problem, const TileConfig &config) { return config["n"] * problem.count(); }

int64_t stageBytes(const MatmulProblem &problem, const TileConfig &config) {
  return (config["m"] + columnsOf(problem, config)) * lineBytes;
}

/// Columns of a result that a consumer warp collects at a time for TMA, with 16 rows of them.
int64_t storedColumns(const TileConfig &config) { return config["n"] % 64 == 0 ? 64 : config["n"] % 32 == 0 ? 32 : 16; }
int64_t sumRegisters(const MatmulProblem &problem, const TileConfig &config) {
  int64_t warpgroupRows = config["pingpong"] ? config["m"] : config["m"] / 2;
  return warpgroupRows / 64 * columnsOf(problem, config) / 2;
}

/// A region's product, and its result where TMA can write it, whatever the config.
struct Sm90Problem : MatmulProblem {
  int64_t inputs;
  std::optional<TmaResult> placed;

  Sm90Problem(const Region &region, MatmulProblem problem)
      : MatmulProblem(std::move(problem)), inputs(static_cast<int64_t>(region.graph.inputs.size())),
        placed(reducesRows ? TmaResult::placed(*this) : TmaResult::of(*this)) {}

  /// Whether the epilogue reads elements of 32 bits.
  bool readsWords() const {
    return llvm::any_of(llvm::enumerate(graph.graph.nodes), [&](const auto &each) {
      const ir::ScalarNode &node = each.value();
      return node.kind == ir::ScalarNode::Kind::Load && !isOperand({static_cast<int>(each.index())}) &&
             byteWidth(graph.graph.inputs[node.input].type) == 4;
    });
  }
  /// Operands of the epilogue that threads load, as a bias.
  int64_t loaded() const { return inputs - static_cast<int64_t>(count()) - 1 - (placed && placed->read ? 1 : 0); }
  /// The result as TMA writes it in a config, or null: with 176 sums a thread, a bias beside them would spill. Where
  /// rows are reduced an epilogue takes two columns a lane, with TMA or without.
  const TmaResult *resultThroughTma(const TileConfig &config) const {
    const bool wouldSpill = !reducesRows && sumRegisters(*this, config) > 160 && loaded() > 0;
    return placed && !wouldSpill ? &*placed : nullptr;
  }
};

/// Two slots of totals from every block of the row, for the rows of a warp, and their barriers
/// (device/row_epilogue.cuh).
int64_t exchangeBytes(const TileConfig &config) {
  const int64_t rows = (config["pingpong"] ? config["m"] : config["m"] / 2) / 4, peers = config["cluster_n"];
  return peers > 1 ? 2 * peers * rows * static_cast<int64_t>(sizeof(float)) + 16 : 0;
}

/// What the warps stage: two buffers of 16 bits for TMA (device/warp_store.cuh), or f32 (device/warp_tile.cuh).
/// For 128 x 256 the one leaves room for four stages, the other for three.
int64_t stagingBytes(const Sm90Problem &problem, const TileConfig &config) {
  const int64_t tiles = problem.resultThroughTma(config) ? 2 * 16 * storedColumns(config) * 2 : 0;
  if (problem.reducesRows)
    return consumerWarps * llvm::alignTo(tiles + exchangeBytes(config), 1024);
  if (tiles > 0)
    return consumerWarps * tiles;
  const int64_t products = problem.count();
  const int64_t staged = products == 1 ? storedColumns(config) : std::min<int64_t>(storedColumns(config), 32);
  return consumerWarps * products * 16 * (staged + 8) * 4;
}

int64_t sharedBytes(const Sm90Problem &problem, const TileConfig &config) {
  const TmaResult *result = problem.resultThroughTma(config);
  const int64_t read = result && result->read ? consumerWarps * 16 : 0; // A barrier for each of a warp's buffers.
  const int64_t barriers = llvm::alignTo(config["stages"] * 16 + read, 128);
  return config["stages"] * stageBytes(problem, config) + barriers + stagingBytes(problem, config);
}

struct Grid {
  int64_t tall, wide, tiles, clusters; ///< Cluster tiles down, across and in all; clusters launched.
  int64_t streamed = 0;                ///< Tiles of a last wave that is not full, with which ...
  int64_t helpers = 0;                 ///< ... clusters help that have none of them (device/tile_walk.cuh), in ...
  int64_t pieces = 1, pieceLines = 0;  ///< ... so many pieces of a tile, of so many lines of K.

  bool isShared() const { return streamed > 0; }
  bool hasWholeWaves() const { return tiles > streamed; }
};
/// Helpers compute `pieces` pieces of each tile of the last wave, so deep that they take as long as what is left of it.
/// Some may have none: 100 pieces are 25 times four for 32 helpers.
Grid gridOf(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target) {
  Grid grid;
  grid.tall = ceilDiv(problem.M, config["m"] * config["cluster_m"]);
  grid.wide = ceilDiv(problem.N + TwoWidths::narrowBy * config.valueOr("narrow", 0), config["n"] * config["cluster_n"]);
  grid.tiles = grid.tall * grid.wide * problem.batches;
  const int64_t atOnce = clustersAtOnce(config["cluster_m"] * config["cluster_n"], target),
                pieces = config.valueOr("pieces", 0), left = grid.tiles % atOnce;
  if (pieces > 0 && left > 0) {
    const int64_t helpers = grid.tiles > left ? atOnce - left : std::min(atOnce - left, left * pieces),
                  each = ceilDiv(left * pieces, helpers), lines = ceilDiv(problem.K, config["k"]),
                  pieceLines = (lines - pieceCost * each) / (pieces + each);
    if (pieceLines > 0)
      grid.streamed = left, grid.helpers = helpers, grid.pieces = pieces, grid.pieceLines = pieceLines;
  }
  grid.clusters = grid.isShared() ? left + grid.helpers : std::min(grid.tiles, atOnce);
  return grid;
}

/// Into how many pieces beside what is left the tiles of a last wave that is not full may be cut: one, or as many as
/// there are helpers for. Beside sums on their way an epilogue that stages its own as f32 spills, and so does one that
/// reads a matrix or a vector of f32 beside 160 of them. Beside 112 or more any does that collects 32 columns in
/// clusters of four (128 x 224, 256 x 160), or whose blocks share rows that are not contiguous along K, and beside 160
/// one that loads a bias where blocks share rows (NVRTC 13.0).
std::set<int64_t> piecesOf(const Sm90Problem &problem, const TileConfig &config, const ir::Target &target) {
  const int64_t atOnce = clustersAtOnce(config["cluster_m"] * config["cluster_n"], target),
                tiles = gridOf(problem, config, target).tiles, left = tiles % atOnce;
  if (problem.reducesRows || left == 0 || !problem.resultThroughTma(config))
    return {};
  const int64_t sums = sumRegisters(problem, config);
  const bool reads = problem.resultThroughTma(config)->read || problem.readsWords();
  const bool collects32 = config["cluster_m"] * config["cluster_n"] == 4 && storedColumns(config) == 32;
  const bool sharesRows = config["cluster_n"] > 1 && !MatrixOperand::of(problem, 0).contiguousK;
  const bool loadsBeside = config["cluster_n"] > 1 && sums >= 160 && problem.loaded() > 0;
  if ((reads && sums > 128) || ((collects32 || sharesRows) && sums >= 112) || loadsBeside)
    return {};
  if (config["pingpong"] && tiles < atOnce) // Nothing hides how sums meet.
    return {};
  const int64_t most = std::clamp<int64_t>((atOnce - left) / left, 1, mostPieces);
  std::set<int64_t> pieces;
  for (int64_t each : {int64_t{1}, most})
    if (gridOf(problem, config.with("pieces", each), target).pieceLines >= leastLines)
      pieces.insert(each);
  return pieces;
}

/// Whether tiles may have two widths: which of them are narrow differs between groups of rows, so that clusters lie one
/// above the other, and an epilogue has to know them, as those do whose result TMA writes and which read no matrix.
/// That tiles are 128 rows in turns, and no batches, is a choice: whole waves of others were not looked at.
bool takesTwoWidths(const Sm90Problem &problem, const TileConfig &config) {
  const TmaResult *result = problem.resultThroughTma(config);
  return !problem.reducesRows && problem.count() == 1 && problem.batches == 1 && result && !result->read &&
         config["pingpong"] && config["m"] == 128 && config["n"] >= 128 && config["cluster_n"] == 1 &&
         MatrixOperand::of(problem, 1).contiguousK;
}

/// Modelled microseconds: the tiles that the busiest cluster walks, at the rate of the tensor cores or of
/// what feeds them, and what no other work hides of each tile's end. The constants here and in the other ways'
/// estimates fit 3800 configs on 24 shapes measured back to back on an H200 (docs/tuning.md), and all 7260 of 27 more.
double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  constexpr double mathShare = 0.87;     // Of the nominal rate, as far as power allows.
  constexpr double l2Speedup = 3.1;      // L2 over nominal HBM bandwidth.
  constexpr double storeSpeedup = 1.3;   // The same for what an epilogue writes.
  constexpr double memoryShare = 0.96;   // Of the nominal HBM bandwidth, while tiles come and go.
  constexpr double stageUs = 0.185;      // At least, for a line of K, and ...
  constexpr double metStageUs = 0.21;    // ... where blocks meet over rows, as it was fitted beside exchangeUs.
  constexpr double startUs = 0.28;       // Of a kernel, and ...
  constexpr double meetUs = 0.73;        // ... of one whose blocks meet in clusters first.
  constexpr double movedShare = 0.05;    // Of the tensor cores' time, for the bytes that reach an SM, as below.
  constexpr double inFlightShare = 0.54; // Of the ring, that is under way in the mean.
  constexpr double readApart = 0.0375;   // Of an operand, that is read again for each tile between two that read it ...
  constexpr double mostReadApart = 0.6;  // ... and at most.
  constexpr double exchangeUs = 0.9;     // Of a reduction over rows: a pass over the sums, and the way to the peers.
  constexpr double partsUs = 6;          // Of shared tiles: what they wait for each other, and ...
  constexpr double hiddenPartsUs = 2;    // ... where helpers had their own tile's time before.
  constexpr double twoWidthsUs = 0.2;    // Of each tile where there are two widths, beside its products.
  constexpr double sharpness = 3.5;      // Of bounds that add up where they are near: two equal ones take 1.22 of one.
  const Grid grid = gridOf(problem, config, target);
  const auto of = [&](const char *field) { return static_cast<double>(config[field]); };
  const double tileM = of("m"), tileN = of("n"), clusterM = of("cluster_m"), clusterN = of("cluster_n");
  const auto products = static_cast<double>(problem.count()), columns = tileN * products;
  const DType type = problem.elementType(0);
  const auto stages = static_cast<double>(ceilDiv(problem.K, depthOf(type)));
  const double K = stages * static_cast<double>(depthOf(type)), bytesK = stages * lineBytes;
  const double clusters = static_cast<double>(grid.clusters), active = clusters * clusterM * clusterN;
  const double rate = target.matmulFlopsPerUs(type, problem.tf32) * mathShare / target.multiprocessors;

  // Instructions narrower than 128 columns read more of A than they multiply. At the power limit what is moved for each
  // product costs clocks: with this term the first pick is 98.3 % of the best of 40 measured hot in turns, 97.7 without
  // (11 products of 256 to 32768 rows).
  const double moved = movedShare * (64 / tileM + 64 / columns - 0.9);
  const double mathUs = 2 * tileM * columns * K * (1 + moved) / (rate * std::min(1.0, 0.375 + columns / 160));
  const double loaded = (tileM / clusterN + columns / clusterM) * bytesK;
  const double l2Us = loaded * active / (target.memoryBytesPerUs * l2Speedup);
  const double reductions = problem.reducesRows ? static_cast<double>(RowEpilogue(problem).reductionCount()) : 0;
  const double finishUs =
      tileM * tileN * 2 * active / (target.memoryBytesPerUs * storeSpeedup) + reductions * exchangeUs;
  // What reaches an SM, 64 bytes a clock: 64 x 128 and 64 x 192 tiles of 56 x 5120 x 13824 take 0.21 and 0.28 us a
  // line. Rows past the edge do not. Where rows are reduced it is not measured.
  constexpr double reachSpeedup = 3.2; // Of all SMs, over nominal HBM bandwidth.
  const double reachBytes = (std::min(tileM, static_cast<double>(problem.M)) + columns) * lineBytes;
  const double reachUs = reachBytes * target.multiprocessors / (target.memoryBytesPerUs * reachSpeedup);
  const double lineUs = problem.reducesRows ? metStageUs : std::max(stageUs, reachUs);
  const double tileUs = std::max({mathUs, l2Us, stages * lineUs});
  const double waves = std::ceil(static_cast<double>(grid.tiles - grid.streamed) / clusters);
  double walkUs =
      config["pingpong"] ? waves * std::max(tileUs, (tileUs + finishUs) / 2) + finishUs : waves * (tileUs + finishUs);
  // Two widths count as whole waves: what that is too much, up to 1 %, keeps them from pushing out other kinds of tile.
  const double wavesOfMath = grid.isShared() ? static_cast<double>(grid.tiles) / clusters : waves;
  if (config.has("narrow")) {
    const TwoWidths row{config["n"], grid.wide, config["narrow"]};
    const auto busiest = static_cast<double>(row.place(grid.tall, config["raster"], grid.clusters).busiest);
    walkUs = walkUs * busiest / (waves * tileN) + waves * twoWidthsUs;
  }
  // What helpers leave of a tile. Then, when HBM has brought all, the way of their sums to whoever finishes it: 128 x
  // 160 tiles of 128 x 5120 x 14336, each cut in four, take 50.2 us, of which hiding it would leave 42.
  double tailUs = 0;
  if (grid.isShared()) {
    const auto pieces = static_cast<double>(grid.pieces), lines = static_cast<double>(grid.pieceLines);
    const double sumBytes = tileM * columns * sizeof(float),
                 reach = target.memoryBytesPerUs * 3.5 / target.multiprocessors;
    walkUs += (1 - pieces * lines / stages) * tileUs + (config["pingpong"] ? 0 : finishUs);
    tailUs = config["pingpong"] ? hiddenPartsUs
                                : (grid.hasWholeWaves() ? hiddenPartsUs : partsUs) + (pieces + 1) * sumBytes / reach;
  }

  // Clusters at work together read a patch of the product's tiles; what they share comes from HBM once.
  const bool alongN = config["raster_n"] != 0;
  const double along = static_cast<double>(std::min(config["raster"], alongN ? grid.wide : grid.tall));
  const double across = std::ceil(clusters / along);
  const double patchM = tileM * clusterM * (alongN ? across : along),
               patchN = tileN * clusterN * (alongN ? along : across);
  // Of neighbours in the order of tiles those along one direction come next to each other, and share an operand at the
  // same time; the other one is read again by tiles that are far apart: 64 x 128 tiles of 128 x 6144 x 4096 take 17.3
  // us where the two of the same weights are neighbours, 26.4 where they are 48 tiles apart.
  const bool rowsNext = alongN == (config["raster"] == 1);
  const double apart = rowsNext ? (grid.wide > 1 ? static_cast<double>(problem.M) : 0)
                                : (grid.tall > 1 ? products * static_cast<double>(problem.N) : 0);
  const double distance = config["raster"] > 1 ? of("raster") : static_cast<double>(alongN ? grid.tall : grid.wide);
  const double patch =
      std::min(patchM, static_cast<double>(problem.M)) + products * std::min(patchN, static_cast<double>(problem.N));
  // Where rows are reduced all clusters share rows: not measured.
  const double readAgain = problem.reducesRows ? 0 : weightsReadAgain(problem, config, 1, 0);
  const double hbmBytes =
      std::max(waves * patch * bytesK + region.bytesWritten, region.bytesRead + region.bytesWritten) +
      std::min(mostReadApart, readApart * distance) * apart * bytesK + readAgain;
  const double ring = of("stages") * static_cast<double>(stageBytes(problem, config));
  const double inFlight = active / target.multiprocessors * ring * inFlightShare;
  // Rows past the edge hold up what HBM brings: 64 x 128 tiles of 16 x 11008 x 4096 take 28.7 us, where the rows alone
  // would take 15 and the weights 20.
  const double hbmUs =
      std::hypot(memoryUs(hbmBytes, inFlight, target) / memoryShare, pastEdgeUs(problem, config, stages));
  const double fixedUs = target.launchUs + startUs + (clusterM * clusterN > 1 ? meetUs : 0);
  // A last wave of few tiles is shorter than it seems: few busy SMs clock higher. Without, shared tiles kept better
  // ones out of the first eight: 2048 x 4096 x 16384 took 420 us instead of 400.
  const double streamedFactor = !grid.isShared() ? 1 : config["pingpong"] ? 1.02 : 1.05;
  const double boundUs = std::pow(std::pow(walkUs, sharpness) + std::pow(hbmUs, sharpness), 1 / sharpness);
  const double us = (fixedUs + boundUs + tailUs) * streamedFactor;
  return atPowerLimit(us, wavesOfMath * mathUs);
}

/// The config with every order of its tiles that differs: groups of 1 to 16 along M or N.
std::vector<TileConfig> rasters(const TileConfig &config, const Grid &grid) {
  std::vector<TileConfig> all;
  for (bool alongN : {false, true})
    for (int64_t raster : {1, 4, 8, 16}) {
      int64_t along = alongN ? grid.wide : grid.tall, across = alongN ? grid.tall : grid.wide;
      bool isSame =
          (raster > 1 && (raster >= 2 * along || across == 1)) || (alongN && (grid.tall == 1 || grid.wide == 1));
      if (!isSame)
        all.push_back(config.with("raster", raster).with("raster_n", alongN));
    }
  return all;
}

/// The config with tiles of two widths, where they are worth it: the busiest cluster has a hundredth less. Which order
/// of them is best no estimate tells: of 2, 3, 4, 5, 6 and 8 rows a group three and six are 0.4 % ahead of the others
/// at 4096 cubed.
std::vector<TileConfig> withTwoWidths(const Sm90Problem &problem, const TileConfig &config, const ir::Target &target) {
  if (!takesTwoWidths(problem, config))
    return {};
  const int64_t tall = gridOf(problem, config, target).tall, atOnce = clustersAtOnce(config["cluster_m"], target);
  const std::optional<TwoWidths> row = TwoWidths::of(problem.N, config["n"], tall, atOnce);
  if (!row)
    return {};
  std::vector<TileConfig> all;
  for (int64_t raster : {3, 6}) {
    const int64_t waves = ceilDiv(tall * row->tiles, atOnce);
    if (raster < 2 * tall && 100 * row->place(tall, raster, atOnce).busiest <= 99 * waves * config["n"])
      all.push_back(config.with("raster", raster).with("raster_n", 0).with("narrow", row->narrow));
  }
  return all;
}

/// A block's tile, with the columns of all products, and its cluster.
struct Shape {
  int64_t m, n;
  bool pingPong;
  int64_t clusterM, clusterN;
};

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
  constexpr int64_t widest = 256, mostBlocks = 16; // Of an instruction; of a cluster, more than 8 where allowed.
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

class MatmulSm90Template : public MatmulWay {
public:
  MatmulSm90Template() : MatmulWay(mostCandidates) {}

  std::string_view name() const override { return "cuda.matmul_sm90"; }
  ir::FusionDecision takes(const Region &region, const MatmulProblem &problem, const ir::Target &target) const override;
  std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                     const ir::Target &target) const override;
  Result<KernelPlan> emit(const Region &region, const TileConfig &config, const ir::Target &target) const override;
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

std::vector<EstimatedConfig> MatmulSm90Template::space(const Region &region, const MatmulProblem &given,
                                                       const ir::Target &target) const {
  const Sm90Problem problem(region, given);
  bool rowsAlongK = MatrixOperand::of(problem, 0).contiguousK,
       columnsAlongK = MatrixOperand::of(problem, 1).contiguousK;
  const int64_t depth = depthOf(problem.elementType(0)), products = problem.count();
  // With several operands in flight, or positions to compare, 176 sums a thread spill; beside the
  // values of rows 128 are most.
  const bool readsMore = static_cast<int64_t>(region.graph.inputs.size()) > products + 2;
  const bool asksPositions = llvm::any_of(
      region.graph.nodes, [](const ir::ScalarNode &node) { return node.kind == ir::ScalarNode::Kind::Index; });
  const int64_t mostSums = problem.reducesRows ? 128 : readsMore || asksPositions ? 160 : 192;
  std::vector<EstimatedConfig> ranked;
  for (const Shape &shape : problem.reducesRows ? wholeRowShapes(problem.N) : tiledShapes()) {
    const auto [m, columns, pingPong, clusterM, clusterN] = shape;
    const int64_t n = columns / products; // The epilogue takes pieces of 16 columns of each product.
    if (n % 16 != 0 || !dividesInto(m, clusterN, rowsAlongK) || !dividesInto(n, clusterM, columnsAlongK))
      continue;
    if ((clusterM > 1 && problem.M <= m) || (clusterN > 1 && problem.N <= n))
      continue;
    if ((m >= 2 * problem.M && m > 64) || (n >= 2 * problem.N && n > 64))
      continue;
    TileConfig config{
        {"cluster_m", clusterM}, {"cluster_n", clusterN}, {"k", depth},    {"m", m},       {"n", n},
        {"pingpong", pingPong},  {"raster", 1},           {"raster_n", 0}, {"split_k", 1}, {"stages", mostStages}};
    while (config["stages"] > 2 && sharedBytes(problem, config) > target.sharedBytesPerBlock) {
      const int64_t fewer = config["stages"] - 1;
      config = std::move(config).with("stages", fewer);
    }
    if (config["stages"] < 3 || sumRegisters(problem, config) > mostSums)
      continue;
    std::vector<EstimatedConfig> walks;
    for (TileConfig &walk : rasters(config, gridOf(problem, config, target)))
      walks.emplace_back(estimate(region, problem, walk, target), std::move(walk));
    walks = fastest(std::move(walks), walksOfTile);
    for (int64_t pieces : piecesOf(problem, config, target)) {
      TileConfig streamed = walks.front().config.with("pieces", pieces);
      ranked.emplace_back(estimate(region, problem, streamed, target), std::move(streamed));
    }
    for (TileConfig &twoWidths : withTwoWidths(problem, walks.front().config, target))
      ranked.emplace_back(estimate(region, problem, twoWidths, target), std::move(twoWidths));
    std::move(walks.begin(), walks.end(), std::back_inserter(ranked));
  }
  return ranked;
}

/// Flags for each warp that shares a tile and room for its sums, for every piece, as device/partial_sums.cuh lays them
/// out.
void passPartialSums(KernelPlan &plan, const MatmulProblem &problem, const TileConfig &config, const Grid &grid) {
  const int64_t tileWarps = config["pingpong"] ? consumerWarps / 2 : consumerWarps,
                places = grid.streamed * grid.pieces * config["cluster_m"] * config["cluster_n"];
  plan.zeroedBytes = llvm::alignTo(places * tileWarps * 4, zeroedGranule);
  plan.workspaceBytes =
      plan.zeroedBytes + static_cast<uint64_t>(places * config["m"] * columnsOf(problem, config)) * sizeof(float);
  Launch &launch = plan.launches.front();
  launch.args.push_back({KernelArg::Kind::Workspace, 0});
  launch.args.push_back({KernelArg::Kind::Workspace, plan.zeroedBytes});
}

Result<KernelPlan> MatmulSm90Template::emit(const Region &region, const TileConfig &config,
                                            const ir::Target &target) const {
  const Sm90Problem problem(region, *MatmulProblem::of(region));
  const TmaSide rowSide = sideOf(problem, 0), columnSide = sideOf(problem, 1);
  const DType rowsType = problem.elementType(0), columnsType = problem.elementType(1);
  const int64_t clusterM = config["cluster_m"], clusterN = config["cluster_n"];
  const Grid grid = gridOf(problem, config, target);
  const int64_t narrow = config.valueOr("narrow", 0);
  const int64_t narrowShift =
      narrow > 0 ? TwoWidths{config["n"], grid.wide, narrow}.place(grid.tall, config["raster"], grid.clusters).shift
                 : 0;
  const TmaResult *result = problem.resultThroughTma(config);
  const int64_t epilogueVector = result || problem.reducesRows ? RowEpilogue::vector : 8;
  MatmulPrinter printer(region, problem, config, target, epilogueVector);
  printer.writeHead("gemm_sm90.cuh");
  auto field = [](const std::string &text) { return "static constexpr " + text + ";"; };
  auto number = [](const char *name, int64_t value) { return std::string(name) + " = " + std::to_string(value); };
  printer.writeConfig(threads,
                      {field("int " + number("rows", problem.M) + ", " + number("columns", problem.N)),
                       field("int tileRows = tileM, tileColumns = " + std::string(problem.count() > 1 ? "2 * " : "") +
                             "tileN, " + number("stages", config["stages"])),
                       field("int " + number("clusterRows", clusterM) + ", " + number("clusterColumns", clusterN)),
                       field(std::string("bool pingPong = ") + (config["pingpong"] ? "true" : "false") +
                             ", rasterColumns = " + (config["raster_n"] ? "true" : "false")),
                       field("int " + number("narrowTiles", narrow) + ", " + number("narrowShift", narrowShift)),
                       field("int " + number("streamed", grid.streamed) + ", " + number("helpers", grid.helpers) +
                             ", " + number("pieces", grid.pieces) + ", " + number("pieceLines", grid.pieceLines))});
  const int64_t gridBlocks = grid.clusters * clusterM * clusterN;
  const TmaArgument rowsArgument = writeTmaSide(printer, rowSide, "Rows",
                                                earlyBlocks(region, rowSide, rowsType, gridBlocks, target)),
                    columnsArgument = writeTmaSide(printer, columnSide, "Columns",
                                                   earlyBlocks(region, columnSide, columnsType, gridBlocks, target));
  const int64_t columns = columnsOf(problem, config);
  writeProduct(printer.out(), rowsType, columnsType, columns, rowSide, columnSide);
  if (narrow > 0)
    writeProduct(printer.out(), rowsType, columnsType, columns - TwoWidths::narrowBy, rowSide, columnSide,
                 "NarrowProduct", columns);
  if (problem.reducesRows)
    RowEpilogue(problem).write(printer, result);
  else if (result)
    printer.writeTileEpilogue(*result);
  else
    printer.writeEpilogue();
  const std::string to = problem.reducesRows ? "ToRow" : "To";
  const std::string partials = grid.isShared() ? ", PartialSums{flags, sums}" : "";
  printer.writeEntries(
      [&](const std::string &epilogue) {
        const bool reads = result && result->read;
        std::string finish = reads                 ? "ToTilesFrom<Epilogue>{" + epilogue + ", &resultMap, &readMap}"
                             : result              ? to + "Tiles<Epilogue>{" + epilogue + ", &resultMap}"
                             : problem.reducesRows ? to + "s<Epilogue>{" + epilogue + "}"
                                                   : epilogue;
        return std::string("gemmSm90<Config, Product") + (narrow > 0 ? ", NarrowProduct>(" : ">(") +
               rowsArgument.value + ", " + columnsArgument.value + ", " + finish + partials + ");";
      },
      rowsArgument.parameters + columnsArgument.parameters +
          (result ? "const __grid_constant__ TensorMap resultMap, " : "") +
          (result && result->read ? "const __grid_constant__ TensorMap readMap, " : ""),
      grid.isShared() ? ", unsigned *flags, float *sums" : "");
  KernelPlan plan = printer.plan(threads, sharedBytes(problem, config));
  std::vector<TensorMapRecipe> maps = recipesOf(rowSide, rowsType, config["m"], clusterN);
  llvm::append_range(maps, recipesOf(columnSide, columnsType, columnsOf(problem, config), clusterM));
  const auto boxColumns = static_cast<uint32_t>(storedColumns(config));
  if (result)
    maps.push_back(result->written.recipe(boxColumns));
  if (result && result->read)
    maps.push_back(result->read->recipe(boxColumns));
  passTensorMaps(plan, std::move(maps));
  Launch &launch = plan.launches.front();
  launch.needsNoL1 = true; // TMA brings the operands.
  launch.grid = {static_cast<uint32_t>(gridBlocks), 1, 1};
  launch.cluster = {static_cast<uint32_t>(clusterM * clusterN), 1, 1};
  if (grid.isShared())
    passPartialSums(plan, problem, config, grid);
  return plan;
}

} // namespace

const MatmulWay &matmulSm90Template() {
  static const MatmulSm90Template instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
