#include "codegen/cuda/matmul/Sm90Tiles.h"
#include "codegen/cuda/matmul/RowEpilogue.h"
#include "codegen/cuda/text/Clusters.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace kfuse::codegen::cuda::sm90 {
namespace {

constexpr int64_t leastLines = 4; ///< Of K in a piece of shared tiles, and ...
constexpr int64_t mostPieces = 7; ///< ... pieces that others compute of a tile: whoever finishes it adds them up.
constexpr int64_t pieceCost = 3; ///< In lines of K, what a piece is taken to cost beside its own (docs/experiments.md).

int64_t stageBytes(const MatmulProblem &problem, const TileConfig &config) {
  return (config["m"] + columnsOf(problem, config)) * lineBytes;
}

/// Two slots of totals from every block of the row, for the rows of a warp, and their barriers
/// (device/row_epilogue.cuh).
int64_t exchangeBytes(const TileConfig &config) {
  const int64_t rows = (config["pingpong"] ? config["m"] : config["m"] / 2) / 4, peers = config["cluster_n"];
  return peers > 1 ? 2 * peers * rows * static_cast<int64_t>(sizeof(float)) + 16 : 0;
}

/// What the warps stage: two buffers of 16 bits for TMA (device/warp_store.cuh), or f32 (device/warp_tile.cuh).
/// For 128 x 256 the one leaves room for four stages, the other for three.
int64_t stagingBytes(const Problem &problem, const TileConfig &config) {
  const int64_t tiles = problem.resultThroughTma(config) ? 2 * 16 * storedColumns(config) * 2 : 0;
  if (problem.reducesRows)
    return consumerWarps * llvm::alignTo(tiles + exchangeBytes(config), 1024);
  if (tiles > 0)
    return consumerWarps * tiles;
  const int64_t products = problem.count();
  const int64_t staged = products == 1 ? storedColumns(config) : std::min<int64_t>(storedColumns(config), 32);
  return consumerWarps * products * 16 * (staged + 8) * 4;
}

} // namespace

int64_t storedColumns(const TileConfig &config) { return config["n"] % 64 == 0 ? 64 : config["n"] % 32 == 0 ? 32 : 16; }

int64_t sumRegisters(const MatmulProblem &problem, const TileConfig &config) {
  int64_t warpgroupRows = config["pingpong"] ? config["m"] : config["m"] / 2;
  return warpgroupRows / 64 * columnsOf(problem, config) / 2;
}

const TmaResult *Problem::resultThroughTma(const TileConfig &config) const {
  const bool wouldSpill = !reducesRows && sumRegisters(*this, config) > 160 && loaded() > 0;
  return placed && !wouldSpill ? &*placed : nullptr;
}

int64_t sharedBytes(const Problem &problem, const TileConfig &config) {
  const TmaResult *result = problem.resultThroughTma(config);
  const int64_t read = result && result->read ? consumerWarps * 16 : 0; // A barrier for each of a warp's buffers.
  const int64_t barriers = llvm::alignTo(config["stages"] * 16 + read, 128);
  return config["stages"] * stageBytes(problem, config) + barriers + stagingBytes(problem, config);
}

Grid gridOf(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target) {
  Grid grid;
  grid.tall = ceilDiv(problem.M, config["m"] * config["cluster_m"]);
  grid.wide = ceilDiv(problem.N, config["n"] * config["cluster_n"]);
  grid.tiles = grid.tall * grid.wide * problem.batches;
  const int64_t atOnce = clustersAtOnce(config["cluster_m"] * config["cluster_n"], target),
                pieces = config.valueOr("pieces", 0), left = grid.tiles % atOnce;
  if (config["pingpong"] && pieces > 0 && left > 0 && grid.tiles > left) {
    const int64_t helpers = atOnce - left, each = ceilDiv(left * pieces, helpers),
                  lines = ceilDiv(problem.K, config["k"]), pieceLines = (lines - pieceCost * each) / (pieces + each);
    if (pieceLines > 0)
      grid.streamed = left, grid.helpers = helpers, grid.pieces = pieces, grid.pieceLines = pieceLines;
  }
  grid.clusters = grid.isShared() ? left + grid.helpers : std::min(grid.tiles, atOnce);
  return grid;
}

std::set<int64_t> piecesOf(const Problem &problem, const TileConfig &config, const ir::Target &target) {
  const int64_t atOnce = clustersAtOnce(config["cluster_m"] * config["cluster_n"], target),
                tiles = gridOf(problem, config, target).tiles, left = tiles % atOnce;
  // Without a whole wave nothing hides how sums meet.
  if (!config["pingpong"] || problem.reducesRows || left == 0 || tiles < atOnce || !problem.resultThroughTma(config))
    return {};
  const int64_t most = std::clamp<int64_t>((atOnce - left) / left, 1, mostPieces);
  std::set<int64_t> pieces;
  for (int64_t each : {int64_t{1}, most})
    if (gridOf(problem, config.with("pieces", each), target).pieceLines >= leastLines)
      pieces.insert(each);
  return pieces;
}

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
  constexpr double partsUs = 2;          // Of shared tiles: what they wait for each other.
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
  const double wavesOfMath = grid.isShared() ? static_cast<double>(grid.tiles) / clusters : waves;
  // What helpers leave of a tile.
  double tailUs = 0;
  if (grid.isShared()) {
    walkUs += (1 - static_cast<double>(grid.pieces * grid.pieceLines) / stages) * tileUs;
    tailUs = partsUs;
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
  const double streamedFactor = grid.isShared() ? 1.02 : 1;
  const double boundUs = std::pow(std::pow(walkUs, sharpness) + std::pow(hbmUs, sharpness), 1 / sharpness);
  const double us = (fixedUs + boundUs + tailUs) * streamedFactor;
  return atPowerLimit(us, wavesOfMath * mathUs);
}

} // namespace kfuse::codegen::cuda::sm90
