// The 8-bit floats in integer arithmetic, for sm_80 to sm_87, which have no instructions for them.
#pragma once

namespace kfuse {

/// An 8-bit float's magnitude: 4 exponent bits with bias 7 and 3 of mantissa, or 5, 15 and 2.
template <int mantissaBits, int bias> __device__ __forceinline__ unsigned roundedTo8(float value, float largest) {
  constexpr int dropped = 23 - mantissaBits;
  unsigned bits = __float_as_uint(value), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7f;
  magnitude = magnitude > __float_as_uint(largest) ? __float_as_uint(largest) : magnitude;
  if (magnitude >= (128 - bias) << 23)
    return sign | (magnitude - ((127 - bias) << 23) + (1 << (dropped - 1)) - 1 + (magnitude >> dropped & 1)) >> dropped;
  // Adding a power of two whose last place is the step of subnormal numbers rounds to it.
  constexpr unsigned shifter = (128 - bias + dropped) << 23;
  return sign | (__float_as_uint(__uint_as_float(magnitude) + __uint_as_float(shifter)) - shifter);
}
__device__ __forceinline__ unsigned bitsOfE4m3(float value) { return roundedTo8<3, 7>(value, 448.0f); }
__device__ __forceinline__ unsigned bitsOfE5m2(float value) { return roundedTo8<2, 15>(value, 57344.0f); }

/// Read as an f32 the magnitude is 2^120 too small; the product is exact, subnormal numbers too.
__device__ __forceinline__ float e4m3ToFloat(unsigned bits) {
  unsigned magnitude = bits & 0x7f;
  float value = __uint_as_float(magnitude << 20) * __uint_as_float((127 + 120) << 23);
  return __uint_as_float((magnitude == 0x7f ? 0x7fffffff : __float_as_uint(value)) | (bits & 0x80) << 24);
}

} // namespace kfuse
