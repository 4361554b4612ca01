// CUDA's keywords and built-ins for a host compiler: a kernel becomes plain C++ that asks the emulator
// for its thread, its barriers and its shared memory. Included before the kernel's source.
//
// `__shared__` variables are static ones in a section of their own: every block that is on the device has a copy of the
// library, and the emulator knows from where to where they lie.
#pragma once

#include "tests/emulation/EmulatorApi.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

static const kfuse::test::EmulatorApi *emulator = nullptr;
extern "C" void setEmulator(const kfuse::test::EmulatorApi *api) { emulator = api; }
// The linker's; null where there are none.
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_kfuse_shared[], __stop_kfuse_shared[];
extern "C" unsigned char *sharedVariables(unsigned long *bytes) {
  *bytes = __stop_kfuse_shared - __start_kfuse_shared;
  return __start_kfuse_shared;
}

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static __attribute__((section("kfuse_shared")))
#define threadIdx (emulator->place->thread)
#define blockIdx (emulator->place->block)
#define gridDim (emulator->place->grid)
#define __syncthreads() emulator->syncBlock()
#define __syncwarp() emulator->syncWarp()
#define __trap() emulator->fail("a trap")

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline int __float2int_rz(float x) {
  return x != x ? 0 : x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? INT32_MIN : static_cast<int>(x);
}
inline long long __float2ll_rz(float x) { // NaN becomes the least integer, as the processor has it.
  return x != x || x < -0x1p63f ? INT64_MIN : x >= 0x1p63f ? INT64_MAX : static_cast<long long>(x);
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
