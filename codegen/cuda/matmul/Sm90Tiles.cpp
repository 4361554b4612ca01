#include "codegen/cuda/matmul/Sm90Tiles.h"
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/matmul/MatmulCost.h"
#include "codegen/cuda/matmul/RowEpilogue.h"
#include "codegen/cuda/text/Clusters.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace kfuse::codegen::cuda::sm90 {
namespace {

constexpr int64_t mostSegments = 7; ///< The most segments of a tile, which whoever finishes it adds up.
/// Accumulators of a thread beside which an epilogue loads operands and collects tiles for TMA, too. Beside more it
/// stages f32: both for tiles of 176 and more won nothing beyond the noise (docs/experiments.md).
constexpr int64_t mostBesideOperands = 160;

int64_t stageBytes(const MatmulProblem &problem, const TileConfig &config) {
  return (config["m"] + columnsOf(problem, config)) * lineBytes;
}

/// Two slots of totals from every block of the row, for the rows of a warp, and their barriers
/// (device/matmul/row_epilogue.cuh).
int64_t exchangeBytes(const TileConfig &config) {
  const int64_t rows = (config["pingpong"] ? config["m"] : config["m"] / 2) / 4, peers = config["cluster_n"];
  return peers > 1 ? 2 * peers * rows * static_cast<int64_t>(sizeof(float)) + 16 : 0;
}

/// What the warps stage: two buffers of 16 bits for TMA (device/matmul/warp_store.cuh), or f32
/// (device/matmul/warp_tile.cuh). For 128 x 256 the one leaves room for four stages, the other for three.
int64_t stagingBytes(const Problem &problem, const TileConfig &config) {
  if (isSwapped(config)) // Two pieces of each warpgroup's rows of 64 columns (device/matmul/column_store.cuh).
    return consumerWarps / 4 * 2 * transposedRows(config) * lineBytes;
  const int64_t tiles = problem.resultThroughTma(config) ? 2 * 16 * storedColumns(config) * 2 : 0;
  if (problem.reducesRows)
    return consumerWarps * llvm::alignTo(tiles + exchangeBytes(config), 1024);
  if (tiles > 0)
    return consumerWarps * tiles;
  const int64_t products = problem.count();
  const int64_t staged = products == 1 ? storedColumns(config) : std::min<int64_t>(storedColumns(config), 32);
  return consumerWarps * products * 16 * (staged + 8) * 4;
}

llvm::SmallVector<ir::Scalar> valuesOf(const LinearGraph &graph) {
  return llvm::map_to_vector(graph.graph.outputs, [](const ir::ScalarOutput &output) { return output.value; });
}

} // namespace

int64_t storedColumns(const TileConfig &config) { return config["n"] % 64 == 0 ? 64 : config["n"] % 32 == 0 ? 32 : 16; }

int64_t transposedRows(const TileConfig &config) { return config["m"] % 32 == 0 ? 16 : 8; }

int64_t accumulatorRegisters(const MatmulProblem &problem, const TileConfig &config) {
  if (isSwapped(config))
    return columnsOf(problem, config) / (config["pingpong"] ? 1 : 2) / 64 * config["m"] / 2;
  int64_t warpgroupRows = config["pingpong"] ? config["m"] : config["m"] / 2;
  return warpgroupRows / 64 * columnsOf(problem, config) / 2;
}

Problem::Problem(MatmulProblem problem)
    : MatmulProblem(std::move(problem)), inputs(static_cast<int64_t>(inputsRead(graph, valuesOf(graph)).size())),
      placed(reducesRows ? TmaResult::placed(*this) : TmaResult::of(*this)) {}

const TmaResult *Problem::resultThroughTma(const TileConfig &config) const {
  const bool holdsBoth =
      reducesRows || isSwapped(config) || loaded() == 0 || accumulatorRegisters(*this, config) <= mostBesideOperands;
  return placed && holdsBoth ? &*placed : nullptr;
}

int64_t sharedBytes(const Problem &problem, const TileConfig &config) {
  const TmaResult *result = problem.resultThroughTma(config);
  const int64_t read = result && result->read ? consumerWarps * 16 : 0; // A barrier for each of a warp's buffers.
  const int64_t barriers = llvm::alignTo(config["stages"] * 16 + read, 128);
  return config["stages"] * stageBytes(problem, config) + barriers + stagingBytes(problem, config);
}

bool sharesTilesOfRun(const MatmulProblem &problem, const TileConfig &config) {
  return config.valueOr("segments", 0) > 0 && problem.endsRows();
}

Grid gridOf(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target) {
  Grid grid;
  grid.tall = ceilDiv(problem.M, config["m"] * config["cluster_m"]);
  grid.wide = ceilDiv(problem.N, config["n"] * config["cluster_n"]);
  grid.tiles = grid.tall * grid.wide * problem.batches;
  const int64_t atOnce = clustersAtOnce(config["cluster_m"] * config["cluster_n"], target),
                most = config.valueOr("segments", 0), left = grid.tiles % atOnce;
  if (config["pingpong"] && most > 0 && left > 0 && grid.tiles > left) {
    const int64_t contributors = atOnce - left, segments = std::min(most, std::max<int64_t>(contributors / left, 1)),
                  each = ceilDiv(left * segments, contributors), kBlocks = ceilDiv(problem.K, config["k"]),
                  segmentBlocks = (kBlocks - segmentCost * each) / (segments + each);
    if (segmentBlocks >= leastBlocks)
      grid.streamKTiles = left, grid.contributors = contributors, grid.segments = segments,
      grid.segmentBlocks = segmentBlocks;
  }
  grid.clusters = grid.isStreamK() ? left + grid.contributors : std::min(grid.tiles, atOnce);
  // A run leaves one for each tile of its last wave, or fewer segments than there are contributors.
  grid.places = sharesTilesOfRun(problem, config) ? grid.clusters - 1 : grid.streamKTiles * grid.segments;
  return grid;
}

std::set<int64_t> segmentsOf(const Problem &problem, const TileConfig &config, const ir::Target &target) {
  const int64_t atOnce = clustersAtOnce(config["cluster_m"] * config["cluster_n"], target),
                tiles = gridOf(problem, config, target).tiles, left = tiles % atOnce;
  // Without a whole wave nothing hides the fix-up.
  if (!config["pingpong"] || isSwapped(config) || problem.reducesRows || tiles < atOnce ||
      !problem.resultThroughTma(config))
    return {};
  // How many tiles are left depends on a run's rows.
  if (sharesTilesOfRun(problem, config.with("segments", mostSegments)))
    return {mostSegments};
  if (left == 0)
    return {};
  const int64_t most = std::clamp<int64_t>((atOnce - left) / left, 1, mostSegments);
  std::set<int64_t> segments;
  for (int64_t each : {int64_t{1}, most})
    if (gridOf(problem, config.with("segments", each), target).isStreamK())
      segments.insert(each);
  return segments;
}

namespace {

/// What the estimate knows of an H200, fitted to 51 products (sm90::estimate), last in commit 75f81ee; exchangeUs and
/// rowKBlockUs in e120118 to products whose rows are reduced. The sweeps were not kept. A share is of the target's
/// nominal rate, a speedup over its nominal HBM bandwidth.
struct Coefficients {
  double mathShare = 0.87;      ///< The share reached of the tensor cores' rate, as far as power allows.
  double narrowShare = 0.375;   ///< The share of that which an instruction of no columns would reach.
  double narrowColumns = 160;   ///< Each column adds one of so many.
  double l2Speedup = 3.1;       ///< Reads from the L2.
  double storeSpeedup = 1.3;    ///< What an epilogue writes.
  double reachSpeedup = 3.2;    ///< What reaches all SMs, 64 bytes a clock each.
  double memoryShare = 0.96;    ///< The share reached of the HBM bandwidth, while tiles come and go.
  double kBlockUs = 0.185;      ///< A K block takes so long at least.
  double rowKBlockUs = 0.21;    ///< The same where rows are reduced, as it was fitted beside exchangeUs.
  double startUs = 0.28;        ///< A kernel's start.
  double clusterStartUs = 0.73; ///< The barrier with which blocks of a cluster start.
  double movedShare = 0.05;     ///< A share of the tensor cores' time, for the bytes that reach an SM (mathUs).
  double leastMoved = 0.9;      ///< The bytes of a large tile, of which `mathShare` is: they do not count again.
  double inFlightShare = 0.54;  ///< The share of the ring that is in flight in the mean.
  double readApart = 0.0375;    ///< Share of an operand that is read again for each tile between two that read it.
  double mostReadApart = 0.6;   ///< The most of that.
  double exchangeUs = 0.9;      ///< A reduction over rows: a pass over the accumulators, and the way to the peers.
  double gatherUs = 0.29;       ///< A load of a row that is gathered: 128 x 256 tiles of 768 to 2816 rows took 18 to 21
                                ///< us each longer than without, on an H100.
  double fixUpUs = 2;           ///< Stream-K: what contributors and finishers wait for each other.
  double streamKFactor = 1.02;  ///< A last wave of few tiles is shorter than it seems: few busy SMs clock higher.
                                ///< Without, stream-K kept better tiles out of the first eight: 2048 x 4096 x 16384
                                ///< took 420 us instead of 400.
  double pairedPingPong = 0.94; ///< Ping-pong's 128 x 96 tiles of a gate and what it gates, 1111 to 3393 rows on an
                                ///< H100, were estimated 1 to 4 % behind the best, and were 6 to 7 % ahead. By hand.
  double sharpness = 3.5;       ///< Bounds add up where they are near: two equal ones take 1.22 of one.
};
constexpr Coefficients h200;

/// The time of one config, term by term.
class Cost {
public:
  Cost(const Region &region, const MatmulProblem &problem, const TileConfig &config, const ir::Target &target)
      : region(region), problem(problem), config(config), target(target), grid(gridOf(problem, config, target)),
        tileM(of("m")), tileN(of("n")), clusterM(of("cluster_m")), clusterN(of("cluster_n")),
        products(static_cast<double>(problem.count())), columns(tileN * products), type(problem.elementType(0)),
        kBlocks(static_cast<double>(ceilDiv(problem.K, depthOf(type)))), bytesK(kBlocks * lineBytes),
        clusters(static_cast<double>(grid.clusters)), active(clusters * clusterM * clusterN),
        waves(std::ceil(static_cast<double>(grid.tiles - grid.streamKTiles) / clusters)) {}

  double us() const {
    const double fixedUs = target.launchUs + h200.startUs + (clusterM * clusterN > 1 ? h200.clusterStartUs : 0);
    const double boundUs =
        std::pow(std::pow(walkUs(), h200.sharpness) + std::pow(hbmUs(), h200.sharpness), 1 / h200.sharpness);
    const double tailUs = grid.isStreamK() ? h200.fixUpUs : 0;
    const double us = (fixedUs + boundUs + tailUs) * (grid.isStreamK() ? h200.streamKFactor : 1) *
                      (config["pingpong"] && products > 1 ? h200.pairedPingPong : 1);
    const double wavesOfMath = grid.isStreamK() ? static_cast<double>(grid.tiles) / clusters : waves;
    return atPowerLimit(us, wavesOfMath * mathUs());
  }

private:
  double of(const char *field) const { return static_cast<double>(config[field]); }

  /// A tile's products. Instructions narrower than 128 columns read more of A than they multiply. At the power limit
  /// what is moved for each product costs clocks: with this term the first pick is 98.3 % of the best of 40 measured
  /// hot and interleaved, 97.7 without (11 products of 256 to 32768 rows).
  double mathUs() const {
    const double rate = target.matmulFlopsPerUs(type, problem.tf32) * h200.mathShare / target.multiprocessors;
    const double K = kBlocks * static_cast<double>(depthOf(type));
    const double moved = h200.movedShare * (64 / tileM + 64 / columns - h200.leastMoved);
    const double wide = isSwapped(config) ? tileM : columns; // The columns of an instruction.
    return 2 * tileM * columns * K * (1 + moved) / (rate * std::min(1.0, h200.narrowShare + wide / h200.narrowColumns));
  }
  /// A tile's operands from the L2.
  double l2Us() const {
    const double loaded = (tileM / clusterN + columns / clusterM) * bytesK;
    return loaded * active / (target.memoryBytesPerUs * h200.l2Speedup);
  }
  /// A K block, by what reaches an SM: 64 x 128 and 64 x 192 tiles of 56 x 5120 x 13824 take 0.21 and 0.28 us each.
  /// Rows past the edge do not count. Where rows are reduced it is not measured.
  double kBlockUs() const {
    const double reachBytes = (std::min(tileM, static_cast<double>(problem.M)) + columns) * lineBytes;
    const double reachUs = reachBytes * target.multiprocessors / (target.memoryBytesPerUs * h200.reachSpeedup);
    return problem.reducesRows ? h200.rowKBlockUs : std::max(h200.kBlockUs, reachUs);
  }
  double tileUs() const { return std::max({mathUs(), l2Us(), kBlocks * kBlockUs()}); }
  /// A tile's epilogue.
  double finishUs() const {
    const double reductions = problem.reducesRows ? static_cast<double>(RowEpilogue(problem).reductionCount()) : 0;
    return tileM * tileN * 2 * active / (target.memoryBytesPerUs * h200.storeSpeedup) + reductions * h200.exchangeUs +
           gatherUs();
  }
  /// Rows that are gathered beside rows that are reduced: a thread loads two columns at a time, and nothing hides that.
  double gatherUs() const {
    const auto &nodes = problem.graph.graph.nodes;
    const bool gathers = problem.reducesRows && llvm::any_of(nodes, [](const ir::ScalarNode &node) {
                           return node.kind == ir::ScalarNode::Kind::Load && !node.symbols.empty();
                         });
    const double threads = config["pingpong"] ? 128 : 256;
    return gathers ? tileM * tileN / 2 / threads * h200.gatherUs : 0;
  }
  /// The tiles of the busiest cluster, the last one without what contributors take of it.
  double walkUs() const {
    const double tileUs = this->tileUs(), finishUs = this->finishUs();
    double us =
        config["pingpong"] ? waves * std::max(tileUs, (tileUs + finishUs) / 2) + finishUs : waves * (tileUs + finishUs);
    if (grid.isStreamK())
      us += (1 - static_cast<double>(grid.segments * grid.segmentBlocks) / kBlocks) * tileUs;
    return us;
  }
  /// What comes from HBM and goes there. Rows past the edge hold up what HBM brings: 64 x 128 tiles of 16 x 11008 x
  /// 4096 take 28.7 us, where the rows alone would take 15 and the weights 20.
  double hbmUs() const {
    const double ring = of("stages") * static_cast<double>(stageBytes(problem, config));
    const double inFlight = active / target.multiprocessors * ring * h200.inFlightShare;
    return std::hypot(memoryUs(hbmBytes(), inFlight, target) / h200.memoryShare, pastEdgeUs(problem, config, kBlocks));
  }
  /// Clusters at work together read a patch of the product's tiles; what they share comes from HBM once.
  double hbmBytes() const {
    const bool alongN = config["swizzle_n"] != 0;
    const double along = static_cast<double>(std::min(config["swizzle"], alongN ? grid.wide : grid.tall));
    const double across = std::ceil(clusters / along);
    const double patchM = tileM * clusterM * (alongN ? across : along),
                 patchN = tileN * clusterN * (alongN ? along : across);
    const double patch =
        std::min(patchM, static_cast<double>(problem.M)) + products * std::min(patchN, static_cast<double>(problem.N));
    // Where rows are reduced all clusters share rows: not measured.
    const double readAgain = problem.reducesRows ? 0 : shareReadAgain(problem, config, 1, 0) * weightBytes(problem);
    return std::max(waves * patch * bytesK + region.bytesWritten, region.bytesRead + region.bytesWritten) +
           bytesApart() + readAgain;
  }
  /// Neighbours in the order of tiles along one direction come next to each other, and share an operand at the
  /// same time; the other one is read again by tiles that are far apart: 64 x 128 tiles of 128 x 6144 x 4096 take 17.3
  /// us where the two of the same weights are neighbours, 26.4 where they are 48 tiles apart.
  double bytesApart() const {
    const bool alongN = config["swizzle_n"] != 0, rowsNext = alongN == (config["swizzle"] == 1);
    const double apart = rowsNext ? (grid.wide > 1 ? static_cast<double>(problem.M) : 0)
                                  : (grid.tall > 1 ? products * static_cast<double>(problem.N) : 0);
    const double distance = config["swizzle"] > 1 ? of("swizzle") : static_cast<double>(alongN ? grid.tall : grid.wide);
    return std::min(h200.mostReadApart, h200.readApart * distance) * apart * bytesK;
  }

  const Region &region;
  const MatmulProblem &problem;
  const TileConfig &config;
  const ir::Target &target;
  const Grid grid;
  const double tileM, tileN, clusterM, clusterN, products, columns; ///< Columns of all products in a tile.
  const DType type;
  const double kBlocks, bytesK;  ///< The K blocks of the product, and the bytes of a row in all of them.
  const double clusters, active; ///< Clusters and blocks at work together.
  const double waves;            ///< Whole ones.
};

} // namespace

double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  return Cost(region, problem, config, target).us();
}

} // namespace kfuse::codegen::cuda::sm90
