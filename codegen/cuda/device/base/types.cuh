// The stored element types, their values in registers, and vectors of them in memory.
#pragma once

#include <kfuse/ptx.cuh>

namespace kfuse {

struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};
struct f8e4m3 {
  unsigned char bits;
};
struct f8e5m2 {
  unsigned char bits;
};

//===- Stored elements and computed values -------------------------------------------------------//

__device__ __forceinline__ float decode(f16 x) { return f16ToFloat(x.bits); }
__device__ __forceinline__ float decode(bf16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
/// Two neighbours of 8 bits as two f16, which hold every value of theirs. An E5M2 is the high byte of its f16.
__device__ __forceinline__ unsigned widened(f8e4m3, unsigned short pair) { return e4m3ToF16(pair); }
__device__ __forceinline__ unsigned widened(f8e5m2, unsigned short pair) {
  return (pair & 0xffu) << 8 | (pair & 0xff00u) << 16;
}
__device__ __forceinline__ float decode(f8e4m3 x) {
  return f16ToFloat(static_cast<unsigned short>(widened(x, x.bits)));
}
__device__ __forceinline__ float decode(f8e5m2 x) {
  return f16ToFloat(static_cast<unsigned short>(widened(x, x.bits)));
}
template <class T> __device__ __forceinline__ T decode(T x) { return x; }
__device__ __forceinline__ int decode(signed char x) { return x; }
__device__ __forceinline__ int decode(unsigned char x) { return x; }

__device__ __forceinline__ void encode(f16 &to, float x) { to.bits = static_cast<unsigned short>(packF16(x, 0)); }
__device__ __forceinline__ void encode(bf16 &to, float x) { to.bits = static_cast<unsigned short>(packBf16(x, 0)); }
__device__ __forceinline__ void encode(f8e4m3 &to, float x) { to.bits = static_cast<unsigned char>(packE4m3(x, 0)); }
__device__ __forceinline__ void encode(f8e5m2 &to, float x) { to.bits = static_cast<unsigned char>(packE5m2(x, 0)); }
template <class T> __device__ __forceinline__ void encode(T &to, T x) { to = x; }
__device__ __forceinline__ void encode(signed char &to, int x) { to = static_cast<signed char>(x); }
__device__ __forceinline__ void encode(unsigned char &to, int x) { to = static_cast<unsigned char>(x); }

/// Two neighbours at once: one conversion instruction for narrow floats.
__device__ __forceinline__ unsigned wordOf(f16, float low, float high) { return packF16(low, high); }
__device__ __forceinline__ unsigned wordOf(bf16, float low, float high) { return packBf16(low, high); }
__device__ __forceinline__ void encodePair(f16 *to, float low, float high) {
  unsigned bits = packF16(low, high);
  to[0].bits = static_cast<unsigned short>(bits), to[1].bits = static_cast<unsigned short>(bits >> 16);
}
__device__ __forceinline__ void encodePair(bf16 *to, float low, float high) {
  unsigned bits = packBf16(low, high);
  to[0].bits = static_cast<unsigned short>(bits), to[1].bits = static_cast<unsigned short>(bits >> 16);
}
__device__ __forceinline__ void encodePair(f8e4m3 *to, float low, float high) {
  unsigned bits = packE4m3(low, high);
  to[0].bits = static_cast<unsigned char>(bits), to[1].bits = static_cast<unsigned char>(bits >> 8);
}
__device__ __forceinline__ void encodePair(f8e5m2 *to, float low, float high) {
  unsigned bits = packE5m2(low, high);
  to[0].bits = static_cast<unsigned char>(bits), to[1].bits = static_cast<unsigned char>(bits >> 8);
}
template <class T, class V> __device__ __forceinline__ void encodePair(T *to, V low, V high) {
  encode(to[0], low), encode(to[1], high);
}

/// The values in a 32-bit word of memory, four of 8 bits, two of 16 or one of 32.
__device__ __forceinline__ void decodeWord(float (&values)[2], f16, unsigned word) {
  unpackF16(values[0], values[1], word);
}
__device__ __forceinline__ void decodeWord(float (&values)[2], bf16, unsigned word) {
  values[0] = __uint_as_float(word << 16), values[1] = __uint_as_float(word & 0xffff0000u);
}
template <class F8> __device__ __forceinline__ void decodeWord(float (&values)[4], F8 type, unsigned word) {
  unpackF16(values[0], values[1], widened(type, static_cast<unsigned short>(word)));
  unpackF16(values[2], values[3], widened(type, static_cast<unsigned short>(word >> 16)));
}
__device__ __forceinline__ void decodeWord(float (&values)[1], float, unsigned word) {
  values[0] = __uint_as_float(word);
}

//===- Vectors -----------------------------------------------------------------------------------//

__device__ constexpr int vectorAlignment(int bytes) {
  return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
}

/// `size` neighbouring elements; aligned so that they move in accesses of up to 16 bytes.
template <class T, int size> struct alignas(vectorAlignment(size * sizeof(T))) Vector {
  T elements[size];
  __device__ __forceinline__ T &operator[](int i) { return elements[i]; }
  __device__ __forceinline__ const T &operator[](int i) const { return elements[i]; }
};

/// `size` elements that lie at `from`, aligned.
template <int size, class T> __device__ __forceinline__ Vector<T, size> loadElements(const T *from) {
  return *reinterpret_cast<const Vector<T, size> *>(from);
}
/// The same to be computed with: elements of 16 bits come in words, so that the compiler sees each as a shifted or
/// masked word. From two halves of a register it would shift one and take two instructions for the other.
template <int size, class T> __device__ __forceinline__ Vector<T, size> loadValues(const T *from) {
  if constexpr (sizeof(T) == 2 && size % 2 == 0 && requires(T x) { x.bits; }) {
    const auto words = *reinterpret_cast<const Vector<unsigned, size / 2> *>(from);
    Vector<T, size> to;
#pragma unroll
    for (int i = 0; i < size; ++i)
      to[i].bits = static_cast<unsigned short>(words[i / 2] >> i % 2 * 16);
    return to;
  } else {
    return loadElements<size>(from);
  }
}

/// `size` elements from `from`, a multiple of `aligned` elements from the start of its buffer. Only
/// the first `lanes` are in memory: the others are zero and not touched. Values that are `moved` stay halves of
/// registers.
template <int size, int aligned, bool moved = false, class T>
__device__ __forceinline__ Vector<T, size> loadVector(const T *from, int lanes = size) {
  Vector<T, size> to{};
  if (lanes == size) {
#pragma unroll
    for (int i = 0; i < size; i += aligned) {
      const Vector<T, aligned> piece = moved ? loadElements<aligned>(from + i) : loadValues<aligned>(from + i);
#pragma unroll
      for (int j = 0; j < aligned; ++j)
        to[i + j] = piece[j];
    }
    return to;
  }
#pragma unroll
  for (int i = 0; i < size; ++i)
    if (i < lanes)
      to[i] = from[i];
  return to;
}

/// The two elements of 16 bits in a word of memory.
template <class T> __device__ __forceinline__ void fromWord(Vector<T, 2> &to, unsigned word) {
  to[0].bits = static_cast<unsigned short>(word), to[1].bits = static_cast<unsigned short>(word >> 16);
}

/// Starts the copy of `size` elements, 4, 8 or 16 aligned bytes, to shared memory.
template <int size, class T> __device__ __forceinline__ void startVector(Vector<T, size> &to, const T *from) {
  constexpr int bytes = size * sizeof(T);
  copyAsync<bytes>(sharedAddress(&to), from, bytes);
}

/// Rounds the first `lanes` values to the stored type and writes them; those of 16 bits as words.
template <int size, int aligned, class T, class V>
__device__ __forceinline__ void storeVector(T *to, const Vector<V, size> &values, int lanes = size) {
  if (lanes < size) {
#pragma unroll
    for (int i = 0; i < size; ++i)
      if (i < lanes)
        encode(to[i], values[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < size; i += aligned) {
    if constexpr (aligned % 2 == 0 && requires { wordOf(T{}, values[0], values[1]); }) {
      Vector<unsigned, aligned / 2> words;
#pragma unroll
      for (int j = 0; j < aligned; j += 2)
        words[j / 2] = wordOf(T{}, values[i + j], values[i + j + 1]);
      *reinterpret_cast<Vector<unsigned, aligned / 2> *>(to + i) = words;
    } else {
      Vector<T, aligned> piece;
#pragma unroll
      for (int j = 0; j + 1 < aligned; j += 2)
        encodePair(&piece[j], values[i + j], values[i + j + 1]);
      if constexpr (aligned % 2 == 1)
        encode(piece[aligned - 1], values[i + aligned - 1]);
      *reinterpret_cast<Vector<T, aligned> *>(to + i) = piece;
    }
  }
}

} // namespace kfuse
