/* What kernels for the CPU are made of: constants, data, calls inside and of libm, as a C compiler makes them. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const float table[16] = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225};
static const float *volatile pointers[2] = {table, table + 8}; /* Addresses in data, which are relocated. */
static int calls = 0;

__attribute__((noinline)) static float square(int64_t i) { return pointers[i / 8 % 2][i % 8]; }

/* out[i] = floor(in[i]) + i^2, for i below 16. */
void squares(void *const *arguments, int64_t begin, int64_t end) {
  const float *in = arguments[0];
  float *out = arguments[1];
  for (int64_t i = begin; i < end; ++i)
    out[i] = floorf(in[i]) + square(i);
  ++calls;
}

/* Copies and clears through libc, by sizes that no compiler knows; out[0] is how often squares() was called. */
void copies(void *const *arguments, int64_t begin, int64_t end) {
  memcpy((char *)arguments[1] + begin, (const char *)arguments[0] + begin, (size_t)(end - begin));
  memset(arguments[2], 0, (size_t)(end - begin));
  *(int *)arguments[2] = calls;
}
