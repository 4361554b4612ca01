#include "codegen/cuda/attention/DecodeShape.h"

#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/text/Clusters.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

namespace kfuse::codegen::cuda {

int64_t DecodeShape::pitchOf(int64_t size) { return static_cast<int64_t>(llvm::PowerOf2Ceil(size)); }

int64_t DecodeShape::partialBytes(const DecodeProblem &p) {
  return llvm::alignTo(p.rows() * (p.valueSize + 2) * 4, 16);
}

int64_t DecodeShape::sharedBytes(const DecodeProblem &p) const {
  int64_t tiles = stages * keys * 2 * (pitchOf(p.keySize) + pitchOf(p.valueSize));
  return warps * std::max(tiles, partialBytes(p));
}

int64_t DecodeShape::staticBytes(const DecodeProblem &p) const {
  int64_t keyRows = (p.computesQuery ? p.rows() : 0) + (p.update.newKeys ? p.update.newKeys->count() : 0);
  int64_t valueRows = p.update.newValues ? p.update.newValues->count() : 0;
  int64_t others = splits * (isCluster() ? partialBytes(p) : p.rows() * 8);
  return 2 * (keyRows * (p.keySize + 8) + valueRows * (p.valueSize + 8)) + others + 64;
}

/// Blocks that share an SM where each has `bytes` of shared memory.
double DecodeShape::perSm(int64_t bytes, const ir::Target &target) const {
  constexpr int64_t registersOfThread = 160, reservedBytes = 1024;
  return static_cast<double>(std::max<int64_t>(1, std::min(target.sharedBytesPerBlock / (bytes + reservedBytes),
                                                           target.registersPerSm / (registersOfThread * 32 * warps))));
}

namespace {

/// What the estimates know of an H200: fitted to 100 configs each of one sequence with 8192 and 65536 keys, 24 each of
/// 16 and 64 sequences, and 47 of two Llama blocks (commit 1e45bee; the sweep was not kept).
struct Coefficients {
  double busShare = 0.92;                  ///< What all SMs reach of the memory's nominal rate.
  double smShare = 2.3;                    ///< What one SM reaches, in its share of that rate.
  double unevenShare = 0.26;               ///< What shows of the blocks that the busiest SM has more than the others.
  double paddingShare = 0.11;              ///< What shows of keys past the end.
  double deepBytes = 160e3;                ///< More bytes on their way to an SM hold each other up.
  double deepShare = 0.075;                ///< How much longer they take for each time as many.
  double turnUs = 0.018;                   ///< 16 keys of each of four warps; eight hide it.
  double clusterUs = 1.7;                  ///< Sums on their way to another block of the cluster.
  double firstSumsUs = 1.3, sumsUs = 0.14; ///< The same through memory, and for each split.
  double turnOfSumsUs = 0.28, atOnce = 8;  ///< From 16 splits on, for each eight.
  double extendedUnevenShare = 0.3, extendedPaddingShare = 0.1; ///< The first two of estimateExtendedUs(), by hand.
};
constexpr Coefficients h200;

} // namespace

double DecodeShape::estimateUs(const Region &region, const DecodeProblem &p, const ir::Target &target) const {
  const auto ofPair = static_cast<double>(splits), ofBlock = static_cast<double>(warps),
             ofTile = static_cast<double>(keys), allKeys = static_cast<double>(p.keys),
             sms = static_cast<double>(target.multiprocessors);
  const auto pairs = static_cast<double>(p.pairs());
  const double blocks = pairs * ofPair, atOnce = perSm(sharedBytes(p) + staticBytes(p), target);
  double parts = std::ceil(blocks / sms); // On the busiest SM.
  if (isCluster()) {
    const auto places = static_cast<double>(clustersAtOnce(cluster, target));
    const double ofWave = std::min(atOnce, std::ceil(pairs / places)), waves = std::ceil(pairs / (places * ofWave));
    parts = waves * ofWave;
  }
  const double turns = std::ceil(std::ceil(allKeys / ofTile / ofPair) / ofBlock); // Tiles of a warp.

  const double bytes = region.bytesRead + region.bytesWritten,
               busUs = bytes / (h200.busShare * target.memoryBytesPerUs),
               smUs = bytes / (h200.smShare * target.memoryBytesPerUs * std::min(blocks, sms) / sms);
  const double uneven = parts * sms / std::max(blocks, sms), padding = turns * ofTile * ofPair * ofBlock / allKeys;
  const double deep = std::min(parts, atOnce) * ofBlock * std::min(static_cast<double>(stages), turns) * ofTile * 2 *
                      static_cast<double>(p.keySize + p.valueSize) / h200.deepBytes;
  double us = std::sqrt(std::hypot(busUs * busUs, smUs * smUs)); // Where both are alike, 19 % more than either.
  us *= (1 + h200.unevenShare * (uneven - 1)) * (1 + h200.paddingShare * (padding - 1));
  us *= 1 + h200.deepShare * std::max(0.0, deep - 1);
  if (warps < 8)
    us += h200.turnUs * turns * ofTile / 16;
  return target.launchUs + us + combineUs();
}

/// Sums on their way to another block, of up to 16 blocks at a time.
double DecodeShape::combineUs() const {
  const auto ofPair = static_cast<double>(splits);
  if (splits == 1)
    return 0;
  if (isCluster())
    return h200.clusterUs;
  return h200.firstSumsUs + h200.sumsUs * ofPair + h200.turnOfSumsUs * std::max(0.0, ofPair / h200.atOnce - 2);
}

/// Where queries or new rows are computed, too, or tiles loaded ahead of the wait. Behind the kernel ahead more of the
/// tiles are there at once: all SMs are to be busy and as much on its way as there is room for. In a Llama block of
/// 4096 keys 12 splits in three stages of four warps take 6.4 us, and its run 122.9; 16 in two stages of eight take 7.1
/// and 124.5, 24 splits 9.1 and more. The first eight hold both of the former; estimateUs() begins with 8 (7.4 us).
double DecodeShape::estimateExtendedUs(const Region &region, const DecodeProblem &p, const ir::Target &target) const {
  const auto ofTile = static_cast<double>(keys);
  const double blocks = static_cast<double>(p.pairs() * splits), atOnce = perSm(sharedBytes(p), target);
  const double keysOfWarp = static_cast<double>(p.keys) / static_cast<double>(splits * warps);
  const double tiles = std::ceil(keysOfWarp / ofTile),
               tileBytes = static_cast<double>(keys * 2 * (p.keySize + p.valueSize));
  const double resident = std::min(atOnce, blocks / target.multiprocessors);
  const double inFlight =
      resident * static_cast<double>(warps) * std::min(static_cast<double>(stages), tiles) * tileBytes;
  // Blocks of the last wave share the memory among fewer, which costs less than idle processors would.
  const double waves = blocks / (atOnce * target.multiprocessors), uneven = std::ceil(waves) / waves;
  const double padding = tiles * ofTile / keysOfWarp;
  return target.launchUs + combineUs() +
         streamUs(region.bytesRead, region.bytesWritten, inFlight, target) *
             (1 + h200.extendedUnevenShare * (uneven - 1)) * (1 + h200.extendedPaddingShare * (padding - 1));
}

} // namespace kfuse::codegen::cuda
