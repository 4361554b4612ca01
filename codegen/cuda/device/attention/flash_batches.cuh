// Attention of heads of few rows and keys, as windows of an image have: a tile holds each, and a block takes several.
#pragma once

#include <kfuse/flash_attention.cuh>

namespace kfuse {

/// A block takes up to Config::batches batches one behind the other, Config::batchStride apart: while one is
/// multiplied, the copies of the next one's queries, keys and values are under way. A mask that is the same for all of
/// them (Config::holdsMask) is read once.
template <class Config, class Body> struct FlashBatches {
  using Index = typename Config::Index;
  using Attention = FlashAttention<Config, Body>;
  static constexpr int sharedBytes = Attention::QueryTile::bytes + 2 * Attention::slotBytes; // One batch's tiles.
  static_assert(Config::tileRows >= Config::rows && Config::tileKeys >= Config::keys && Config::stages == 2);

  const Body &body;
  typename Attention::Mask mask = {};

  /// The batch of this number, in either half of shared memory.
  __device__ __forceinline__ Attention attentionOf(unsigned number, int half) const {
    return Attention(body, number, sharedAddress(dynamicShared()) + half * sharedBytes);
  }
  __device__ __forceinline__ void start(unsigned number, int half) const {
    const Attention next = attentionOf(number, half);
    next.startQueries();
    next.template startAhead<false>(next.ring, next.endTile - 1, 0);
    next.template startAhead<true>(next.ring + Attention::slotBytes, next.endTile - 1, 0);
  }

  __device__ __forceinline__ void take(unsigned number, int half) const {
    Attention attention = attentionOf(number, half);
    typename Attention::Rows &rows = attention.rows;
    rows.mask = mask;
    if (!attention.block.isBehindRun(body) && rows.sees(0)) {
      typename Attention::Rows::Products scores = {};
      typename Attention::Rows::Shifts shifts;
      attention.multiplyKeys(scores, attention.ring);
      rows.scoreAll(scores, Index(0), shifts);
      attention.multiplyValues(scores, shifts, attention.ring + Attention::slotBytes);
    }
    rows.store();
  }

  __device__ __forceinline__ void run() {
    mark(Moment::starts);
    constexpr unsigned stride = Config::batchStride;
    unsigned number = blockIdx.x / stride * stride * Config::batches + blockIdx.x % stride;
    start(number, 0);
    mask.read(body, Index(number), Index(threadIdx.x / 32 * Attention::warpRows));
#pragma unroll 1
    for (int i = 0; i < Config::batches && number < Config::allBatches; ++i, number += stride) {
      const bool isLast = i + 1 == Config::batches || number + stride >= Config::allBatches;
      if (!isLast)
        start(number + stride, (i + 1) % 2);
      else
        commitCopies(), commitCopies();
      waitCopies<2>(); // All but the next batch's, which are two groups.
      __syncthreads();
      if (i == 0)
        mark(Moment::hasTile);
      take(number, i % 2);
      __syncthreads(); // All have read what the copies behind the next ones fill.
    }
    waitCopies<0>();
    mark(Moment::ends);
  }
};

} // namespace kfuse
