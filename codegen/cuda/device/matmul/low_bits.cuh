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
/// elements are paired alike; or, where they come in their own order, neighbours of eight.
template <class T, bool isSigned> struct Nibbles {
  static constexpr int elements = 32, wordsOfEight = 1;
  static constexpr unsigned flip = isSigned ? 8 : 0;

  /// What widened() adds to take off a zero.
  static __device__ __forceinline__ unsigned minus(unsigned zero) {
    return (PairBits<T>::base | 0x80008000u) + zero * 0x10001u;
  }
  /// The integers in the lowest bits of both halves, as floats less a zero.
  static __device__ __forceinline__ unsigned widened(unsigned bits, unsigned minusZero) {
    const unsigned codes = maskedXor(bits, 0x000f000f, PairBits<T>::base | flip * 0x10001u);
    return scaledPair(T{}, codes, PairBits<T>::one, minusZero);
  }
  static __device__ __forceinline__ void widen(unsigned (&pairs)[16], const unsigned (&words)[4], unsigned zero) {
    const unsigned minusZero = minus(zero);
#pragma unroll
    for (int i = 0; i < 16; ++i)
      pairs[i] = widened(words[i / 4] >> i % 4 * 4, minusZero);
  }
  /// Eight elements of the left operand, as widen() pairs theirs.
  static __device__ __forceinline__ void pair(unsigned *pairs, const unsigned (&words)[4]) {
    pairs[0] = halves(words[0], 0, words[2], 0), pairs[1] = halves(words[0], 1, words[2], 1);
    pairs[2] = halves(words[1], 0, words[3], 0), pairs[3] = halves(words[1], 1, words[3], 1);
  }

  /// What neighbours() takes to give elements 2 `pair` and the next of eight.
  static __device__ __forceinline__ unsigned chosen(unsigned pair) { return pair | (pair + 4) << 8; }
  /// Two neighbours of eight, for widened().
  static __device__ __forceinline__ unsigned neighbours(const unsigned *words, unsigned chosen) {
    return chosenBytes(words[0], words[0] >> 4, chosen);
  }

  /// The byte that has the integer at `place` of a row, and its code there.
  static __device__ __forceinline__ unsigned byteAt(const unsigned char *row, unsigned place) { return row[place / 2]; }
  static __device__ __forceinline__ unsigned codeIn(unsigned byte, unsigned place) {
    return (byte >> place % 2 * 4 & 15u) ^ flip;
  }
};

/// The sixteen integers of 8 bits in sixteen bytes. Pair i of a word is its integers i and i + 2, or neighbours.
template <class T, bool isSigned> struct Bytes {
  static constexpr int elements = 16, wordsOfEight = 2;
  static constexpr unsigned flip = isSigned ? 0x80 : 0;

  static __device__ __forceinline__ unsigned minus(unsigned zero) { return minus(T{}, zero); }
  static __device__ __forceinline__ unsigned widened(unsigned bytes, unsigned minusZero) {
    return widened(T{}, bytes, minusZero);
  }
  static __device__ __forceinline__ void widen(unsigned (&pairs)[8], const unsigned (&words)[4], unsigned zero) {
    const unsigned minusZero = minus(zero);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      pairs[i] = widened(words[i / 2] >> i % 2 * 8, minusZero);
  }
  static __device__ __forceinline__ void pair(unsigned *pairs, const unsigned (&words)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i += 2)
      pairs[i] = halves(words[i], 0, words[i + 1], 0), pairs[i + 1] = halves(words[i], 1, words[i + 1], 1);
  }

  static __device__ __forceinline__ unsigned chosen(unsigned pair) { return 2 * pair | (2 * pair + 1) << 8; }
  static __device__ __forceinline__ unsigned neighbours(const unsigned *words, unsigned chosen) {
    return chosenBytes(words[0], words[1], chosen);
  }

  static __device__ __forceinline__ unsigned byteAt(const unsigned char *row, unsigned place) { return row[place]; }
  static __device__ __forceinline__ unsigned codeIn(unsigned byte, unsigned) { return byte ^ flip; }

private:
  static __device__ __forceinline__ unsigned minus(f16, unsigned zero) {
    return (PairBits<f16>::base | 0x80008000u) + zero * 0x10001u;
  }
  static __device__ __forceinline__ unsigned widened(f16, unsigned bytes, unsigned minusZero) {
    const unsigned codes = maskedXor(bytes, 0x00ff00ff, PairBits<f16>::base | flip * 0x10001u);
    return scaledPair(f16{}, codes, PairBits<f16>::one, minusZero);
  }
  /// A bf16 does not hold 128 and all of a code. It holds 128 and its lower 7 bits, and the 128 or, of codes below 128,
  /// 256 that are to be taken off to leave code - 128: the bit that a signed integer has as its highest makes one the
  /// other.
  static __device__ __forceinline__ unsigned minus(bf16, unsigned zero) {
    const float offset = 128.0f - static_cast<float>(zero);
    return packBf16(offset, offset);
  }
  static __device__ __forceinline__ unsigned widened(bf16, unsigned bytes, unsigned minusZero) {
    constexpr unsigned high = isSigned ? 0xc300c300 : 0xc380c380;
    const unsigned low = maskedXor(bytes, 0x007f007f, PairBits<bf16>::base);
    const unsigned centred = scaledPair(bf16{}, low, PairBits<bf16>::one, maskedXor(bytes, 0x00800080, high));
    return scaledPair(bf16{}, centred, PairBits<bf16>::one, minusZero);
  }
};

template <class W, class T> struct LowBits;
template <class T> struct LowBits<u4, T> : Nibbles<T, false> {};
template <class T> struct LowBits<i4, T> : Nibbles<T, true> {};
template <class T> struct LowBits<u8, T> : Bytes<T, false> {};
template <class T> struct LowBits<i8, T> : Bytes<T, true> {};

/// The same scale for all blocks, by its bits.
template <unsigned bits> struct OneScale {};
template <unsigned bits> __device__ __forceinline__ float decode(OneScale<bits>) { return __uint_as_float(bits); }
template <unsigned bits> __device__ __forceinline__ OneScale<bits> scaleAt(const OneScale<bits> *, unsigned) {
  return {};
}
template <class S> __device__ __forceinline__ S scaleAt(const S *scales, unsigned place) { return scales[place]; }

/// Integers less zeros that are floats of type S, given by their bits: the difference, which may be no whole number, is
/// rounded.
template <class Integers, class T, class S> struct LessFloats : Integers {
  static __device__ __forceinline__ unsigned minus(unsigned bits) {
    const float zero = floatOf(S{}, bits);
    return wordOf(T{}, -zero, -zero);
  }
  static __device__ __forceinline__ unsigned widened(unsigned bits, unsigned minusZero) {
    return scaledPair(T{}, Integers::widened(bits, Integers::minus(Integers::flip)), PairBits<T>::one, minusZero);
  }
  template <int count>
  static __device__ __forceinline__ void widen(unsigned (&pairs)[count], const unsigned (&words)[4], unsigned bits) {
    const unsigned minusZero = minus(bits);
    Integers::widen(pairs, words, Integers::flip);
#pragma unroll
    for (int i = 0; i < count; ++i)
      pairs[i] = scaledPair(T{}, pairs[i], PairBits<T>::one, minusZero);
  }

private:
  template <class Half> static __device__ __forceinline__ float floatOf(Half, unsigned bits) {
    return decode(Half{static_cast<unsigned short>(bits)});
  }
  static __device__ __forceinline__ float floatOf(float, unsigned bits) { return __uint_as_float(bits); }
};

/// The same zero, a code, for all blocks.
template <unsigned zero> struct OneZero {
  template <class Integers, class> using Codes = Integers;
  template <class Codes> __device__ __forceinline__ unsigned byteOf(unsigned, unsigned) const { return 0; }
  template <class Codes> static __device__ __forceinline__ unsigned codeIn(unsigned, unsigned) { return zero; }
};
/// Rows of zeros, a block's each, of the weights' own type.
template <int rowBytes> struct StoredZeros {
  template <class Integers, class> using Codes = Integers;
  const void *memory;
  template <class Codes> __device__ __forceinline__ unsigned byteOf(unsigned n, unsigned block) const {
    return Codes::byteAt(static_cast<const unsigned char *>(memory) + n * rowBytes, block);
  }
  template <class Codes> static __device__ __forceinline__ unsigned codeIn(unsigned byte, unsigned block) {
    return Codes::codeIn(byte, block);
  }
};

/// Rows of `count` zeros, a block's each, that are floats of type S.
template <class S, int count> struct FloatZeros {
  template <class Integers, class T> using Codes = LessFloats<Integers, T, S>;
  const S *memory;
  template <class> __device__ __forceinline__ unsigned byteOf(unsigned n, unsigned block) const {
    return bitsOf(memory[n * count + block]);
  }
  template <class> static __device__ __forceinline__ unsigned codeIn(unsigned bits, unsigned) { return bits; }

private:
  template <class Half> static __device__ __forceinline__ unsigned bitsOf(Half zero) { return zero.bits; }
  static __device__ __forceinline__ unsigned bitsOf(float zero) { return __float_as_uint(zero); }
};

/// The right operand: rows of integers along K, and for every `block` of them a scale and a zero.
template <class W, class S, class Zeros, int bytes, int block, int count, bool fixed> struct LowBitWeights {
  using Element = W;
  using Scale = S;
  template <class T> using Codes = typename Zeros::template Codes<LowBits<W, T>, T>; ///< As tensor cores multiply T.
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
  /// The byte that has the zero of a place, and its code there; of zeros that are floats the bits.
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
