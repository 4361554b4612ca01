// Matrix product on tensor cores with asynchronous copies: sm_80 and up.
//
// A block computes a tileM x tileN tile in warpsM x warpsN warp tiles. Tiles of A and B flow through a
// ring of `stages` buffers in shared memory: while the warps multiply from one, the copies of the next
// stages - 1 are under way. Two products of the same A have their tiles of B one behind the other, and a warp
// the same columns of both. Within a buffer, fragments of the next 16 of K load while the tensor
// cores work on these.
#pragma once

#include <kfuse/epilogue.cuh>
#include <kfuse/low_bit_copy.cuh>
#include <kfuse/mma.cuh>

namespace kfuse {

/// The memory of an operand that is laid out as `Place` says.
template <class Place, class T> struct Matrix {
  static constexpr int products = 1;
  static constexpr bool contiguousK = Place::contiguousK, isFixed = Place::isFixed;
  using Element = T;
  using First = Place;
  using Second = Place;
  const T *memory;
  __device__ __forceinline__ const T *of(int) const { return memory; }
};
/// The memory of the right operands of two products.
template <class Place, class Other, class T> struct TwoMatrices {
  static constexpr int products = 2;
  static constexpr bool contiguousK = Place::contiguousK, isFixed = Place::isFixed && Other::isFixed;
  static_assert(Place::contiguousK == Other::contiguousK, "fragments of both load alike");
  using Element = T;
  using First = Place;
  using Second = Other;
  const T *first, *second;
  __device__ __forceinline__ const T *of(int product) const { return product == 0 ? first : second; }
};

/// What copies tiles of a product's right operand.
template <class Config, class B, int product> struct RightCopy {
  using Type = TileCopy<Config, typename B::First, typename B::Element, Config::tileN, Config::N>;
};
template <class Config, class B> struct RightCopy<Config, B, 1> {
  using Type = TileCopy<Config, typename B::Second, typename B::Element, Config::tileN, Config::N>;
};
template <class Config, class Weights> struct RightCopy<Config, LowBitMatrix<Weights>, 0> {
  using Type = LowBitCopy<Config, Weights, 0>;
};
template <class Config, class Weights> struct RightCopy<Config, LowBitMatrix<Weights>, 1> {
  using Type = LowBitCopy<Config, Weights, 1>;
};

template <class Config, class A, class B> struct Gemm {
  using Index = typename Config::Index;
  using T = typename Config::Element;
  static constexpr int products = B::products;
  static constexpr int warpM = Config::tileM / Config::warpsM, warpN = Config::tileN / Config::warpsN;
  static constexpr int countA = warpM / 16, perProduct = warpN / 16, countB = perProduct * products;
  static constexpr int steps = Config::tileK * sizeof(T) / 32; ///< Products of 32 bytes of K.
  static_assert(steps >= 2, "the next fragments load a step ahead");
  using CopyA = TileCopy<Config, typename A::First, typename A::Element, Config::tileM, Config::M>;
  using CopyB = typename RightCopy<Config, B, 0>::Type;
  using CopySecond = typename RightCopy<Config, B, products - 1>::Type;
  static constexpr int stageBytes = CopyA::Tile::bytes + products * CopyB::Tile::bytes;

  const BlockTile<Config> tile;
  const int warp = threadIdx.x / 32, firstM = warp % Config::warpsM * warpM, firstN = warp / Config::warpsM * warpN;
  float accumulators[countA][countB * 2][4] = {};

  __device__ __forceinline__ void multiply(const A &a, const B &b) {
    const CopyA copyA(a.of(0), tile.batch, tile.m);
    CopyB copyB(b.of(0), tile.batch, tile.n);
    CopySecond copySecond(b.of(products - 1), tile.batch, tile.n);
    const Fragments<CopyA, A::contiguousK, true, countA> loadA(firstM);
    const Fragments<CopyB, B::contiguousK, false, perProduct> loadB(firstN);
    const unsigned shared = sharedAddress(dynamicShared());

    auto after = [shared](unsigned stage) {
      return stage + stageBytes < shared + Config::stages * stageBytes ? stage + stageBytes : shared;
    };
    auto startA = [&](unsigned stage, int number) {
      if (number < tile.endK)
        copyA.start(stage, Index(number) * Config::tileK);
    };
    auto startB = [&](unsigned stage, int number) {
      if (number >= tile.endK)
        return;
      copyB.start(stage + CopyA::Tile::bytes, Index(number) * Config::tileK);
      if constexpr (products > 1)
        copySecond.start(stage + CopyA::Tile::bytes + CopyB::Tile::bytes, Index(number) * Config::tileK);
    };
    // Groups of copies are counted: one is committed for each tile, empty behind the last.
    auto start = [&](unsigned stage, int number) {
      startA(stage, number), startB(stage, number);
      commitCopies();
    };
    unsigned fragmentsA[2][countA][4], fragmentsB[2][countB][4];
    auto load = [&](int buffer, unsigned stage, int step) {
      loadA.load(fragmentsA[buffer], stage, step * 16);
      loadB.load(&fragmentsB[buffer][0], stage + CopyA::Tile::bytes, step * 16);
      if constexpr (products > 1)
        loadB.load(&fragmentsB[buffer][perProduct], stage + CopyA::Tile::bytes + CopyB::Tile::bytes, step * 16);
    };

    // Weights may come before the kernel ahead has ended. They count to the first group.
#pragma unroll
    for (int i = 0; i < Config::stages - 1; ++i)
      if (B::isFixed)
        startB(shared + i * stageBytes, tile.firstK + i);
    waitForPredecessor();
#pragma unroll
    for (int i = 0; i < Config::stages - 1; ++i) {
      startA(shared + i * stageBytes, tile.firstK + i);
      if (!B::isFixed)
        startB(shared + i * stageBytes, tile.firstK + i);
      commitCopies();
    }
    waitCopies<Config::stages - 2>();
    __syncthreads();
    mark(Moment::hasTile);
    unsigned reading = shared, writing = shared + (Config::stages - 1) * stageBytes;
    load(0, reading, 0);
#pragma unroll 1
    for (int number = tile.firstK; number < tile.endK; ++number) {
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        if (step == steps - 1) { // All have read this tile; the next one is there.
          waitCopies<Config::stages - 2>();
          __syncthreads();
          reading = after(reading);
        }
        load((step + 1) % 2, reading, (step + 1) % steps);
        if (step == 0) { // Into the buffer of the tile before this one.
          start(writing, number + Config::stages - 1);
          writing = after(writing);
        }
        multiplyStep(fragmentsA[step % 2], fragmentsB[step % 2]);
      }
    }
    waitCopies<0>();
    __syncthreads();
  }

  /// Hands the accumulators to the epilogue, `vector` neighbouring columns at a time, through shared memory:
  /// each warp writes its tile and reads it back row by row.
  template <class Epilogue> __device__ __forceinline__ void finish(const Epilogue &epilogue) const {
    constexpr int passes = warpM * warpN / vector / 32, inFlight = passes < 4 ? passes : 4;
    static_assert(warpM * warpN / vector % 32 == 0 && passes % inFlight == 0);
    float *staged = reinterpret_cast<float *>(dynamicShared()) + warp * (warpM * pitch);
    stage(staged);
    __syncwarp();
#pragma unroll 1
    for (int first = 0; first < passes; first += inFlight) {
      typename Epilogue::Operands x[inFlight];
#pragma unroll
      for (int u = 0; u < inFlight; ++u)
        if (Place at = place<Epilogue>(first + u); at.exists)
          epilogue.load(x[u], tile.batch, at.m, at.n, columnsAt<Config, vector>(at.n));
#pragma unroll
      for (int u = 0; u < inFlight; ++u)
        if (Place at = place<Epilogue>(first + u); at.exists) {
          constexpr int aligned = vector < 4 ? vector : 4;
          Vector<float, vector * products> acc;
#pragma unroll
          for (int i = 0; i < products; ++i) {
            Vector<float, vector> part = loadVector<vector, aligned>(staged + at.offset + i * warpN);
#pragma unroll
            for (int j = 0; j < vector; ++j)
              acc[i * vector + j] = part[j];
          }
          epilogue.apply(x[u], acc, tile.batch, at.m, at.n, columnsAt<Config, vector>(at.n));
        }
    }
  }

private:
  static constexpr int vector = Config::epilogueVector, pitch = products * warpN + 8; // 8 more: no bank conflicts.

  /// The columns that this lane finishes in a pass: where they are staged, and which they are.
  struct Place {
    int offset;
    Index m, n;
    bool exists;
  };
  template <class Epilogue> __device__ __forceinline__ Place place(int pass) const {
    const ChunkOf<Epilogue, warpM, warpN / vector> at(pass * 32 + threadIdx.x % 32);
    const int column = at.chunk * vector;
    Index m = tile.m + firstM + at.row, n = tile.n + firstN + column;
    return {at.row * pitch + column, m, n, m < Config::M && n < Config::N};
  }

  /// A lane holds two neighbours of rows lane / 4 and lane / 4 + 8 of each 16 x 8 product.
  __device__ __forceinline__ void stage(float *staged) const {
    float *to = staged + threadIdx.x % 32 / 4 * pitch + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < countA; ++i)
#pragma unroll
      for (int j = 0; j < countB * 2; ++j) {
        *reinterpret_cast<Vector<float, 2> *>(to + i * 16 * pitch + j * 8) = {accumulators[i][j][0],
                                                                              accumulators[i][j][1]};
        *reinterpret_cast<Vector<float, 2> *>(to + (i * 16 + 8) * pitch + j * 8) = {accumulators[i][j][2],
                                                                                    accumulators[i][j][3]};
      }
  }

  __device__ __forceinline__ void multiplyStep(const unsigned (&a)[countA][4], const unsigned (&b)[countB][4]) {
#pragma unroll
    for (int i = 0; i < countA; ++i)
#pragma unroll
      for (int j = 0; j < countB * 2; ++j)
        multiplyAdd(T{}, accumulators[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
  }
};

/// One tile of the product, through the epilogue.
template <class Config, class A, class B, class Epilogue>
__device__ __forceinline__ void gemm(const A &a, const B &b, const Epilogue &epilogue) {
  mark(Moment::starts);
  Gemm<Config, A, B> product;
  product.multiply(a, b);
  mark(Moment::hasAccumulators);
  product.finish(epilogue);
  mark(Moment::ends);
}

} // namespace kfuse
