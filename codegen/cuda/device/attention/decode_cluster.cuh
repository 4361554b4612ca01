// Decode attention whose blocks of a pair are one cluster.
#pragma once

#include <kfuse/decode_attention.cuh>
#include <kfuse/ptx_sm90.cuh>

namespace kfuse {

/// A fix-up (DecodeAttention::run): every block that has keys sends its partial to the shared memory of the first,
/// which counts their bytes at a barrier and adds them. Nothing passes through memory, where loads of others would be
/// in the way.
template <class Attention, int blocks> struct InCluster {
  using Partial = typename Attention::Partial;
  static constexpr unsigned sentBytes = Attention::rows * (Attention::valueSize + 2) * sizeof(float); ///< By a block.
  struct Memory {
    Partial partials[blocks];
    unsigned long long barrier;
  };
  static __device__ __forceinline__ Memory &memory() {
    __shared__ Memory shared;
    return shared;
  }

  __device__ __forceinline__ InCluster() {
    if (threadIdx.x == 0) {
      const unsigned barrier = sharedAddress(&memory().barrier);
      initBarrier(barrier, 1);
      fenceBarrierInit();
    }
    __syncwarp();
    arriveAtCluster();
  }

  __device__ __forceinline__ void skip() { waitForCluster(); }
  __device__ __forceinline__ void begin(const Attention &all) {
    if (threadIdx.x == 0)
      arriveExpecting(sharedAddress(&memory().barrier), all.live * sentBytes);
  }
  __device__ __forceinline__ void leave(const Attention &) {
    __syncwarp();     // Lanes without a row have left theirs earlier.
    waitForCluster(); // The first block's barrier is ready.
  }
  __device__ __forceinline__ void finish(const Attention &all) {
    const Partial &mine = memory().partials[blockInCluster()];
    const unsigned barrier = inBlock(sharedAddress(&memory().barrier), 0);
    auto send = [&](const float *to, float first, float second) {
      sendPair(inBlock(sharedAddress(to), 0), {first, second}, barrier);
    };
    Attention::addWarps([&](int row, int d, const DecodeSum &sum) {
      if (d == 0)
        send(&mine.heads[row].maximum, sum.head.maximum, sum.head.weight);
      send(&mine.values[row][d], sum.values[0], sum.values[1]);
      send(&mine.values[row][d + 2], sum.values[2], sum.values[3]);
    });
    if (blockInCluster() != 0)
      return;
    waitBarrier(sharedAddress(&memory().barrier), 0);
    addPartials<Partial, blocks, Attention::threads>(
        all.live, [](int i) -> const Partial & { return memory().partials[i]; },
        [&](int row, int d, const DecodeSum &sum) { all.store(row, d, sum); });
  }
};

} // namespace kfuse
