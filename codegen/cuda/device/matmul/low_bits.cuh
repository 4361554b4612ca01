// Integers of 8 and 4 bits from memory as the pairs of f16 or bf16 that tensor cores multiply.
//
// Signed integers are taken as unsigned codes, their highest bit flipped, and so are their zeros: what is left is
// code - zero, of which every one is exact. A code becomes a float by an or with the bits of a power of two.
#pragma once

#include <kfuse/types.cuh>

namespace kfuse {

struct u4 {};
struct i4 {};
using u8 = unsigned char;
using i8 = signed char;

__device__ __forceinline__ unsigned scaledPair(bf16, unsigned a, unsigned scale, unsigned add) {
  return fmaBf16x2(a, scale, add);
}
__device__ __forceinline__ unsigned scaledPair(f16, unsigned a, unsigned scale, unsigned add) {
  return fmaF16x2(a, scale, add);
}

/// The bits of 1, and of the power of two whose last bits are a code, in both halves of a word.
template <class T> struct PairBits;
template <> struct PairBits<bf16> {
  static constexpr unsigned one = 0x3f803f80, base = 0x43004300; // 128
};
template <> struct PairBits<f16> {
  static constexpr unsigned one = 0x3c003c00, base = 0x64006400; // 1024
};

/// The 32 integers of 4 bits in sixteen bytes. Pair i of a word is its integers i and i + 4, so the left operand's
/// elements are paired alike.
template <class T, bool isSigned> struct Nibbles {
  static constexpr int elements = 32;
  static constexpr unsigned flip = isSigned ? 8 : 0;

  static __device__ __forceinline__ void widen(unsigned (&pairs)[16], const unsigned (&words)[4], unsigned zero) {
    const unsigned minusZero = (PairBits<T>::base | 0x80008000u) + zero * 0x10001u;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const unsigned codes = maskedXor(words[i / 4] >> i % 4 * 4, 0x000f000f, PairBits<T>::base | flip * 0x10001u);
      pairs[i] = scaledPair(T{}, codes, PairBits<T>::one, minusZero);
    }
  }
  /// Eight elements of the left operand, as widen() pairs theirs.
  static __device__ __forceinline__ void pair(unsigned *pairs, const unsigned (&words)[4]) {
    pairs[0] = halves(words[0], 0, words[2], 0), pairs[1] = halves(words[0], 1, words[2], 1);
    pairs[2] = halves(words[1], 0, words[3], 0), pairs[3] = halves(words[1], 1, words[3], 1);
  }
  /// The code at `place` of a row of integers.
  static __device__ __forceinline__ unsigned code(const unsigned char *row, unsigned place) {
    return (row[place / 2] >> place % 2 * 4 & 15u) ^ flip;
  }
};

/// The sixteen integers of 8 bits in sixteen bytes. A bf16 does not hold 128 and all of a code: it comes by way of f32.
template <class T, bool isSigned> struct Bytes {
  static constexpr int elements = 16;
  static constexpr unsigned flip = isSigned ? 0x80 : 0;

  static __device__ __forceinline__ void widen(unsigned (&pairs)[8], const unsigned (&words)[4], unsigned zero) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const unsigned word = words[i / 2] >> i % 2 * 16 ^ flip * 0x101u, low = word & 0xffu, high = word >> 8 & 0xffu;
      pairs[i] = pairOf(T{}, low, high, zero);
    }
  }
  static __device__ __forceinline__ void pair(unsigned *pairs, const unsigned (&words)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pairs[i] = words[i];
  }
  static __device__ __forceinline__ unsigned code(const unsigned char *row, unsigned place) {
    return row[place] ^ flip;
  }

private:
  static __device__ __forceinline__ unsigned pairOf(f16, unsigned low, unsigned high, unsigned zero) {
    return scaledPair(f16{}, PairBits<f16>::base | low | high << 16, PairBits<f16>::one,
                      (PairBits<f16>::base | 0x80008000u) + zero * 0x10001u);
  }
  static __device__ __forceinline__ unsigned pairOf(bf16, unsigned low, unsigned high, unsigned zero) {
    constexpr unsigned base = 0x4b000000; // 2^23
    const float minus = __uint_as_float(base + zero);
    return packBf16(__uint_as_float(base | low) - minus, __uint_as_float(base | high) - minus);
  }
};

template <class W, class T> struct LowBits;
template <class T> struct LowBits<u4, T> : Nibbles<T, false> {};
template <class T> struct LowBits<i4, T> : Nibbles<T, true> {};
template <class T> struct LowBits<u8, T> : Bytes<T, false> {};
template <class T> struct LowBits<i8, T> : Bytes<T, true> {};

/// The same zero, a code, for all blocks.
template <unsigned zero> struct OneZero {
  template <class Codes> __device__ __forceinline__ unsigned of(unsigned, unsigned) const { return zero; }
};
/// Rows of zeros, a block's each, of the weights' own type.
template <int rowBytes> struct StoredZeros {
  const unsigned char *memory;
  template <class Codes> __device__ __forceinline__ unsigned of(unsigned n, unsigned block) const {
    return Codes::code(memory + n * rowBytes, block);
  }
};

/// The right operand: rows of integers along K, and for every `block` of them a scale and a zero.
template <class W, class S, class Zeros, int bytes, int block, int count, bool fixed> struct LowBitWeights {
  using Element = W;
  using Scale = S;
  static constexpr int products = 1, rowBytes = bytes, blockSize = block;
  static constexpr bool isFixed = fixed;
  const unsigned char *memory;
  const S *scales;
  Zeros zeros;

  template <class Index> __device__ __forceinline__ const unsigned char *column(int, Index, Index n) const {
    return memory + static_cast<long long>(n) * bytes;
  }
  __device__ __forceinline__ float scale(int, unsigned n, unsigned k) const {
    return decode(scales[n * count + (count == 1 ? 0 : k / block)]);
  }
  template <class Codes> __device__ __forceinline__ unsigned zero(int, unsigned n, unsigned k) const {
    return zeros.template of<Codes>(n, count == 1 ? 0 : k / block);
  }
};
/// The right operands of two products.
template <class First, class Second> struct TwoLowBitWeights {
  using Element = typename First::Element;
  static constexpr int products = 2, rowBytes = First::rowBytes, blockSize = First::blockSize;
  static constexpr bool isFixed = First::isFixed && Second::isFixed;
  First first;
  Second second;

  template <class Index>
  __device__ __forceinline__ const unsigned char *column(int product, Index batch, Index n) const {
    return product == 0 ? first.column(0, batch, n) : second.column(0, batch, n);
  }
  __device__ __forceinline__ float scale(int product, unsigned n, unsigned k) const {
    return product == 0 ? first.scale(0, n, k) : second.scale(0, n, k);
  }
  template <class Codes> __device__ __forceinline__ unsigned zero(int product, unsigned n, unsigned k) const {
    return product == 0 ? first.template zero<Codes>(0, n, k) : second.template zero<Codes>(0, n, k);
  }
};

} // namespace kfuse
