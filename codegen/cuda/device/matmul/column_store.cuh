// From the accumulators of a swapped product to a dense 16-bit result, through TMA.
#pragma once

#include <kfuse/warp_store.cuh>
#include <kfuse/wgmma.cuh>

namespace kfuse {

/// The 64 columns of the result that a warpgroup holds, by Config::tileColumns of its rows: a lane has two neighbouring
/// rows of columns lane / 4 and lane / 4 + 8 in every eight rows. The epilogue finishes them where they are, two
/// columns a lane, whatever the row; they are turned on their way to shared memory, lines of 64 columns, from where TMA
/// takes them. 88 rows of 128 columns leave a block in 0.3 us; in f32, turned by scattered stores, they took 1.6.
template <class Config> struct ColumnStore {
  using Index = typename Config::Index;
  static constexpr int rows = Config::tileColumns, bytes = rows * lineBytes;
  static_assert(rows % 8 == 0 && Config::epilogueVector == 1);

  unsigned staged; ///< This warpgroup's memory, at a multiple of 1024, as the swizzle needs.

  /// What the epilogue reads for this lane's columns.
  template <class Epilogue> struct Ahead {
    typename Epilogue::Operands x[2];
  };
  template <class Epilogue>
  static __device__ __forceinline__ Ahead<Epilogue> load(const ToTiles<Epilogue> &to, Index batch, Index row,
                                                         Index column) {
    Ahead<Epilogue> ahead;
#pragma unroll
    for (int half = 0; half < 2; ++half) // Past the edge the last column is as good as any.
      to.epilogue.load(ahead.x[half], batch, row, minimum(columnOf(column, half), Index(Config::N - 1)), 1);
    return ahead;
  }

  /// The warpgroup's part from (row, column) on. Its threads share barrier `barrier`.
  template <class Epilogue>
  __device__ __forceinline__ void finish(const float (&accumulators)[rows / 2], const ToTiles<Epilogue> &to,
                                         const Ahead<Epilogue> &ahead, Index batch, Index row, Index column,
                                         int barrier) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int eight = 0; eight < rows / 8; eight += 2) {
      unsigned words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) { // An odd last group of eight is repeated.
        const int j = eight + (eight + 1 < rows / 8 ? i / 2 : 0);
        words[i] = finished(to.epilogue, ahead.x[i % 2], &accumulators[j * 4 + i % 2 * 2], batch,
                            row + j * 8 + lane % 4 * 2, columnOf(column, i % 2));
      }
      const int j = eight + (eight + 1 < rows / 8 ? lane / 16 : 0);
      storeMatricesTransposed(lineAt(j * 8 + lane % 8, threadIdx.x / 32 % 4 * 2 + lane / 8 % 2), words[0], words[1],
                              words[2], words[3]);
    }
    fenceForTma();
    syncNamed(barrier, 128);
    if (threadIdx.x % 128 == 0) {
      storeBox(to.result, column, row, Epilogue::resultBatch(batch), staged);
      waitStores<0>();
    }
  }

private:
  static __device__ __forceinline__ Index columnOf(Index first, int half) {
    return first + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + half * 8;
  }
  /// Eight columns of a row, as TMA's swizzle places them.
  __device__ __forceinline__ unsigned lineAt(int row, int eight) const {
    return staged + row * lineBytes + (eight ^ row % 8) * 16;
  }
  /// A column's values in two neighbouring rows, rounded.
  template <class Epilogue>
  static __device__ __forceinline__ unsigned finished(const Epilogue &epilogue, const typename Epilogue::Operands &x,
                                                      const float *accumulators, Index batch, Index m, Index n) {
    float y[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      y[i] = epilogue.compute(x, Vector<float, 1>{accumulators[i]}, batch, m + i, n, 1)[0];
    typename Epilogue::Result pair[2];
    encodePair(pair, y[0], y[1]);
    return pair[0].bits | static_cast<unsigned>(pair[1].bits) << 16;
  }
};

} // namespace kfuse
