// Matrix products of few rows whose weights are integers of 4 or 8 bits: these stream through shared memory once, at
// the rate of HBM, and become floats in registers.
//
// The schedule is that of gemm_stream.cuh. A lane's sixteen bytes of weights are 32 or 16 elements of K, and a K block
// is the four lanes' sixteen bytes: 64 bytes of a column. Where blocks of one scale hold whole K blocks, a K block's
// sums are scaled, in f32: 2 x 4 multiplications a lane instead of 64. Smaller ones hold a lane's elements, which are
// scaled.
//
// Weights in flight lie in shared memory, where each lane copies its own sixteen bytes and nobody waits for another.
// In registers there was room for one K block of 32 columns beside 16 rows; two take 15.3 us instead of 16.6 for 8192 x
// 8192, and for one row 11.6 instead of 11.9 (H200, driver 580.159.04). Scales and zeros are kept as they lie in
// memory: a scale that becomes a float where it is asked for is waited for there, which leaves one K block in flight.
// The left operand comes from caches, and is asked for one K block ahead, so its registers are few.
//
// Beside 4-bit weights a lane has 64 bytes of a row of the left operand for a K block. Were its four loads the first
// sixteen bytes for every lane, then the second, a load would touch two of the L1's eight banks of sixteen bytes. So
// the upper two of four lanes take the second before the first, and their weights' words likewise: four banks, and at
// 16 rows of 8192 x 8192 7 % less time on an H100.
#pragma once

#include <kfuse/gemm_stream.cuh>
#include <kfuse/low_bit_weights.cuh>

namespace kfuse {

template <class Config, class A, class B> struct GemmLowBits {
  using Index = typename Config::Index;
  using T = typename A::Element;
  using Codes = typename B::template Codes<T>;
  static constexpr int panels = Config::panels * B::products, width = 16 * Config::panels; ///< Columns of a product.
  static constexpr int eights = (Config::M + 7) / 8; ///< Groups of eight rows, as an instruction takes them.
  static constexpr int elements = Codes::elements, kBlock = 4 * elements, pairs = elements / 2, pieces = elements / 8;
  static constexpr int kBlocks = (Config::K + kBlock - 1) / kBlock, turn = Config::unroll * Config::split;
  static constexpr int pitch = 16 * panels + 4, partialSize = eights * 8 * pitch; ///< No bank conflicts.
  static constexpr bool scalesSums = B::blockSize % kBlock == 0;
  static constexpr bool permutesPieces = pieces == 4 && eights > 1; ///< Fewer rows leave the banks time.
  static constexpr int lines = Config::unroll * panels * 2, ringBytes = Config::split * lines * 32 * 16;
  static constexpr int inputSlots = 1;
  static constexpr bool asksAhead = true;
  static_assert(sizeof(T) == 2 && Config::K % elements == 0 && B::blockSize % elements == 0);

  const B &b;
  const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, inGroup = threadIdx.x % 4;
  const Index batch = blockIdx.y, first = Index(blockIdx.x) * width;
  const T *inputs[eights];
  const unsigned ring = sharedAddress(dynamicShared()) + (warp * lines * 32 + threadIdx.x % 32) * 16;
  unsigned x[eights][pieces][4];                       ///< The left operand of the next K block, on its way.
  typename B::Scale scales[Config::unroll][panels][2]; ///< Each K block in flight has its own, and zeros.
  unsigned zeroBytes[Config::unroll][panels][2];
  float accumulators[panels][eights][4] = {};

  __device__ __forceinline__ GemmLowBits(const A &a, const B &b) : b(b) {
#pragma unroll
    for (int i = 0; i < eights; ++i) // Past the edge, the last row again.
      inputs[i] = a.row(batch, i * 8 + group < Config::M ? i * 8 + group : Config::M - 1);
  }

  __device__ __forceinline__ void loadWeights(int slot, int at) {
    const unsigned k = at * kBlock + inGroup * elements;
    const bool exists = Config::K % kBlock == 0 || k < Config::K;
#pragma unroll
    for (int i = 0; i < panels; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Index n = columnOf(i, half);
        const int product = i / Config::panels;
        if (exists) {
          copyAsync<16>(inRing(slot, i, half), b.column(product, batch, n) + at * 64 + inGroup * 16, 16);
          scales[slot][i][half] = b.storedScale(product, n, k);
          zeroBytes[slot][i][half] = b.template zeroByte<Codes>(product, n, k);
        } else { // What lies past K is multiplied by 0, whichever integers the ring has there.
          scales[slot][i][half] = {}, zeroBytes[slot][i][half] = 0;
        }
      }
    commitCopies();
  }
  __device__ __forceinline__ void loadInputs(int, int at) {
    const int k = at * kBlock + inGroup * elements;
    const bool exists = Config::K % kBlock == 0 || k < Config::K;
#pragma unroll
    for (int i = 0; i < eights; ++i)
#pragma unroll
      for (int piece = 0; piece < pieces; ++piece) {
        Vector<unsigned, 4> words{};
        if (exists)
          words = *reinterpret_cast<const Vector<unsigned, 4> *>(inputs[i] +
                                                                 A::along(batch, Index(k + placeOf(piece) * 8)));
#pragma unroll
        for (int j = 0; j < 4; ++j)
          x[i][piece][j] = words[j];
      }
  }

  /// Multiplies K block `at`, and asks for the left operand of `next`.
  __device__ __forceinline__ void multiply(int slot, int at, int next) {
    const unsigned k = at * kBlock + inGroup * elements;
    unsigned right[eights][pairs];
#pragma unroll
    for (int i = 0; i < eights; ++i)
#pragma unroll
      for (int piece = 0; piece < pieces; ++piece)
        Codes::pair(&right[i][piece * 4], x[i][piece]);
    if (next < kBlocks)
      loadInputs(0, next);
    if (at + (Config::unroll - 1) * Config::split < kBlocks)
      waitCopies<Config::unroll - 1>();
    else // Fewer were asked for.
      waitCopies<0>();
#pragma unroll
    for (int i = 0; i < panels; ++i) {
      unsigned left[2][pairs];
      float scale[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned zero = b.template zeroIn<Codes>(i / Config::panels, zeroBytes[slot][i][half], k);
        unsigned loaded[4], words[4];
        loadShared(loaded, inRing(slot, i, half));
#pragma unroll
        for (int j = 0; j < 4; ++j)
          words[j] = permutesPieces && inGroup / 2 ? loaded[j ^ 1] : loaded[j];
        Codes::widen(left[half], words, zero);
        scale[half] = decode(scales[slot][i][half]);
        if constexpr (!scalesSums) {
          const unsigned both = wordOf(T{}, scale[half], scale[half]);
#pragma unroll
          for (int j = 0; j < pairs; ++j)
            left[half][j] = scaledPair(T{}, left[half][j], both, 0);
        }
      }
      float sums[eights][4] = {};
#pragma unroll
      for (int word = 0; word < pairs; word += 2) {
        const unsigned fragment[4] = {left[0][word], left[1][word], left[0][word + 1], left[1][word + 1]};
#pragma unroll
        for (int j = 0; j < eights; ++j)
          multiplyAdd(T{}, scalesSums ? sums[j] : accumulators[i][j], fragment, right[j][word], right[j][word + 1]);
      }
      if constexpr (scalesSums)
#pragma unroll
        for (int j = 0; j < eights; ++j)
#pragma unroll
          for (int c = 0; c < 4; ++c) // Two neighbours of column `group`, and of the one eight on.
            accumulators[i][j][c] = fmaf(scale[c / 2], sums[j][c], accumulators[i][j][c]);
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
  /// The lane's sixteen bytes of a K block in flight.
  __device__ __forceinline__ unsigned inRing(int slot, int panel, int half) const {
    return ring + ((slot * panels + panel) * 2 + half) * 512;
  }
  /// Which of the lane's pieces of K comes at place `piece`.
  __device__ __forceinline__ int placeOf(int piece) const { return permutesPieces ? piece ^ inGroup / 2 : piece; }

  /// Past the edge, the last column again.
  __device__ __forceinline__ Index columnOf(int panel, int half) const {
    const Index n = first + panel % Config::panels * 16 + half * 8 + group;
    return n < Config::N ? n : Config::N - 1;
  }
};

template <class Config, class A, class B, class Epilogue>
__device__ __forceinline__ void gemmLowBits(const A &a, const B &b, const Epilogue &epilogue) {
  streamProduct<Config, GemmLowBits<Config, A, B>>(a, b, B::rowBytes, epilogue);
}

} // namespace kfuse
