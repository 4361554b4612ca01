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
  /// Pairs eight elements of the left operand in the order in which widen() pairs integers.
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
  /// A bf16 does not hold 128 plus a code of 8 bits. It holds 128 plus the code's lower 7 bits: less 128, or less 256
  /// where the code is below 128, that is code - 128. The code's highest bit chooses between the two.
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

/// Differences from zeros that are floats and come as the bits of a D, in a product by T. They may be no whole numbers:
/// they are rounded to D, as kfuse.dequantize says, and then once more where T is another type.
template <class T, class D> struct FloatDifference {
  using Integers = D; ///< What both halves of a pair are taken from.

  static __device__ __forceinline__ unsigned minus(unsigned bits) {
    const float zero = decode(D{static_cast<unsigned short>(bits)});
    return wordOf(D{}, -zero, -zero);
  }
  static __device__ __forceinline__ unsigned less(unsigned pair, unsigned minusZero) {
    return converted(T{}, D{}, scaledPair(D{}, pair, PairBits<D>::one, minusZero));
  }

private:
  static __device__ __forceinline__ unsigned converted(T, T, unsigned pair) { return pair; }
  template <class From> static __device__ __forceinline__ unsigned converted(T, From, unsigned pair) {
    float values[2];
    decodeWord(values, From{}, pair);
    return wordOf(T{}, values[0], values[1]);
  }
};
/// In f32: rounded once, to T. Were the zero rounded to T, all weights of a block would be off by as much.
template <class T> struct FloatDifference<T, float> {
  using Integers = T;

  static __device__ __forceinline__ unsigned minus(unsigned bits) { return bits ^ 0x80000000u; }
  static __device__ __forceinline__ unsigned less(unsigned pair, unsigned minusZero) {
    float values[2];
    decodeWord(values, T{}, pair);
    return wordOf(T{}, values[0] + __uint_as_float(minusZero), values[1] + __uint_as_float(minusZero));
  }
};

/// Integers W less such zeros.
template <class W, class T, class D> struct LessFloats : LowBits<W, T> {
  using Difference = FloatDifference<T, D>;
  using Integers = LowBits<W, typename Difference::Integers>;

  static __device__ __forceinline__ unsigned minus(unsigned bits) { return Difference::minus(bits); }
  static __device__ __forceinline__ unsigned widened(unsigned bits, unsigned minusZero) {
    return Difference::less(Integers::widened(bits, Integers::minus(Integers::flip)), minusZero);
  }
  template <int count>
  static __device__ __forceinline__ void widen(unsigned (&pairs)[count], const unsigned (&words)[4], unsigned bits) {
    const unsigned minusZero = minus(bits);
    Integers::widen(pairs, words, Integers::flip);
#pragma unroll
    for (int i = 0; i < count; ++i)
      pairs[i] = Difference::less(pairs[i], minusZero);
  }
};

} // namespace kfuse
