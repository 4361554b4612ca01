#include "codegen/cuda/matmul/Sm90Split.h"

#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/matmul/MatmulCost.h"
#include "codegen/cuda/text/Clusters.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace kfuse::codegen::cuda::sm90split {

static constexpr int64_t mostThreads = 1024; ///< The most threads of a block.

Problem::Problem(const Region &region, MatmulProblem problem) : MatmulProblem(std::move(problem)) {
  if (graph[operand(1)].kind != ir::ScalarNode::Kind::Load)
    lowBits = LowBitSide::of(region, *this);
}

int64_t Problem::depth() const { return lowBits ? LowBitSide::stageDepth : depthOf(elementType(0)); }

int64_t Problem::stageBytes(unsigned side) const {
  if (!lowBits)
    return lineBytes;
  return side == 0 ? depth() / depthOf(elementType(0)) * lineBytes : lowBits->stageBytes();
}

double Problem::weightBytes() const {
  return lowBits ? static_cast<double>(N * lowBits->columnBytes()) : cuda::weightBytes(*this);
}

bool Problem::isAlongK(unsigned side) const {
  return (lowBits && side == 1) || MatrixOperand::of(*this, side).contiguousK;
}

Shape::Shape(const Problem &problem, const TileConfig &config)
    : Shape(problem, config["m"], config["n"], config.valueOr("cluster_m", 1), config.valueOr("cluster_n", 1),
            config["groups_k"], config["stages"], config["swap"]) {}

Shape::Shape(const Problem &problem, int64_t m, int64_t n, int64_t clusterM, int64_t clusterN, int64_t groupsK,
             int64_t stages, bool swapped)
    : rows(problem.M), columns(problem.N), tileRows(m), tileColumns(n * problem.count()), clusterRows(clusterM),
      clusterColumns(clusterN), rowBytes(problem.stageBytes(0)), columnBytes(problem.stageBytes(1)), groupsK(groupsK),
      stages(stages), swapped(swapped), isLowBit(problem.lowBits.has_value()) {
  if (swapped)
    std::swap(rows, columns), std::swap(tileRows, tileColumns), std::swap(clusterRows, clusterColumns),
        std::swap(rowBytes, columnBytes);
}

int64_t Shape::ringBytes() const {
  int64_t m = swapped ? tileColumns : tileRows, n = swapped ? tileRows : tileColumns;
  int64_t partials = groupsK * m * (ceilDiv(n, 16) * 16 + (swapped ? 4 : 8)) * 4;
  return std::max(stages * stageBytes(), (partials + 127) / 128 * 128);
}

int64_t Shape::blocksPerSm(const ir::Target &target) const {
  int64_t registers = tileColumns / 2 + registersBeside(40),
          byShared = (target.sharedBytesPerBlock + 1024) / (sharedBytes() + 1024);
  return std::min({byShared, target.registersPerSm / (registers * threads()), target.threadsPerSm / threads()});
}

/// Whether a thread's share of an SM's registers, as whole warpgroups get them in eights, holds its accumulators and at
/// least what addresses, descriptors and counters take. How much an epilogue needs beside them is the compiler's to
/// say: the search refuses what spills.
static bool fitsRegisters(const Shape &shape, const ir::Target &target) {
  constexpr int64_t leastBeside = 26; // With 96 registers ptxas refuses a wgmma of 72 accumulators.
  const int64_t threads = (shape.threads() + 127) / 128 * 128;
  return (shape.tileColumns / 2 + shape.registersBeside(leastBeside) + 7) / 8 * 8 * threads <= target.registersPerSm;
}

std::optional<int64_t> stagesFor(Shape shape, int64_t stagesK, int64_t blocksK, int64_t blocks,
                                 const ir::Target &target) {
  const int64_t fewest = shape.isLowBit ? 2 : 4; // A stage of low-bit weights has two K blocks.
  if (!fitsRegisters(shape, target) || shape.threads() > mostThreads)
    return std::nullopt;
  auto isTooBig = [&] { return (shape.sharedBytes() + 1024) * blocks > target.sharedBytesPerBlock + 1024; };
  auto isTooDeep = [&] { return shape.stages > std::max<int64_t>(fewest, stagesK / blocksK); };
  auto isUneven = [&] { return shape.stages % shape.groupsK != 0; }; // device/matmul/gemm_sm90_split.cuh says why.
  while (shape.stages >= fewest && (isTooBig() || isTooDeep() || isUneven()))
    --shape.stages;
  if (shape.stages < fewest || isTooBig() || shape.blocksPerSm(target) < blocks)
    return std::nullopt;
  return shape.stages;
}

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

bool storesOwnRows(const MatmulProblem &problem, const TileConfig &config) {
  return !config["swap"] && config["blocks_k"] * config["groups_k"] == 1 && problem.count() == 1 &&
         config["n"] % 16 == 0 && !problem.readsRows();
}

int64_t neighboursOf(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target) {
  const bool arePairs = ceilDiv(problem.M, config["m"]) % 2 == 0;
  const bool fitAtOnce = blocksOf(problem, config) <= target.multiprocessors;
  return clusterBlocks(config) == 1 && arePairs && fitAtOnce && storesOwnRows(problem, config) ? 2 : 1;
}

namespace {

/// Bytes of a stage's rows and columns that clusters at work together read, of which those down come first: what they
/// share comes from HBM once.
double patchOf(const Problem &problem, const TileConfig &config, int64_t clusters) {
  const int64_t height = config["m"] * config.valueOr("cluster_m", 1),
                width = config["n"] * config.valueOr("cluster_n", 1);
  const int64_t tall = ceilDiv(problem.M, height);
  return static_cast<double>(std::min(problem.M, height * std::min(tall, clusters)) * problem.stageBytes(0) +
                             static_cast<int64_t>(problem.count()) *
                                 std::min(problem.N, width * ceilDiv(clusters, tall)) * problem.stageBytes(1));
}

/// What the estimate knows of an H200, fitted to the 51 products of sm90::estimate, last in commit 5ebaf4c; turnUs by
/// hand in c98837a. The sweeps were not kept. A speedup is over the target's nominal HBM bandwidth.
struct Coefficients {
  double mathShare = 0.9;       ///< The share reached of the tensor cores' rate.
  double narrowShare = 0.355;   ///< The share of that which an instruction of no columns would reach.
  double narrowColumns = 146;   ///< Each column adds one of so many.
  double l2Speedup = 3.55;      ///< Reads from the L2.
  double reachSpeedup = 3.65;   ///< What reaches all SMs, 64 bytes a clock each.
  double memoryShare = 0.98;    ///< The share reached of the HBM bandwidth.
  double inFlightFactor = 1.16; ///< Bytes in flight over those of the rings.
  double readAgainShare = 0.05; ///< The share of weights that is read again: tiles of the same ones are neighbours.
  double kBlockUs = 0.05;       ///< A K block takes at least so long, since a warpgroup waits for its own products.
  double columnUs = 0.0007;     ///< So much longer it takes for each column of the tile.
  double widenUs = 0.05;        ///< The same where it makes floats of its rows first.
  double perWeight = 2.8;       ///< Instructions that make a float of a weight of few bits.
  double aloneUs = 0.01;        ///< What of it shows for each K block where the warpgroup is the only one of its SM.
  double waveUs = 5;            ///< The start and the stores of a further wave, which nothing hides.
  double startUs = 1.1;         ///< A kernel's start.
  double overlap = 0.26;        ///< What of the shorter of walk and HBM shows beside the longer.
  double turnUs = 0.04;         ///< Results that are transposed: 256 x 1024 x 1024 on an H200 takes 3.53 us instead of
                                ///< 3.49 with 32 x 64 as with 64 x 32.
  /// The end of a cluster whose blocks share K, for each of them and beside; of one whose blocks share operands alone;
  /// of a block that shares nothing.
  double splitUs = 1.06, splitsUs = -0.15, clusterUs = 0.25, blockUs = 0.2;
  double foldedPerUs = 11000;   ///< Accumulators that a block finishes.
  double gatheredPerUs = 25000; ///< Accumulators of further warpgroups that a block gathers.
};
constexpr Coefficients h200;

/// The time of one config, term by term.
class Cost {
public:
  Cost(const Region &region, const Problem &problem, const TileConfig &config, const ir::Target &target)
      : region(region), problem(problem), config(config), target(target), shape(problem, config),
        type(problem.elementType(0)), splits(static_cast<double>(config["blocks_k"])),
        groups(static_cast<double>(config["groups_k"])), tileRows(static_cast<double>(shape.tileRows)),
        tileColumns(static_cast<double>(shape.tileColumns)),
        stagesK(static_cast<double>(ceilDiv(problem.K, problem.depth()))),
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
    const double K = kBlocks * static_cast<double>(depthOf(type)),
                 narrow = std::min(1.0, h200.narrowShare + tileColumns / h200.narrowColumns);
    const double rate = target.matmulFlopsPerUs(type, problem.tf32) * h200.mathShare * narrow / sms;
    return 2 * tileRows * tileColumns * K / splits * perSm / rate;
  }
  /// A tile, by what a warpgroup waits for its own products.
  double ownUs() const {
    const double lineUs = h200.kBlockUs + h200.columnUs * tileColumns + (shape.isLowBit ? h200.widenUs : 0);
    return kBlocks / splits / groups * lineUs;
  }
  /// What a tile's warps issue to make floats of its rows, of four a clock.
  double widenUs() const {
    const double weights = tileRows * stagesK * static_cast<double>(problem.depth()) / splits;
    return shape.isLowBit ? issueUs(weights * h200.perWeight * perSm * sms, target) : 0;
  }
  /// A tile's operands from the L2.
  double l2Us() const {
    const auto readers = static_cast<double>(shape.clusterRows * neighbours);
    const double bytes = stagesK / splits *
                         (tileRows * static_cast<double>(shape.rowBytes) / static_cast<double>(shape.clusterColumns) +
                          tileColumns * static_cast<double>(shape.columnBytes) / readers);
    return bytes * std::min(blocks, sms * resident) / (target.memoryBytesPerUs * h200.l2Speedup);
  }
  /// The time of a tile's operands from the L2 to the SM.
  double reachUs() const {
    const double bytes = stagesK / splits * static_cast<double>(shape.stageBytes());
    return bytes * perSm * sms / (target.memoryBytesPerUs * h200.reachSpeedup);
  }
  double walkUs() const {
    return waves * std::max({ownUs(), mathUs(), l2Us(), reachUs(), widenUs()}) + (waves - 1) * h200.waveUs;
  }
  /// Little's law: what the rings of all SMs have in flight.
  double hbmUs() const {
    const double busy = std::min(1.0, blocks / sms);
    const double inFlight = busy * perSm * static_cast<double>(shape.stages * shape.stageBytes());
    const double readAgain = shareReadAgain(problem, config, neighbours, h200.readAgainShare) * problem.weightBytes();
    const auto clusters = static_cast<int64_t>(std::min(blocks, atOnce)) / together;
    const double ofWaves = waves * patchOf(problem, config, std::max<int64_t>(clusters, 1)) * stagesK;
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
    return (splits > 1         ? h200.splitUs * splits + h200.splitsUs
            : shape.isShared() ? h200.clusterUs
                               : h200.blockUs) +
           (shape.swapped ? h200.turnUs : 0) + accumulators / h200.foldedPerUs +
           (groups - 1) * (splits + 2) * accumulators * perSm * waves / h200.gatheredPerUs;
  }

  const Region &region;
  const Problem &problem;
  const TileConfig &config;
  const ir::Target &target;
  const Shape shape;
  const DType type;
  const double splits, groups, tileRows, tileColumns;
  const double stagesK, kBlocks; ///< Stages of the whole product, and K blocks of an operand of floats.
  const double blocks, sms, resident;
  const int64_t together;            ///< Blocks of a cluster.
  const double atOnce, waves, perSm; ///< Blocks on the device at once; blocks that share an SM.
  const int64_t neighbours;
};

} // namespace

double estimate(const Region &region, const Problem &problem, const TileConfig &config, const ir::Target &target) {
  return Cost(region, problem, config, target).us();
}

} // namespace kfuse::codegen::cuda::sm90split
