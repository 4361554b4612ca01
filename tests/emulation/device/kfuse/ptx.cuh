// The instructions of codegen/cuda/device/base/ptx.cuh, as the PTX manual describes them, in plain C++.
#pragma once

#include <kfuse/fp8.cuh>
#include <kfuse/marks.cuh>

namespace kfuse {

//===- Conversions -------------------------------------------------------------------------------//

inline unsigned short bitsOfBf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline unsigned short bitsOfF16(float value) {
  auto half = static_cast<_Float16>(value);
  unsigned short bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}
inline float bf16ToFloat(unsigned short bits) { return __uint_as_float(static_cast<unsigned>(bits) << 16); }
inline float f16ToFloat(unsigned short bits) {
  _Float16 half;
  std::memcpy(&half, &bits, 2);
  return static_cast<float>(half);
}
inline unsigned packBf16(float low, float high) {
  return bitsOfBf16(low) | static_cast<unsigned>(bitsOfBf16(high)) << 16;
}
inline unsigned packF16(float low, float high) { return bitsOfF16(low) | static_cast<unsigned>(bitsOfF16(high)) << 16; }

inline unsigned short packE4m3(float low, float high) {
  return static_cast<unsigned short>(bitsOfE4m3(low) | bitsOfE4m3(high) << 8);
}
inline unsigned short packE5m2(float low, float high) {
  return static_cast<unsigned short>(bitsOfE5m2(low) | bitsOfE5m2(high) << 8);
}
inline unsigned e4m3ToF16(unsigned short pair) { return packF16(e4m3ToFloat(pair & 0xff), e4m3ToFloat(pair >> 8)); }

//===- Arithmetic --------------------------------------------------------------------------------//

inline float maxNan(float a, float b) { return a != a ? a : b != b ? b : a > b ? a : b; }
inline float minNan(float a, float b) { return a != a ? a : b != b ? b : a < b ? a : b; }
inline float powerOfTwo(float x) { return std::exp2(x); }
inline float reciprocalNear(float x) { return 1.0f / x; }
inline float divideFull(float a, float b) { return a / b; }
inline unsigned maskedXor(unsigned a, unsigned mask, unsigned flip) { return (a & mask) ^ flip; }
inline unsigned fmaBf16x2(unsigned a, unsigned b, unsigned c) {
  auto half = [&](int i) {
    auto at = [&](unsigned pair) { return double(bf16ToFloat(static_cast<unsigned short>(pair >> i * 16))); };
    return static_cast<float>(at(a) * at(b) + at(c));
  };
  return packBf16(half(0), half(1));
}
inline unsigned fmaF16x2(unsigned a, unsigned b, unsigned c) {
  auto half = [&](int i) {
    auto at = [&](unsigned pair) { return double(f16ToFloat(static_cast<unsigned short>(pair >> i * 16))); };
    return static_cast<float>(at(a) * at(b) + at(c));
  };
  return packF16(half(0), half(1));
}

//===- Threads and memory ------------------------------------------------------------------------//

/// Publishes `mine` to the warp and hands every lane's to `use(lane)`. What is behind pointers has to be read before
/// the others go on: exchangeTogether().
template <class T, class Use> inline void exchange(const T &mine, Use use) {
  static_assert(sizeof(T) <= 64);
  unsigned char *scratch = emulator->warpScratch();
  std::memcpy(scratch + threadIdx.x % 32 * 64, &mine, sizeof(T));
  emulator->syncWarp();
  use([&](unsigned lane) {
    T value;
    std::memcpy(&value, scratch + lane * 64, sizeof(T));
    return value;
  });
}
template <class T, class Use> inline void exchangeTogether(const T &mine, Use use) {
  exchange(mine, use);
  emulator->syncWarp();
}

inline void unpackF16(float &low, float &high, unsigned word) {
  low = f16ToFloat(static_cast<unsigned short>(word)), high = f16ToFloat(static_cast<unsigned short>(word >> 16));
}

inline unsigned halves(unsigned a, int i, unsigned b, int j) { return (a >> i * 16 & 0xffffu) | (b >> j * 16) << 16; }

inline unsigned chosenBytes(unsigned low, unsigned high, unsigned chosen) {
  const std::uint64_t both = low | static_cast<std::uint64_t>(high) << 32;
  unsigned bytes = 0;
  for (unsigned i = 0; i < 4; ++i)
    bytes |= static_cast<unsigned>(both >> (chosen >> i * 4 & 7) * 8 & 0xff) << i * 8;
  return bytes;
}

inline void waitForPredecessor() {}
inline void fetchToL2(const void *, unsigned) {}

template <class T> inline T shuffleXor(T value, int mask) {
  T result;
  exchange(value, [&](auto of) { result = of(threadIdx.x % 32 ^ mask); });
  return result;
}
inline bool anyInWarp(bool holds) {
  bool result = false;
  exchange(holds, [&](auto of) {
    for (unsigned lane = 0; lane < 32; ++lane)
      result = result || of(lane);
  });
  return result;
}
inline bool anyInBlock(bool holds) {
  static bool result;
  result = false;
  emulator->syncBlock();
  result = result || holds;
  emulator->syncBlock();
  const bool found = result;
  emulator->syncBlock();
  return found;
}
inline unsigned char *dynamicShared() { return emulator->shared(); }

inline unsigned sharedAddress(const void *pointer) { return emulator->addressOf(pointer); }

template <bool fixed> inline void loadStreaming(unsigned *to, const void *global) {
  if (reinterpret_cast<std::uintptr_t>(global) % 16)
    emulator->fail("a misaligned load of 16 bytes");
  std::memcpy(to, global, 16);
}

inline void loadShared(unsigned (&words)[4], unsigned shared) { std::memcpy(words, emulator->at(shared, 16), 16); }

inline unsigned countArrival(unsigned *counter) { return (*counter)++; } // Threads run until they wait.

inline unsigned takeTicket(unsigned *counter, unsigned count) {
  return std::exchange(*counter, (*counter + 1) % count);
}
template <int count> inline void storeWords(void *to, const unsigned (&words)[count]) {
  std::memcpy(to, words, sizeof(words));
}
/// Others go on: they may write what this one looks for.
template <int count> inline void loadWords(unsigned (&words)[count], const void *from) {
  emulator->yield();
  std::memcpy(words, from, sizeof(words));
}

template <int size> inline void copyAsync(unsigned shared, const void *global, int bytes) {
  if (bytes && reinterpret_cast<std::uintptr_t>(global) % size)
    emulator->fail("cp.async from a misaligned address");
  if (bytes < 0 || bytes > size)
    emulator->fail("cp.async of a number of bytes out of range");
  emulator->copy(emulator->at(shared, size), global, size, bytes);
}
inline void commitCopies() { emulator->commit(); }
template <int pending> inline void waitCopies() { emulator->wait(pending); }

//===- Tensor cores ------------------------------------------------------------------------------//

// The emulator has them, which is compiled to be fast.
inline void loadMatrices(unsigned (&r)[4], unsigned row) { emulator->loadMatrices(r, row, false); }
inline void loadMatricesTransposed(unsigned (&r)[4], unsigned row) { emulator->loadMatrices(r, row, true); }

inline void mma(kfuse::test::MmaType type, float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const unsigned b[] = {b0, b1};
  emulator->mma(type, c, a, b);
}
inline void mmaBf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mma(kfuse::test::MmaType::Bf16, c, a, b0, b1);
}
inline void mmaF16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mma(kfuse::test::MmaType::F16, c, a, b0, b1);
}
inline void mmaTf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  mma(kfuse::test::MmaType::Tf32, c, a, b0, b1);
}

} // namespace kfuse
