// Rows that the blocks of a cluster share: totals over them, through distributed shared memory.
#pragma once

#include <kfuse/ptx_sm90.cuh>
#include <kfuse/rows.cuh>

namespace kfuse {

/// `blocks` blocks, a power of two up to 32, each of warps that pass a barrier between two exchanges.
///
/// In an exchange every block sends its value to all, where it counts at a barrier. No fence: it would wait for the
/// stores of the row before. Exchanges take turns in two memories: who sends into one again has what all sent in the
/// exchange between, and they sent that when they had read this memory. So no block ends before all values that others
/// send to it are there.
template <int blocks> struct Cluster {
  static __device__ __forceinline__ int rank() { return static_cast<int>(blockInCluster()); }

  __device__ __forceinline__ Cluster() {
    if (threadIdx.x == 0) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        initBarrier(sharedAddress(&memory().barriers[i]), 1);
      fenceBarrierInit();
    }
    __syncwarp();
    arriveAtCluster();
  }

  /// The total of all blocks' values in all threads: lanes read one block's each and add them in one order.
  template <class Operation, class T> __device__ __forceinline__ T reduce(T value) {
    if (!hasSynced) // All barriers are ready.
      waitForCluster();
    hasSynced = true;
    unsigned long long(&values)[blocks] = memory().values[slot];
    const unsigned barrier = sharedAddress(&memory().barriers[slot]);
    if (threadIdx.x == 0)
      arriveExpecting(barrier, sizeof(values));
    if (threadIdx.x < blocks)
      sendBits(inBlock(sharedAddress(&values[rank()]), threadIdx.x), bitsOf(value), inBlock(barrier, threadIdx.x));
    waitBarrier(barrier, parity);
    const T other = fromBits<T>(values[threadIdx.x % blocks]);
    parity ^= slot;
    slot ^= 1;
    return reduceLanes<Operation, blocks>(other);
  }

private:
  struct Memory {
    unsigned long long values[2][blocks], barriers[2];
  };
  static __device__ __forceinline__ Memory &memory() {
    __shared__ Memory shared;
    return shared;
  }
  template <class T> static __device__ __forceinline__ unsigned long long bitsOf(T value) {
    if constexpr (sizeof(T) == 8)
      return __builtin_bit_cast(unsigned long long, value);
    else if constexpr (sizeof(T) == 4)
      return __builtin_bit_cast(unsigned, value);
    else
      return static_cast<unsigned long long>(value);
  }
  template <class T> static __device__ __forceinline__ T fromBits(unsigned long long bits) {
    if constexpr (sizeof(T) == 8)
      return __builtin_bit_cast(T, bits);
    else if constexpr (sizeof(T) == 4)
      return __builtin_bit_cast(T, static_cast<unsigned>(bits));
    else
      return static_cast<T>(bits);
  }

  int slot = 0; ///< The next exchange's, and the parity of its barrier.
  unsigned parity = 0;
  bool hasSynced = false;
};

} // namespace kfuse
