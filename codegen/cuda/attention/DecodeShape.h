// What a config makes of a decode attention: shared memory, and the time that it should take.
#pragma once

#include "codegen/cuda/attention/DecodeProblem.h"

namespace kfuse::codegen::cuda {

/// Each warp of a block has a ring of tiles, where its part of the sums lies later
/// (device/attention/decode_attention.cuh).
struct DecodeShape {
  int64_t warps, keys, stages, splits; ///< Keys of a warp's tile; blocks that a pair's keys are split over.
  int64_t cluster;                     ///< 1, or the blocks of a pair, which add their splits up in shared memory.

  explicit DecodeShape(const TileConfig &config)
      : warps(config["warps"]), keys(config["keys"]), stages(config["stages"]), splits(config["splits"]),
        cluster(config.valueOr("cluster", 1)) {}

  bool isCluster() const { return cluster > 1; }
  /// Elements from a key or value of `size` in shared memory to the next.
  static int64_t pitchOf(int64_t size);
  /// What a block knows in the end: sums, maxima and weights of a pair's rows.
  static int64_t partialBytes(const DecodeProblem &p);
  int64_t sharedBytes(const DecodeProblem &p) const;
  /// The rest of a block's shared memory: what is computed for a pair, and other blocks' maxima and weights.
  int64_t staticBytes(const DecodeProblem &p) const;

  /// Modelled microseconds of a kernel timed alone.
  double estimateUs(const Region &region, const DecodeProblem &p, const ir::Target &target) const;
  /// The same for a kernel that computes more than the attention (DecodeProblem::isExtended).
  double estimateExtendedUs(const Region &region, const DecodeProblem &p, const ir::Target &target) const;

private:
  double perSm(int64_t bytes, const ir::Target &target) const;
  double combineUs() const;
};

} // namespace kfuse::codegen::cuda
