// Matrix product with plain FMAs: true f32, and operands that are computed rather than copied.
//
// A block computes a tileM x tileN tile; each thread a square of 4 x 4 blocks in it. Tiles of A and B
// lie in shared memory by k, so that a thread reads four neighbours at once; while the block multiplies
// from one pair of buffers, the next tiles are on their way through registers into the other.
#pragma once

#include <kfuse/epilogue.cuh>

namespace kfuse {

/// Moves tiles of one operand. An Operand gives `operator()(batch, i, k, lanes)`: four elements from
/// (i, k) on, neighbours in k or in i, of which `lanes` exist.
template <class Config, class Operand, int tile, int extent> struct SimtCopy {
  using Index = typename Config::Index;
  static constexpr int pitch = tile + 4; ///< Rows of k start in different banks.
  static constexpr int chunksPerRow = (Operand::contiguousK ? Config::tileK : tile) / 4;
  static constexpr int total = tile * Config::tileK / 4, count = (total + Config::threads - 1) / Config::threads;

  const Operand &operand;
  Index batch, first;
  Vector<float, 4> values[count];

  /// Reads the tile at `k` into registers.
  __device__ __forceinline__ void read(Index k) {
    forEach([&](int i, int across, int along) {
      Index outer = first + across, inner = k + along;
      Index left = Operand::contiguousK ? Config::K - inner : extent - outer;
      int lanes = left < 4 ? static_cast<int>(left) : 4;
      bool inside = outer < extent && inner < Config::K;
      values[i] = inside ? operand(batch, outer, inner, lanes) : Vector<float, 4>{};
    });
  }
  /// Writes it to shared memory, by k.
  __device__ __forceinline__ void write(float *to) const {
    forEach([&](int i, int across, int along) {
      if constexpr (Operand::contiguousK) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          to[(along + j) * pitch + across] = values[i][j];
      } else {
        *reinterpret_cast<Vector<float, 4> *>(to + along * pitch + across) = values[i];
      }
    });
  }

private:
  template <class Body> static __device__ __forceinline__ void forEach(Body body) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      int chunk = i * Config::threads + threadIdx.x, y = chunk / chunksPerRow, x = chunk % chunksPerRow * 4;
      if (total % Config::threads == 0 || chunk < total)
        body(i, Operand::contiguousK ? y : x, Operand::contiguousK ? x : y);
    }
  }
};

template <class Config, class A, class B, class Epilogue>
__device__ __forceinline__ void gemmSimt(const A &a, const B &b, const Epilogue &epilogue) {
  mark(Moment::starts);
  using Index = typename Config::Index;
  using CopyA = SimtCopy<Config, A, Config::tileM, Config::M>;
  using CopyB = SimtCopy<Config, B, Config::tileN, Config::N>;
  constexpr int columns = Config::tileN / Config::threadN, blocksM = Config::threadM / 4, blocksN = Config::threadN / 4;
  constexpr int stepM = Config::tileM / blocksM,
                stepN = Config::tileN / blocksN; // A thread's blocks lie this far apart.
  constexpr int sizeA = CopyA::pitch * Config::tileK, size = sizeA + CopyB::pitch * Config::tileK;
  float *shared = reinterpret_cast<float *>(dynamicShared());
  const BlockTile<Config> tile;
  waitForPredecessor();
  const int m = threadIdx.x / columns * 4, n = threadIdx.x % columns * 4;

  CopyA copyA{a, tile.batch, tile.m};
  CopyB copyB{b, tile.batch, tile.n};
  auto read = [&](int number) {
    copyA.read(Index(number) * Config::tileK);
    copyB.read(Index(number) * Config::tileK);
  };
  auto write = [&](int number) {
    copyA.write(shared + number % 2 * size);
    copyB.write(shared + number % 2 * size + sizeA);
  };
  float accumulators[blocksM][blocksN][4][4] = {};
  read(tile.firstK);
  write(tile.firstK);
  __syncthreads();
  mark(Moment::hasTile);
#pragma unroll 1
  for (int number = tile.firstK; number < tile.endK; ++number) {
    if (number + 1 < tile.endK)
      read(number + 1);
    const float *tileA = shared + number % 2 * size, *tileB = tileA + sizeA;
#pragma unroll
    for (int k = 0; k < Config::tileK; ++k) {
      Vector<float, 4> x[blocksM], y[blocksN];
#pragma unroll
      for (int i = 0; i < blocksM; ++i)
        x[i] = *reinterpret_cast<const Vector<float, 4> *>(tileA + k * CopyA::pitch + m + i * stepM);
#pragma unroll
      for (int j = 0; j < blocksN; ++j)
        y[j] = *reinterpret_cast<const Vector<float, 4> *>(tileB + k * CopyB::pitch + n + j * stepN);
#pragma unroll
      for (int i = 0; i < blocksM; ++i)
#pragma unroll
        for (int j = 0; j < blocksN; ++j)
#pragma unroll
          for (int p = 0; p < 16; ++p)
            accumulators[i][j][p / 4][p % 4] = fmaf(x[i][p / 4], y[j][p % 4], accumulators[i][j][p / 4][p % 4]);
    }
    if (number + 1 < tile.endK)
      write(number + 1); // The buffer that all left before the last barrier.
    __syncthreads();
  }

  mark(Moment::hasAccumulators);
#pragma unroll
  for (int i = 0; i < blocksM; ++i)
#pragma unroll
    for (int p = 0; p < 4; ++p)
#pragma unroll
      for (int j = 0; j < blocksN; ++j) {
        Index row = tile.m + m + i * stepM + p, column = tile.n + n + j * stepN;
        if (row >= Config::M || column >= Config::N)
          continue;
        Vector<float, 4> acc;
#pragma unroll
        for (int q = 0; q < 4; ++q)
          acc[q] = accumulators[i][j][p][q];
        int lanes = columnsAt<Config, 4>(column);
        typename Epilogue::Operands x;
        epilogue.load(x, tile.batch, row, column, lanes);
        epilogue.apply(x, acc, tile.batch, row, column, lanes);
      }
  mark(Moment::ends);
}

} // namespace kfuse
