// Matrix products of few rows on tensor cores: the weights stream through registers once, at the rate of HBM.
//
// A block has `Config::panels` times sixteen columns of the result, and its warps take every Config::split-th K block
// of 128 bytes. The order of a sum's terms is free: lane t of four takes sixteen neighbouring bytes of both operands
// where the instruction's layout names words that lie apart, so that what a lane loads from memory is a fragment as it
// is. Each keeps `Config::unroll` K blocks in flight; the warps' partial sums are added in shared memory, always in the
// same order. Two products of the same left operand have panels of their own.
#pragma once

#include <kfuse/epilogue.cuh>
#include <kfuse/mma.cuh>
#include <kfuse/streamed.cuh>

namespace kfuse {

/// What tensor cores multiply for operands of type T: 8-bit floats become f16, which holds every one of them.
template <class T> struct Multiplied {
  using Type = T;
  static constexpr int words = 4; ///< The words of sixteen bytes of T.
  static __device__ __forceinline__ void convert(unsigned (&to)[words], const unsigned (&from)[4]) {
#pragma unroll
    for (int i = 0; i < words; ++i)
      to[i] = from[i];
  }
};
template <class F8> struct MultipliedAsHalf {
  using Type = f16;
  static constexpr int words = 8;
  static __device__ __forceinline__ void convert(unsigned (&to)[words], const unsigned (&from)[4]) {
#pragma unroll
    for (int i = 0; i < words; ++i)
      to[i] = widened(F8{}, static_cast<unsigned short>(from[i / 2] >> i % 2 * 16));
  }
};
template <> struct Multiplied<f8e4m3> : MultipliedAsHalf<f8e4m3> {};
template <> struct Multiplied<f8e5m2> : MultipliedAsHalf<f8e5m2> {};

/// Four accumulators: of rows `to` and the one `pitch` on, and of the columns eight on.
__device__ __forceinline__ void stageAccumulators(float *to, int pitch, const float (&accumulators)[4]) {
  to[0] = accumulators[0], to[pitch] = accumulators[1], to[8] = accumulators[2], to[pitch + 8] = accumulators[3];
}

template <class Config, class A, class B> struct GemmStream {
  using Index = typename Config::Index;
  using T = typename A::Element;
  using W = typename B::Element;
  static constexpr int panels = Config::panels * B::products, width = 16 * Config::panels; ///< Columns of a product.
  static constexpr int eights = (Config::M + 7) / 8; ///< Groups of eight rows, as an instruction takes them.
  static constexpr int access = 16 / sizeof(T), piece = 4 * access, kBlock = 2 * piece; ///< Elements of K.
  static constexpr int kBlocks = (Config::K + kBlock - 1) / kBlock, turn = Config::unroll * Config::split;
  static constexpr int pitch = 16 * panels + 4, partialSize = eights * 8 * pitch; ///< No bank conflicts.
  static constexpr int ringBytes = 0;               ///< Shared memory that K blocks in flight take.
  static constexpr int inputSlots = Config::unroll; ///< K blocks of the left operand in flight.
  static constexpr bool asksAhead = false;          ///< Whether multiply() asks for the next of them.
  static_assert(sizeof(T) == sizeof(W) && Config::K % access == 0 && Config::threads == Config::split * 32);

  const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, inGroup = threadIdx.x % 4;
  const Index batch = blockIdx.y, first = Index(blockIdx.x) * width;
  const W *weights[panels][2];
  const T *inputs[eights];
  unsigned w[Config::unroll][panels][2][2][4], x[Config::unroll][eights][2][4]; ///< In flight: [K block][...][piece].
  float accumulators[panels][eights][4] = {};

  /// Past the edges, the last column or row again.
  __device__ __forceinline__ GemmStream(const A &a, const B &b) {
#pragma unroll
    for (int i = 0; i < panels; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Index n = first + i % Config::panels * 16 + half * 8 + group;
        weights[i][half] = b.column(i / Config::panels, batch, n < Config::N ? n : Config::N - 1) + inGroup * access;
      }
#pragma unroll
    for (int i = 0; i < eights; ++i)
      inputs[i] = a.row(batch, i * 8 + group < Config::M ? i * 8 + group : Config::M - 1);
  }

  __device__ __forceinline__ void loadWeights(int slot, int at) {
    forEachPiece(at, [&](int piece, int k, bool exists) {
#pragma unroll
      for (int i = 0; i < panels; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (exists)
            loadStreaming<B::isFixed>(w[slot][i][half][piece], weights[i][half] + k);
          else
            clear(w[slot][i][half][piece]);
    });
  }
  __device__ __forceinline__ void loadInputs(int slot, int at) {
    forEachPiece(at, [&](int piece, int k, bool exists) {
#pragma unroll
      for (int i = 0; i < eights; ++i)
        if (exists)
          load(x[slot][i][piece], inputs[i] + A::along(batch, Index(k + inGroup * access)));
        else
          clear(x[slot][i][piece]);
    });
  }

  __device__ __forceinline__ void multiply(int slot, int, int) {
    constexpr int words = Multiplied<W>::words;
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      unsigned b[eights][words];
#pragma unroll
      for (int i = 0; i < eights; ++i)
        Multiplied<T>::convert(b[i], x[slot][i][piece]);
#pragma unroll
      for (int i = 0; i < panels; ++i) {
        unsigned a[2][words];
#pragma unroll
        for (int half = 0; half < 2; ++half)
          Multiplied<W>::convert(a[half], w[slot][i][half][piece]);
#pragma unroll
        for (int word = 0; word < words; word += 2) {
          const unsigned fragment[4] = {a[0][word], a[1][word], a[0][word + 1], a[1][word + 1]};
#pragma unroll
          for (int j = 0; j < eights; ++j)
            multiplyAdd(typename Multiplied<W>::Type{}, accumulators[i][j], fragment, b[j][word], b[j][word + 1]);
        }
      }
    }
  }

  /// To shared memory, as [warp][m][n], a product's columns behind the other's.
  __device__ __forceinline__ void stage(float *partials) const {
#pragma unroll
    for (int i = 0; i < panels; ++i)
#pragma unroll
      for (int j = 0; j < eights; ++j)
        stageAccumulators(partials + warp * partialSize + (j * 8 + inGroup * 2) * pitch + i * 16 + group, pitch,
                          accumulators[i][j]);
  }

private:
  template <class Body> __device__ __forceinline__ void forEachPiece(int at, Body body) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int k = at * kBlock + i * piece;
      body(i, k, Config::K % kBlock == 0 || k + inGroup * access < Config::K);
    }
  }
  static __device__ __forceinline__ void load(unsigned (&to)[4], const T *from) {
    const Vector<unsigned, 4> words = *reinterpret_cast<const Vector<unsigned, 4> *>(from);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to[i] = words[i];
  }
  static __device__ __forceinline__ void clear(unsigned (&to)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      to[i] = 0;
  }
};

/// Some neighbouring columns of one row, that a thread finishes.
template <class Config> struct StreamedChunk {
  using Index = typename Config::Index;
  static constexpr int vector = Config::epilogueVector, width = 16 * Config::panels, ofRow = width / vector;
  static constexpr int count = Config::M * ofRow;
  int m, inBlock;
  Index n;
  int lanes;
  bool exists;

  __device__ __forceinline__ explicit StreamedChunk(int number)
      : m(number / ofRow), inBlock(number % ofRow * vector), n(Index(blockIdx.x) * width + inBlock),
        lanes(columnsAt<Config, vector>(n)), exists(number < count && n < Config::N) {}
};

/// The whole of it, with a Kernel that loads and multiplies K blocks; a column of weights takes `columnBytes`.
template <class Config, class Kernel, class B, class A, class Epilogue>
__device__ __forceinline__ void streamProduct(const A &a, const B &b, unsigned columnBytes, const Epilogue &epilogue) {
  mark(Moment::starts);
  using Chunk = StreamedChunk<Config>;
  constexpr int unroll = Config::unroll, split = Config::split, vector = Chunk::vector;
  Kernel kernel(a, b);
  if (!B::isFixed)
    waitForPredecessor();
#pragma unroll
  for (int u = 0; u < unroll; ++u)
    if (const int at = kernel.warp + u * split; at < Kernel::kBlocks)
      kernel.loadWeights(u, at);
  if (B::isFixed) {
    fetchAhead<Config>(b, columnBytes);
    waitForPredecessor();
  }
#pragma unroll
  for (int u = 0; u < Kernel::inputSlots; ++u)
    if (const int at = kernel.warp + u * split; at < Kernel::kBlocks)
      kernel.loadInputs(u, at);
  typename Epilogue::Operands x;
  if (const Chunk chunk(threadIdx.x); chunk.exists)
    epilogue.load(x, kernel.batch, chunk.m, chunk.n, chunk.lanes);
  mark(Moment::hasTile); // Asked for.

#pragma unroll 1
  for (int from = kernel.warp; from < Kernel::kBlocks; from += Kernel::turn)
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const int at = from + u * split;
      if (Kernel::kBlocks % Kernel::turn != 0 && at >= Kernel::kBlocks)
        break;
      kernel.multiply(u, at, at + split);
      if (at + Kernel::turn < Kernel::kBlocks) {
        kernel.loadWeights(u, at + Kernel::turn);
        if constexpr (!Kernel::asksAhead)
          kernel.loadInputs(u, at + Kernel::turn);
      }
    }

  mark(Moment::hasAccumulators);
  float *partials = reinterpret_cast<float *>(dynamicShared() + Kernel::ringBytes);
  kernel.stage(partials);
  __syncthreads();
#pragma unroll 1
  for (int number = threadIdx.x; number < Chunk::count; number += Config::threads) {
    const Chunk chunk(number);
    if (!chunk.exists)
      continue;
    if (number >= Config::threads)
      epilogue.load(x, kernel.batch, chunk.m, chunk.n, chunk.lanes);
    Vector<float, vector * B::products> acc{};
#pragma unroll
    for (int warp = 0; warp < split; ++warp)
#pragma unroll
      for (int product = 0; product < B::products; ++product) {
        const Vector<float, vector> accumulators = *reinterpret_cast<const Vector<float, vector> *>(
            partials + warp * Kernel::partialSize + chunk.m * Kernel::pitch + product * Chunk::width + chunk.inBlock);
#pragma unroll
        for (int j = 0; j < vector; ++j)
          acc[product * vector + j] += accumulators[j];
      }
    epilogue.apply(x, acc, kernel.batch, chunk.m, chunk.n, chunk.lanes);
  }
  mark(Moment::ends);
}

template <class Config, class A, class B, class Epilogue>
__device__ __forceinline__ void gemmStream(const A &a, const B &b, const Epilogue &epilogue) {
  streamProduct<Config, GemmStream<Config, A, B>>(a, b, Config::K * sizeof(typename B::Element), epilogue);
}

} // namespace kfuse
