// Decode attention whose blocks of a pair leave their partials in memory.
#pragma once

#include <kfuse/decode_partials.cuh>
#include <kfuse/handover.cuh>
#include <kfuse/ptx.cuh>

namespace kfuse {

/// A fix-up (DecodeAttention::run) through memory: of the blocks that have keys the one that starts last adds. One that
/// has all of them stores the result by itself.
template <class Attention> struct DecodeThroughMemory {
  using Partial = typename Attention::Partial;
  static constexpr int rows = Partial::rows, size = Partial::size, blocks = Attention::splits; ///< At most.

  unsigned *tickets;
  Partial *partials;
  unsigned ticket = 0; ///< Taken early: nothing waits for it.

  __device__ __forceinline__ void skip() {}
  __device__ __forceinline__ void begin(const Attention &all) {
    if (threadIdx.x == 0)
      ticket = takeTicket(tickets + all.pair, all.live);
  }
  static __device__ __forceinline__ bool &isLast() {
    __shared__ bool shared;
    return shared;
  }
  __device__ __forceinline__ void leave(const Attention &all) const {
    if (threadIdx.x == 0)
      isLast() = ticket == all.live - 1;
  }
  __device__ __forceinline__ void finish(const Attention &all) const {
    if (all.live == 1)
      return typename Attention::Alone().finish(all);
    Partial *ofPair = partials + all.pair * blocks, &mine = ofPair[blockIdx.y];
    Attention::addWarps([&](int row, int d, const DecodeSum &sum) {
      if (d == 0)
        Handover<2>::give(&mine.heads[row].maximum, {sum.head.maximum, sum.head.weight});
      Handover<4>::give(&mine.values[row][d], sum.values);
    });
    if (isLast())
      addBlocks(all, ofPair);
  }

private:
  /// Values of a few blocks' partials, on their way together.
  struct Coming {
    static constexpr int count = blocks <= 16 ? blocks : 8;
    static_assert(blocks % count == 0);
    Handover<4> values[count];

    /// At the first `live` of these.
    __device__ __forceinline__ void look(const Partial *partials, int live, int row, int d) {
#pragma unroll
      for (int i = 0; i < count; ++i)
        if (i < live)
          values[i].look(&partials[i].values[row][d]);
    }
    __device__ __forceinline__ bool areThere(int live) const {
      bool all = true;
#pragma unroll
      for (int i = 0; i < count; ++i)
        all = all && (i >= live || values[i].isThere());
      return all;
    }
  };

  /// Stores the sum of what the blocks of the pair leave, as soon as it is there.
  static __device__ __forceinline__ void addBlocks(const Attention &all, Partial *partials) {
    __shared__ DecodeHead heads[blocks][rows];
    int at = threadIdx.x * 4;
    Coming coming;
    if (at < rows * size)
      coming.look(partials, all.live, at / size, at % size);
    for (int i = threadIdx.x; i < all.live * rows; i += Attention::threads) {
      DecodeHead &from = partials[i / rows].heads[i % rows];
      Handover<2> head;
      while (!head.isThere())
        head.look(&from.maximum);
      const Vector<float, 2> values = head.take(&from.maximum);
      heads[i / rows][i % rows] = {values[0], values[1]};
    }
    __syncthreads();
    for (; at < rows * size; at += Attention::threads * 4) {
      const int row = at / size, d = at % size;
      DecodeSum sum;
      for (int i = 0; i < all.live; ++i)
        sum.see(heads[i][row]);
#pragma unroll 1
      for (int first = 0; first < all.live; first += Coming::count) {
        const int live = all.live - first;
        while (!coming.areThere(live))
          coming.look(partials + first, live, row, d);
#pragma unroll
        for (int i = 0; i < Coming::count; ++i)
          if (i < live)
            sum.add(heads[first + i][row], coming.values[i].take(&partials[first + i].values[row][d]));
      }
      all.store(row, d, sum);
    }
  }
};

} // namespace kfuse
