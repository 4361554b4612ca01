#include "codegen/cuda/attention/FlashShape.h"

#include "codegen/KernelLimits.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

namespace kfuse::codegen::cuda {
namespace {

/// Registers of a thread beside those that are counted (heldRegisters): rows' maxima and sums, addresses, operands.
/// What the compiler makes of them is not known ahead; the search refuses what spills.
constexpr int64_t besideOfMma = 54, besideOfWgmma = 32;
constexpr int64_t besideQuery = 77; ///< The same where a warp's queries stay in registers.

/// Elements of a head as mma takes them, and the bytes of such a row in shared memory (PaddedTile).
int64_t paddedSize(int64_t size) { return static_cast<int64_t>(llvm::alignTo(size, 16)); }
int64_t rowBytes(int64_t size) { return (paddedSize(size) / 8 | 1) * 16; }
/// Elements of a row of keys or values in f32 (FlashScalar).
int64_t keyStride(const FlashProblem &p) { return static_cast<int64_t>(llvm::alignTo(p.keySize, 4)) + 4; }
int64_t valueStride(const FlashProblem &p) { return static_cast<int64_t>(llvm::alignTo(p.valueSize, 8)) + 4; }

/// What the estimates know of an H100. The constants of mma.sync's kernels order 360 configs of heads of 64 best
/// (bench/sweeps/flash_mma_h100.csv): the first of each shape reaches 95 to 96 % of the fastest, the first 8 98 % and
/// more. Those of plain FMAs, of splits and of all kernels are by hand (commits 6594641, 49cfdb9 and 5357c90; the
/// sweeps were not kept). Those of wgmma are WgmmaTerms, but for its shares.
struct Coefficients {
  double exponentials = 16, instructions = 128; ///< That an SM issues in a clock.
  double ofWeight = 5, ofWgmmaWeight = 3; ///< Instructions of a score beside its exponential: scaled, masked, added.
  double ofCopy = 6;                      ///< Those of 16 bytes that are copied and read as fragments.
  // mma.sync.
  double behind = 0.4, warpsBehind = 12;    ///< How much of the shorter of products and weights the longer one hides,
                                            ///< with two warps of an SM and so many more.
  double warpsBusy = 8;                     ///< Two warps keep a quarter of an SM at work.
  double barriersUs = 0.25;                 ///< A tile's.
  double waitShare = 0.02;                  ///< Copies are waited for now and then, less with more stages.
  double loadUs = 0.8, loadAloneUs = 1.4;   ///< Several tiles arrive; from memory, where one block alone reads them.
  double startUs = 1.5;                     ///< A block's first tiles and its results.
  double arrivalUs = 2, l2BytesPerUs = 3e6; ///< What splits leave in the last-level cache.
  // Plain FMAs.
  double fmaShare = 0.5;  ///< Shared memory gives 16 bytes for 8 to 16 products.
  double fmaLoadUs = 1.2; ///< Nothing is loaded beside products but by other blocks.
  double copied = 8;      ///< Instructions of an element: addresses, a load, a store.
  // wgmma.
  double wgmmaShare = 0.8,
         sharedShare = 0.74; ///< What is reached of the nominal rates of products and of shared memory.
  // All.
  double queryLoadUs = 0.9;    ///< A round of loads of queries that are computed.
  double l2BytesPerClock = 20; ///< That an SM gets: 16 and 32 rows at a time wait for them.
  double memoryShare = 0.85;   ///< What is reached of the nominal HBM bandwidth.
  double memoryBeside = 0.1;   ///< What shows of the shorter of memory and work.
};
constexpr Coefficients h100;

/// Share of the nominal rate that mma.sync reaches: Hopper and datacenter Blackwell keep the rest for instructions of
/// their own. Hopper's is of the sweep of mma.sync's kernels above, the others are guesses.
double mmaShare(const ir::Target &target) {
  if (target.capability >= 100 && target.capability < 120)
    return 0.3;
  return target.capability == 90 ? 0.62 : 0.8;
}

} // namespace

int64_t FlashShape::sharedBytes(const FlashProblem &p) const {
  if (isWgmma) {
    const int64_t line = 128, keyBoxes = ceilDiv(p.keySize, 64), valueBoxes = ceilDiv(p.valueSize, 64);
    const int64_t maskBoxes = ceilDiv(keys * p.maskBytes(), line);
    return (rows * keyBoxes + stages * (keys * (keyBoxes + valueBoxes) + rows * maskBoxes)) * line + 32 +
           stages * (p.mask ? 48 : 32); // Barriers come last.
  }
  if (isScalar)
    return 4 * (rows * keyStride(p) + keys * (keyStride(p) + valueStride(p)));
  const int64_t bytes = rows * rowBytes(p.keySize) + stages * keys * rowBytes(std::max(p.keySize, p.valueSize));
  return batches > 1 ? 2 * bytes : bytes; // Those of the next one come meanwhile.
}

/// Accumulators of values and scores, what of these becomes the next product's operand, and what a thread keeps from
/// tile to tile beside them.
int64_t FlashShape::heldWithoutQuery(const FlashProblem &p) const {
  if (isWgmma) { // The weights of the tile before wait while the next scores are multiplied.
    const bool areProducts = p.scale && !p.bounds.areOfRow(); // Else there is a slope, or a row's number or bounds.
    const int64_t ofScores = p.mask ? keys / 2 * p.maskBytes() / 4 : areProducts ? 0 : 8;
    return p.valueSize / 2 + keys / 2 + keys / 4 + ofScores;
  }
  const int64_t fragments = rows / warps / 16;
  if (isScalar) // A thread holds 8 of the queries at a time, too.
    return fragments * (valueStride(p) / 2 + keys / 2 + 8);
  const int64_t ofMask = batches > 1 ? keys / 2 * p.heldMaskBytes() / 4 : 0;
  return fragments * (paddedSize(p.valueSize) / 2 + keys / 2 + keys / 16 + ofMask);
}

int64_t FlashShape::queryRegisters(const FlashProblem &p) const {
  return rows / warps / 16 * paddedSize(p.keySize) / 4;
}

bool FlashShape::holdsQuery(const FlashProblem &p) const {
  if (isWgmma || isScalar || batches > 1) // A single tile of keys reads them once.
    return false;
  return heldWithoutQuery(p) + queryRegisters(p) + besideQuery <= mostRegisters;
}

int64_t FlashShape::heldRegisters(const FlashProblem &p) const {
  const int64_t ofSplits = splits > 1 ? 8 : 0;           // Where a block's tiles end, and those of all.
  const int64_t ofRing = !isWgmma && stages > 2 ? 2 : 0; // Which slot comes next: of two it is the other one.
  return heldWithoutQuery(p) + (holdsQuery(p) ? queryRegisters(p) : 0) + ofSplits + ofRing;
}

int64_t FlashShape::queryOperandBytes() const { return !isWgmma || resident > 1 ? 128 : warps == 8 ? 512 : 256; }

int64_t FlashShape::blocksPerSm(const FlashProblem &p, const ir::Target &target) const {
  const int64_t byShared = (target.sharedBytesPerBlock + 1024) / (sharedBytes(p) + 1024);
  if (isWgmma) // setmaxnreg deals out all registers that its threads have at the start.
    return std::min(byShared, resident);
  const int64_t counted = std::clamp<int64_t>(heldRegisters(p) + besideOfMma, 1, mostRegisters),
                ofThread = ceilDiv(counted, 8) * 8;
  const int64_t most = std::min<int64_t>(target.threadsPerSm, target.registersPerSm / ofThread);
  return std::min(byShared, most / threads());
}

bool FlashShape::fits(const FlashProblem &p, const ir::Target &target) const {
  // setmaxnreg leaves each consumer of wgmma so many.
  const int64_t most = !isWgmma ? mostRegisters : resident > 1 ? 104 : warps == 8 ? 240 : 160;
  return heldRegisters(p) + (isWgmma ? besideOfWgmma : besideOfMma) <= most &&
         sharedBytes(p) <= target.sharedBytesPerBlock && blocksPerSm(p, target) >= (isWgmma ? resident : 1);
}

int64_t FlashShape::blocks(const FlashProblem &p) const { return p.batches() * ceilDiv(p.rows, rows); }

int64_t FlashShape::gridBlocks(const FlashProblem &p) const {
  return ceilDiv(blocks(p) / p.batchStride, batches) * p.batchStride;
}

int64_t FlashShape::partialBytes(const FlashProblem &p) const {
  return rows / warps / 16 * (paddedSize(p.valueSize) / 2 + 4) * 4 * threads();
}

int64_t FlashShape::tilesOf(const FlashProblem &p, int64_t row) const {
  const int64_t last = std::min(row + rows, p.rows) - 1;
  return std::max<int64_t>(0, ceilDiv(p.endKey(last), keys) - p.firstKey(row) / keys);
}

int64_t FlashShape::together(const FlashProblem &p, const ir::Target &target) const {
  constexpr int64_t leastTiles = 4; // With 2 and 3, which wait for memory more, keys come too fast at first.
  constexpr double l2Share = 0.6;   // The last-level cache's, for keys and values of those that run together.
  constexpr int64_t leastPart = 8;  // The last tile lacks an eighth of all rows or more: measured of 448 rows alone.
  const int64_t tiles = ceilDiv(p.rows, rows), lacking = tiles * rows - p.rows;
  if (p.bounds.areAll() && (tiles < leastTiles || lacking * leastPart < tiles * rows))
    return sharers;
  const double bytes =
      static_cast<double>(p.keys * (p.keySize + p.valueSize) * 2 * p.keyBatches()) / static_cast<double>(p.batches());
  int64_t most = std::clamp<int64_t>(static_cast<int64_t>(target.l2Bytes * l2Share / bytes), sharers, p.batches());
  while (p.batches() % most != 0 || most % sharers != 0)
    --most;
  return most;
}

/// A tile's products and what becomes of its scores, partly at the same time where an SM has several blocks, or several
/// warps of one.
double FlashShape::estimateUs(const Region &region, const FlashProblem &p, const ir::Target &target) const {
  const double sms = target.multiprocessors, clocksPerUs = target.f32FlopsPerUs / (2 * 128 * sms);
  const double pairs = static_cast<double>(rows * keys); // A row and a key of one tile each.
  // Fragments of keys and values are read from shared memory, 128 bytes a clock, once for each warp.
  const double elements = static_cast<double>(paddedSize(p.keySize) + paddedSize(p.valueSize));
  const double mathUs = 2 * pairs * elements / (target.halfFlopsPerUs / sms * mmaShare(target));
  const double queryReads = holdsQuery(p) ? 0 : static_cast<double>(rows * paddedSize(p.keySize));
  const double fragmentUs = 2 * (static_cast<double>(warps * keys) * elements + queryReads) / 128 / clocksPerUs;
  const double ofScore =
      p.scale ? 0 : instructionsOf(p.scores, p.bounds.seen, [&](ir::Scalar s) { return s == p.scoreProduct; });
  const double rescaled = static_cast<double>(p.valueSize) / static_cast<double>(keys);
  const double copies = static_cast<double>(keys) * elements / 8 * h100.ofCopy; // Instructions.
  auto weightsUs = [&](double instructions) {
    return pairs * (1 / h100.exponentials + (instructions + ofScore + rescaled) / h100.instructions) / clocksPerUs;
  };
  if (isWgmma)
    return estimateWgmmaUs(region, p, target, weightsUs(h100.ofWgmmaWeight));
  const double vectorUs = weightsUs(h100.ofWeight) + copies / h100.instructions / clocksPerUs;
  if (isScalar)
    return estimateScalarUs(region, p, target, vectorUs);
  const double resident =
      static_cast<double>(std::min(blocksPerSm(p, target), ceilDiv(blocks(p) * splits, target.multiprocessors)));
  const double inOneUs = std::max(mathUs, fragmentUs), warpsOfSm = resident * static_cast<double>(warps);
  const double hidden = std::min(1.0, (warpsOfSm - 2) / h100.warpsBehind);
  const double busy = std::min(1.0, warpsOfSm / h100.warpsBusy);
  const double waits = 1 + h100.waitShare / static_cast<double>(stages - 1);
  const double tileUs =
      (std::max(inOneUs, vectorUs) + (1 - h100.behind * std::max(0.0, hidden)) * std::min(inOneUs, vectorUs)) / busy *
          waits +
      h100.barriersUs / resident;
  // stages - 1 tiles of a block are under way.
  const double loadUs = p.keys <= keys ? 0 : p.rows <= rows ? h100.loadAloneUs : h100.loadUs;
  const double loadsUs = 2 * loadUs / (static_cast<double>(stages - 1) * resident);
  return totalUs(region, p, target, std::max(tileUs, loadsUs), resident, startsUs(p, target, resident)) +
         gatherUs(p, target);
}

/// What splits leave in the last-level cache and one block of each tile adds.
double FlashShape::gatherUs(const FlashProblem &p, const ir::Target &target) const {
  if (splits == 1)
    return 0;
  const auto bytes = static_cast<double>(partialBytes(p) * splits);
  const double waves = std::ceil(static_cast<double>(blocks(p)) / target.multiprocessors);
  return h100.arrivalUs + 2 * bytes * static_cast<double>(blocks(p)) / h100.l2BytesPerUs +
         waves * bytes / (h100.l2BytesPerUs / target.multiprocessors * 2);
}

/// Terms of a wgmma kernel's time that are the same for all shapes. Fitted to 264 configs of nine shapes of heads of
/// 64, 128 and 256 on an H100 (bench/sweeps/flash_h100.csv): of all it measured, the first of this order reaches 91 to
/// 100 %, 98 % in the mean.
struct FlashShape::WgmmaTerms {
  double shown;   ///< The part of the shorter of products and weights that is not behind the longer one.
  double tileUs;  ///< Barriers of a tile.
  double startUs; ///< A tile of rows: its first scores, which nothing runs beside, and its results.
};

FlashShape::WgmmaTerms FlashShape::wgmmaTerms() const {
  constexpr double launchedUs = 1.5; // A block of its own: barriers, and queries that are waited for.
  WgmmaTerms terms = resident > 1 ? WgmmaTerms{0.46, 0.067, 0.62} // Another block runs beside a start.
                     : warps > 8  ? (pingPong ? WgmmaTerms{0.29, 0.139, 1.73} : WgmmaTerms{0.67, 0.193, 0.59})
                                  : (pingPong ? WgmmaTerms{0.50, 0.116, 1.45} : WgmmaTerms{0.53, 0.098, 1.44});
  terms.startUs += isPersistent ? 0 : launchedUs;
  return terms;
}

/// What a block takes to compute a tile of queries: a few rounds of loads, which nothing runs beside but other blocks,
/// and instructions. Each is computed once, so there is no more work than in a kernel before it; keys, which every tile
/// of rows reads, would be computed as often as there are such tiles, and so are never computed here.
double FlashShape::queryUs(const FlashProblem &p, const ir::Target &target) const {
  if (!p.computesQuery)
    return 0;
  const double clocksPerUs = target.f32FlopsPerUs / (2 * 128 * static_cast<double>(target.multiprocessors));
  const auto lanes = static_cast<int64_t>(llvm::PowerOf2Ceil(paddedSize(p.keySize) / 8));
  const auto rounds =
      static_cast<double>(ceilDiv(rows / warps * lanes / 32, std::max<int64_t>(queryOperandBytes() / p.queryBytes, 1)));
  const double instructions = instructionsOf(p.scores, p.query, [](ir::Scalar) { return false; });
  return rounds * h100.queryLoadUs / static_cast<double>(resident) +
         static_cast<double>(rows * paddedSize(p.keySize)) * instructions / h100.instructions / clocksPerUs;
}

/// A warpgroup's products run beside the weights of its own and of others.
double FlashShape::estimateWgmmaUs(const Region &region, const FlashProblem &p, const ir::Target &target,
                                   double weightsUs) const {
  const double sms = target.multiprocessors, clocksPerUs = target.f32FlopsPerUs / (2 * 128 * sms);
  const auto pairs = static_cast<double>(rows * keys), keySize = static_cast<double>(paddedSize(p.keySize));
  auto multiplyUs = [&](double size) { return 2 * pairs * size / (target.halfFlopsPerUs / sms * h100.wgmmaShare); };
  // Each product of 16 elements reads 64 rows of queries, and the keys, from shared memory: 128 bytes a clock.
  const double readUs = static_cast<double>(rows) / 64 * (64 + static_cast<double>(keys)) * 2 * keySize / 128 /
                        (clocksPerUs * h100.sharedShare);
  const double mathUs = std::max(multiplyUs(keySize), readUs) + multiplyUs(static_cast<double>(p.valueSize));
  WgmmaTerms terms = wgmmaTerms();
  terms.startUs += queryUs(p, target);
  const double tileUs = std::max(mathUs, weightsUs) + terms.shown * std::min(mathUs, weightsUs) + terms.tileUs;
  const double ofSm = static_cast<double>(blocks(p)) / sms;
  return totalUs(region, p, target, tileUs, static_cast<double>(resident),
                 (p.bounds.areAll() ? std::ceil(ofSm) : ofSm) * terms.startUs);
}

/// Products and weights take the same instructions' slots, and nothing is loaded beside them but by other blocks.
double FlashShape::estimateScalarUs(const Region &region, const FlashProblem &p, const ir::Target &target,
                                    double vectorUs) const {
  const auto pairs = static_cast<double>(rows * keys), elements = static_cast<double>(keyStride(p) + valueStride(p));
  const double sms = target.multiprocessors, issuedUs = sms / (target.f32FlopsPerUs / 2); // One instruction a lane.
  const auto resident =
      static_cast<double>(std::min(blocksPerSm(p, target), ceilDiv(blocks(p), target.multiprocessors)));
  const double mathUs = pairs * elements * issuedUs / h100.fmaShare,
               copyUs = h100.copied * static_cast<double>(keys) * elements * issuedUs;
  const double warpsOfSm = resident * static_cast<double>(warps), busy = std::min(1.0, warpsOfSm / h100.warpsBusy);
  return totalUs(region, p, target, (mathUs + vectorUs + copyUs) / busy + h100.fmaLoadUs / resident, resident,
                 startsUs(p, target, resident));
}

/// What blocks take for their first tiles and their results, `resident` blocks at a time.
double FlashShape::startsUs(const FlashProblem &p, const ir::Target &target, double resident) const {
  const auto started = static_cast<double>((batches > 1 ? gridBlocks(p) : blocks(p)) * splits);
  return std::ceil(std::ceil(started / target.multiprocessors) / resident) * (h100.startUs + queryUs(p, target));
}

/// Modelled microseconds of blocks whose tiles take an SM so long, `resident` of them on it at once.
double FlashShape::totalUs(const Region &region, const FlashProblem &p, const ir::Target &target, double tileUs,
                           double resident, double startsUs) const {
  // Keys and values come from L2.
  const double sms = target.multiprocessors, clocksPerUs = target.f32FlopsPerUs / (2 * 128 * sms),
               bytes =
                   static_cast<double>(keys * (p.keySize + p.valueSize)) * static_cast<double>(byteWidth(p.type())) +
                   static_cast<double>(rows * keys * p.maskBytes()) / static_cast<double>(sharers);
  tileUs = std::max(tileUs, bytes / (h100.l2BytesPerClock * clocksPerUs));
  double tiles = 0, longest = 0;
  for (int64_t row = 0; row < p.rows; row += rows) {
    const auto ofBlock = static_cast<double>(ceilDiv(tilesOf(p, row), splits));
    tiles += ofBlock * static_cast<double>(splits), longest = std::max(longest, ofBlock);
  }
  tiles *= static_cast<double>(p.batches());
  const double ofSm = batches > 1 ? std::ceil(static_cast<double>(gridBlocks(p)) / sms) * static_cast<double>(batches)
                                  : std::ceil(static_cast<double>(blocks(p) * splits) / sms);
  // Blocks of one length come in waves; of others the short ones fill up.
  const double perSm = !p.bounds.areAll() ? std::max(tiles / sms, longest * std::min(ofSm, resident)) : ofSm * longest;
  const double us = perSm * tileUs + startsUs,
               memoryUs = (region.bytesRead + region.bytesWritten) / (h100.memoryShare * target.memoryBytesPerUs);
  return target.launchUs + std::max(us, memoryUs) + h100.memoryBeside * std::min(us, memoryUs);
}

} // namespace kfuse::codegen::cuda
