// From the accumulators of wgmma to a dense 16-bit result, through TMA; a residual or the like comes through it too.
#pragma once

#include <kfuse/epilogue.cuh>
#include <kfuse/ptx_sm90.cuh>

namespace kfuse {

/// An epilogue whose one result TMA writes.
template <class Epilogue> struct ToTiles {
  Epilogue epilogue;
  const TensorMap *result;
};
/// The same, where it reads a matrix at the result's places, which TMA brings.
template <class Epilogue> struct ToTilesFrom {
  Epilogue epilogue;
  const TensorMap *result, *read;
};

/// Asks for the maps of what TMA writes and reads for an epilogue; most have none.
template <class Epilogue> __device__ __forceinline__ void prefetchMaps(const Epilogue &) {}
template <class Epilogue> __device__ __forceinline__ void prefetchMaps(const ToTiles<Epilogue> &to) {
  prefetchMap(to.result);
}
template <class Epilogue> __device__ __forceinline__ void prefetchMaps(const ToTilesFrom<Epilogue> &to) {
  prefetchMap(to.result), prefetchMap(to.read);
}

/// An epilogue for one of a lane's rows, the upper or the lower (`half`) of block `block`: most know no difference.
template <class Epilogue> __device__ __forceinline__ const Epilogue &ofRow(const Epilogue &epilogue, int, int) {
  return epilogue;
}

/// The 16 x `columns` part of a warpgroup's product that one warp holds: its lane has two neighbouring
/// columns of rows lane / 4 and lane / 4 + 8 in every eight columns. The epilogue finishes them where they
/// are; the warp collects `width` columns in one of two swizzled buffers and leaves the writing to TMA, which
/// goes on under the next tile. Each of several products has `columns` / products of the accumulators.
///
/// Where it `reads` a matrix, a piece of that is in the buffer before, and results take its place. The first two pieces
/// of a tile come before its last products end; by then the L2 has the lines of the others.
template <class Config, int columns, bool reads = false> struct WarpStore {
  using Index = typename Config::Index;
  static constexpr int products = columns / Config::tileN, ofProduct = columns / products;
  static constexpr int width = ofProduct % 64 == 0 ? 64 : ofProduct % 32 == 0 ? 32 : 16;
  static constexpr int pieces = width / 8, rowBytes = width * 2, bufferBytes = 16 * rowBytes, bytes = 2 * bufferBytes;
  static_assert(ofProduct % width == 0 && Config::epilogueVector == 2);

  static constexpr bool bringsTiles = reads;
  static constexpr int barrierBytes = reads ? 16 : 0; ///< A barrier for each buffer.

  unsigned first, barriers;
  unsigned turn = 0;   ///< The one of the two buffers to fill next.
  unsigned phases = 0; ///< Bit i: the parity that buffer i's barrier ends next.

  __device__ __forceinline__ WarpStore(unsigned char *staged, unsigned barriers)
      : first(sharedAddress(staged)), barriers(barriers) {}
  static __device__ __forceinline__ void initBarriers(unsigned, unsigned barriers) {
    initBarrier(barriers, 1), initBarrier(barriers + 8, 1);
  }

  /// Starts to bring what the epilogue reads for a tile of `blocks` parts from (row, column) on.
  template <int blocks, class Epilogue>
  __device__ __forceinline__ void bring(const ToTilesFrom<Epilogue> &to, Index batch, Index row, Index column) const {
    constexpr int steps = blocks * (ofProduct / width);
    if (threadIdx.x % 32 != 0)
      return;
    waitStores<0>();
#pragma unroll
    for (int step = 0; step < steps; ++step)
      if (step < 2)
        bringPiece(to, turn ^ step, batch, row, column, step);
      else
        fetchBox(to.read, column + step % (ofProduct / width) * width, row + step / (ofProduct / width) * 64,
                 Epilogue::readBatch(batch));
  }

  /// What the epilogue reads for 16 x `width` results, all on its way before the first is used: between uses the
  /// stores of pieces keep loads from moving up.
  template <class Epilogue> struct Ahead {
    typename Epilogue::Operands x[pieces][2];
  };
  template <class To>
  __device__ __forceinline__ Ahead<decltype(To::epilogue)> load(const To &to, Index batch, Index row,
                                                                Index column) const {
    const Index m = row + threadIdx.x % 32 / 4, n = column + threadIdx.x % 4 * 2;
    Ahead<decltype(To::epilogue)> ahead;
#pragma unroll
    for (int j = 0; j < pieces; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        to.epilogue.load(ahead.x[j][half], batch, inside(m + half * 8, Config::M - 1), inside(n + j * 8, Config::N - 2),
                         2);
    return ahead;
  }

  /// `blocks` parts, 64 rows apart from (row, column) on; `ahead` is of the first.
  template <class To, int blocks>
  __device__ __forceinline__ void finish(const float (&accumulators)[blocks][columns / 2], const To &to,
                                         Ahead<decltype(To::epilogue)> &ahead, Index batch, Index row, Index column) {
    constexpr int steps = ofProduct / width;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < blocks * steps; ++step) {
      const int from = step % steps * width;
      const Index m = row + step / steps * 64 + lane / 4, n = column + from + lane % 4 * 2;
      const unsigned buffer = bufferAt(turn);
      if constexpr (reads) {
        waitBarrier(barriers + turn * 8, phases >> turn & 1);
        phases ^= 1u << turn;
      } else if (lane == 0) {
        waitStores<1>();
      }
      __syncwarp();
#pragma unroll
      for (int j = 0; j < pieces; j += 2) {
        const unsigned at = buffer + offset(lane % 16, j + lane / 16);
        if constexpr (reads)
          take(to.epilogue, ahead.x + j, at);
        unsigned words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          words[i] = finished(ofRow(to.epilogue, step / steps, i % 2), ahead.x[j + i / 2][i % 2],
                              &accumulators[step / steps][(from / 8 + j) * 4 + i * 2], batch, m + i % 2 * 8,
                              n + (j + i / 2) * 8);
        storeMatrices(at, words[0], words[1], words[2], words[3]);
      }
      if (step + 1 < blocks * steps)
        ahead = load(to, batch, row + (step + 1) / steps * 64, column + (step + 1) % steps * width);
      fenceForTma();
      __syncwarp();
      if (lane == 0) {
        if constexpr (reads)
          if (step > 0 && step + 1 < blocks * steps) {
            waitStores<0>();
            bringPiece(to, turn ^ 1, batch, row, column, step + 1);
          }
        storeBox(to.result, column + from, row + step / steps * 64, to.epilogue.resultBatch(batch), buffer);
      }
      turn ^= 1;
    }
  }

  /// No buffer is in use any more.
  __device__ __forceinline__ void drain() const {
    if (threadIdx.x % 32 == 0)
      waitStores<0>();
  }

private:
  __device__ __forceinline__ unsigned bufferAt(unsigned turn) const { return first + turn * bufferBytes; }

  template <class Epilogue>
  __device__ __forceinline__ void bringPiece(const ToTilesFrom<Epilogue> &to, unsigned turn, Index batch, Index row,
                                             Index column, int step) const {
    constexpr int steps = ofProduct / width;
    arriveExpecting(barriers + turn * 8, bufferBytes);
    loadBox(bufferAt(turn), to.read, column + step % steps * width, row + step / steps * 64, Epilogue::readBatch(batch),
            barriers + turn * 8);
  }
  /// What TMA has brought for two pieces of a row, to the operands of both halves: as storeMatrices lays them out.
  template <class Epilogue, class Operands>
  static __device__ __forceinline__ void take(const Epilogue &epilogue, Operands (*x)[2], unsigned at) {
    unsigned pairs[4];
    loadMatrices(pairs, at);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      epilogue.take(x[i / 2][i % 2], pairs[i]);
  }

  /// Where a row's piece of 16 bytes lies, as TMA's swizzle over rowBytes places it.
  static __device__ __forceinline__ unsigned offset(int row, int piece) {
    unsigned plain = row * rowBytes + piece * 16;
    return plain ^ (plain >> 3 & (rowBytes - 16));
  }

  /// Past the edge the last operands are as good as any: what is made of them is not written.
  static __device__ __forceinline__ Index inside(Index at, Index last) { return at < last ? at : last; }

  /// Two neighbours, through the epilogue and rounded; what lies past the edge is not written.
  template <class Epilogue>
  static __device__ __forceinline__ unsigned finished(const Epilogue &epilogue, const typename Epilogue::Operands &x,
                                                      const float *accumulators, Index batch, Index m, Index n) {
    Vector<float, 2 * products> acc;
#pragma unroll
    for (int i = 0; i < products; ++i)
      acc[2 * i] = accumulators[i * ofProduct / 2], acc[2 * i + 1] = accumulators[i * ofProduct / 2 + 1];
    Vector<float, 2> y = epilogue.compute(x, acc, batch, m, n, 2);
    typename Epilogue::Result pair[2];
    encodePair(pair, y[0], y[1]);
    return pair[0].bits | static_cast<unsigned>(pair[1].bits) << 16;
  }
};

} // namespace kfuse
