// Matrix products of at most a few rows: the weights stream through registers once, at the rate of HBM.
//
// `Config::split` warps share `Config::outputs` columns of the result along K. Each lane keeps `unroll`
// 16-byte loads of every column in flight, whatever it does with those that have come. Two products of the same
// left operand count as twice the columns.
#pragma once

#include <kfuse/epilogue.cuh>
#include <kfuse/rows.cuh>
#include <kfuse/streamed.cuh>

namespace kfuse {

/// The left operand's rows, computed whole and rounded to shared memory: by every block, while its first weights are on
/// their way. Else StoredRows.
template <class Config, class Compute, class T> struct ComputedRows {
  using Element = T;
  Compute compute;
  template <class Index> __device__ __forceinline__ void prepare(Index batch) const {
#pragma unroll 1
    for (int m = 0; m < Config::M; ++m) {
      compute.row(reinterpret_cast<T *>(dynamicShared()) + m * Config::K, batch, Index(m));
      __syncthreads(); // Also before the next row's totals.
    }
  }
  template <class Index> __device__ __forceinline__ const T *row(Index, int m) const {
    return reinterpret_cast<const T *>(dynamicShared()) + m * Config::K;
  }
  template <class Index> static __device__ __forceinline__ Index along(Index, Index k) { return k; }
};

template <class Config, class A, class B, class Epilogue>
__device__ __forceinline__ void gemv(const A &a, const B &b, const Epilogue &epilogue) {
  mark(Moment::starts);
  using Index = typename Config::Index;
  using T = typename A::Element;
  using W = typename B::Element;
  static_assert(sizeof(T) == sizeof(W));
  constexpr int ofProduct = Config::outputs, outputs = ofProduct * B::products;
  constexpr int width = 16 / sizeof(T), unroll = Config::unroll, M = Config::M;
  constexpr int chunks = Config::K / width, step = 32 * unroll * Config::split, warps = Config::threads / 32;
  constexpr int groups = warps / Config::split;
  static_assert(Config::K % width == 0 && warps % Config::split == 0);
  __shared__ float partials[warps][M][outputs];

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / Config::split;
  const Index batch = blockIdx.y, first = (Index(blockIdx.x) * groups + group) * ofProduct;
  const W *weights[outputs];
  const T *inputs[M];
#pragma unroll
  for (int i = 0; i < outputs; ++i) { // Past the end, the last column again.
    const Index n = first + i % ofProduct;
    weights[i] = b.column(i / ofProduct, batch, n < Config::N ? n : Config::N - 1);
  }
#pragma unroll
  for (int m = 0; m < M; ++m)
    inputs[m] = a.row(batch, m);

  // Sixteen bytes stay words until they are used: 16-bit registers would be packed and unpacked again.
  constexpr int words = 4, perWord = 4 / sizeof(T);
  unsigned flying[unroll][outputs][words];
  int chunk = warp % Config::split * 32 + lane;
  auto load = [&](int u, int from) {
#pragma unroll
    for (int i = 0; i < outputs; ++i)
      if (chunks % step == 0 || from < chunks)
        loadStreaming<B::isFixed>(flying[u][i], weights[i] + from * width);
  };
  if (!B::isFixed)
    waitForPredecessor();
#pragma unroll
  for (int u = 0; u < unroll; ++u)
    load(u, chunk + u * 32 * Config::split);
  if (B::isFixed) {
    fetchAhead<Config>(b);
    waitForPredecessor();
  }
  a.prepare(batch);
  mark(Moment::hasTile);

  float accumulators[M][outputs] = {};
#pragma unroll 1
  for (; chunk < chunks; chunk += step)
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      int at = chunk + u * 32 * Config::split;
      if (chunks % step != 0 && at >= chunks)
        break;
      Vector<unsigned, words> x[M];
#pragma unroll
      for (int m = 0; m < M; ++m)
        x[m] = *reinterpret_cast<const Vector<unsigned, words> *>(inputs[m] + A::along(batch, Index(at * width)));
#pragma unroll
      for (int word = 0; word < words; ++word) {
        float w[outputs][perWord];
#pragma unroll
        for (int i = 0; i < outputs; ++i)
          decodeWord(w[i], W{}, flying[u][i][word]);
#pragma unroll
        for (int m = 0; m < M; ++m) {
          float v[perWord];
          decodeWord(v, T{}, x[m][word]);
#pragma unroll
          for (int i = 0; i < outputs; ++i)
#pragma unroll
            for (int j = 0; j < perWord; ++j)
              accumulators[m][i] = fmaf(w[i][j], v[j], accumulators[m][i]);
        }
      }
      if (at + step < chunks)
        load(u, at + step);
    }

  mark(Moment::hasAccumulators);
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int i = 0; i < outputs; ++i) {
      float sum = accumulators[m][i];
#pragma unroll
      for (int mask = 16; mask > 0; mask /= 2)
        sum += shuffleXor(sum, mask);
      if (lane == 0)
        partials[warp][m][i] = sum;
    }
  __syncthreads();
  if (threadIdx.x >= groups * M)
    return;
  const int finished = threadIdx.x / M, m = threadIdx.x % M;
  const Index n = (Index(blockIdx.x) * groups + finished) * ofProduct;
  if (n >= Config::N)
    return;
  int lanes = columnsAt<Config, ofProduct>(n);
  typename Epilogue::Operands x;
  epilogue.load(x, batch, m, n, lanes);
  Vector<float, outputs> acc{};
#pragma unroll
  for (int sharer = 0; sharer < Config::split; ++sharer)
#pragma unroll
    for (int i = 0; i < outputs; ++i)
      acc[i] += partials[finished * Config::split + sharer][m][i];
  epilogue.apply(x, acc, batch, m, n, lanes);
  mark(Moment::ends);
}

} // namespace kfuse
