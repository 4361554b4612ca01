// Rows that the blocks of a cluster share: totals over them, through distributed shared memory.
#pragma once

#include <kfuse/ptx_sm90.cuh>
#include <kfuse/rows.cuh>

namespace kfuse {

/// `blocks` blocks, a power of two up to 32.
template <int blocks> struct Cluster {
  static __device__ __forceinline__ int rank() { return static_cast<int>(blockInCluster()); }

  /// The total of all blocks' values in all threads: lanes read one block's each and add them in one order. `turn`
  /// alternates from row to row: others may still read the last one's.
  template <int slot, class Operation, class T> static __device__ __forceinline__ T reduce(T value, int turn) {
    __shared__ unsigned words[2][(sizeof(T) + 3) / 4];
    if (threadIdx.x == 0)
      toWords(words[turn], value);
    syncCluster();
    unsigned from = inBlock(sharedAddress(words[turn]), threadIdx.x % blocks);
    return reduceLanes<Operation, blocks>(fromCluster<T>(from));
  }
  /// No block ends while others may read its memory.
  static __device__ __forceinline__ void leave() { syncCluster(); }

private:
  template <class T> static __device__ __forceinline__ void toWords(unsigned *words, T value) {
    if constexpr (sizeof(T) == 8) {
      auto bits = __builtin_bit_cast(unsigned long long, value);
      words[0] = static_cast<unsigned>(bits), words[1] = static_cast<unsigned>(bits >> 32);
    } else if constexpr (sizeof(T) == 4) {
      words[0] = __builtin_bit_cast(unsigned, value);
    } else {
      words[0] = static_cast<unsigned>(value);
    }
  }
  template <class T> static __device__ __forceinline__ T fromCluster(unsigned address) {
    unsigned low = loadCluster(address);
    if constexpr (sizeof(T) == 8)
      return __builtin_bit_cast(T, low | static_cast<unsigned long long>(loadCluster(address + 4)) << 32);
    else if constexpr (sizeof(T) == 4)
      return __builtin_bit_cast(T, low);
    else
      return static_cast<T>(low);
  }
};

} // namespace kfuse
