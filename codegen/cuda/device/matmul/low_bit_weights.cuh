// A product's right operand of integers of 8 or 4 bits: where they lie, with a scale and a zero for each of their
// blocks.
#pragma once

#include <kfuse/low_bits.cuh>

namespace kfuse {

/// One scale for all blocks, by its bits.
template <unsigned bits> struct OneScale {};
template <unsigned bits> __device__ __forceinline__ float decode(OneScale<bits>) { return __uint_as_float(bits); }
template <unsigned bits> __device__ __forceinline__ OneScale<bits> scaleAt(const OneScale<bits> *, unsigned) {
  return {};
}
template <class S> __device__ __forceinline__ S scaleAt(const S *scales, unsigned place) { return scales[place]; }

/// One zero, a code, for all blocks.
template <unsigned zero> struct OneZero {
  template <class W, class T> using Codes = LowBits<W, T>;
  template <class Codes> __device__ __forceinline__ unsigned byteOf(unsigned, unsigned) const { return 0; }
  template <class Codes> static __device__ __forceinline__ unsigned codeIn(unsigned, unsigned) { return zero; }
};
/// Rows of zeros, one for each block, of the weights' own type.
template <int rowBytes> struct StoredZeros {
  template <class W, class T> using Codes = LowBits<W, T>;
  const void *memory;
  template <class Codes> __device__ __forceinline__ unsigned byteOf(unsigned n, unsigned block) const {
    return Codes::byteAt(static_cast<const unsigned char *>(memory) + n * rowBytes, block);
  }
  template <class Codes> static __device__ __forceinline__ unsigned codeIn(unsigned byte, unsigned block) {
    return Codes::codeIn(byte, block);
  }
};

/// Rows of `count` zeros, one for each block, that are floats of type S; differences from them are of type D: S, or
/// float where nothing rounds them.
template <class S, class D, int count> struct FloatZeros {
  template <class W, class T> using Codes = LessFloats<W, T, D>;
  const S *memory;
  template <class> __device__ __forceinline__ unsigned byteOf(unsigned n, unsigned block) const {
    return bitsOf(memory[n * count + block]);
  }
  template <class> static __device__ __forceinline__ unsigned codeIn(unsigned bits, unsigned) {
    return as(D{}, S{}, bits);
  }

private:
  static __device__ __forceinline__ unsigned as(S, S, unsigned bits) { return bits; }
  template <class Half> static __device__ __forceinline__ unsigned as(float, Half, unsigned bits) {
    return __float_as_uint(decode(Half{static_cast<unsigned short>(bits)}));
  }
  template <class Half> static __device__ __forceinline__ unsigned bitsOf(Half zero) { return zero.bits; }
  static __device__ __forceinline__ unsigned bitsOf(float zero) { return __float_as_uint(zero); }
};

/// The right operand: rows of integers along K, and for every `block` of them a scale and a zero.
template <class W, class S, class Zeros, int bytes, int block, int count, bool fixed> struct LowBitWeights {
  using Element = W;
  using Scale = S;
  template <class T> using Codes = typename Zeros::template Codes<W, T>; ///< Makes T of the integers.
  static constexpr int products = 1, rowBytes = bytes;
  static constexpr int blockSize = block, blocksOfRow = count;
  static constexpr bool isFixed = fixed;
  const void *memory;
  const S *scales;
  Zeros zeros;

  template <class Index> __device__ __forceinline__ const unsigned char *column(int, Index, Index n) const {
    return static_cast<const unsigned char *>(memory) + static_cast<long long>(n) * bytes;
  }
  __device__ __forceinline__ S storedScale(int, unsigned n, unsigned k) const {
    return scaleAt(scales, n * count + blockAt(k));
  }
  __device__ __forceinline__ float scale(int product, unsigned n, unsigned k) const {
    return decode(storedScale(product, n, k));
  }
  /// The byte that has the zero of a place, and its code in that byte. Zeros that are floats are their bits in both:
  /// as they lie in memory, and in the type of the difference.
  template <class C> __device__ __forceinline__ unsigned zeroByte(int, unsigned n, unsigned k) const {
    return zeros.template byteOf<C>(n, blockAt(k));
  }
  template <class C> static __device__ __forceinline__ unsigned zeroIn(int, unsigned byte, unsigned k) {
    return Zeros::template codeIn<C>(byte, blockAt(k));
  }
  template <class C> __device__ __forceinline__ unsigned zero(int product, unsigned n, unsigned k) const {
    return zeroIn<C>(product, zeroByte<C>(product, n, k), k);
  }

private:
  static __device__ __forceinline__ unsigned blockAt(unsigned k) { return count == 1 ? 0 : k / block; }
};
/// The right operands of two products.
template <class First, class Second> struct TwoLowBitWeights {
  using Element = typename First::Element;
  using Scale = typename First::Scale;
  template <class T> using Codes = typename First::template Codes<T>;
  static constexpr int products = 2, rowBytes = First::rowBytes;
  static constexpr int blockSize = First::blockSize, blocksOfRow = First::blocksOfRow;
  static constexpr bool isFixed = First::isFixed && Second::isFixed;
  First first;
  Second second;

  template <class Index>
  __device__ __forceinline__ const unsigned char *column(int product, Index batch, Index n) const {
    return product == 0 ? first.column(0, batch, n) : second.column(0, batch, n);
  }
  __device__ __forceinline__ Scale storedScale(int product, unsigned n, unsigned k) const {
    return product == 0 ? first.storedScale(0, n, k) : second.storedScale(0, n, k);
  }
  __device__ __forceinline__ float scale(int product, unsigned n, unsigned k) const {
    return decode(storedScale(product, n, k));
  }
  template <class C> __device__ __forceinline__ unsigned zeroByte(int product, unsigned n, unsigned k) const {
    return product == 0 ? first.template zeroByte<C>(0, n, k) : second.template zeroByte<C>(0, n, k);
  }
  template <class C> static __device__ __forceinline__ unsigned zeroIn(int product, unsigned byte, unsigned k) {
    return product == 0 ? First::template zeroIn<C>(0, byte, k) : Second::template zeroIn<C>(0, byte, k);
  }
  template <class C> __device__ __forceinline__ unsigned zero(int product, unsigned n, unsigned k) const {
    return product == 0 ? first.template zero<C>(0, n, k) : second.template zero<C>(0, n, k);
  }
};

} // namespace kfuse
