// Every PTX instruction the device library uses, one function each; all else is plain C++.
#pragma once

#include <kfuse/fp8.cuh>
#include <kfuse/marks.cuh>

namespace kfuse {

//===- Conversions -------------------------------------------------------------------------------//

/// Two floats rounded to nearest even, the first in the low half.
__device__ __forceinline__ unsigned packBf16(float low, float high) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ unsigned packF16(float low, float high) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ float f16ToFloat(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

/// The two f16 of a word.
__device__ __forceinline__ void unpackF16(float &low, float &high, unsigned word) {
  asm("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %2;\n\tcvt.f32.f16 %0, l;\n\tcvt.f32.f16 %1, h;\n\t}"
      : "=f"(low), "=f"(high)
      : "r"(word));
}

/// Half `i` of word `a` below half `j` of `b`.
__device__ __forceinline__ unsigned halves(unsigned a, int i, unsigned b, int j) {
  unsigned both;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(both) : "r"(a), "r"(b), "r"((i ? 0x32 : 0x10) | (j ? 0x7600 : 0x5400)));
  return both;
}

/// Four bytes of the eight in `low` and `high`, as a digit of `chosen` names each.
__device__ __forceinline__ unsigned chosenBytes(unsigned low, unsigned high, unsigned chosen) {
  unsigned bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(chosen));
  return bytes;
}

/// Two floats rounded to nearest even and saturated, the first in the low byte.
__device__ __forceinline__ unsigned short packE4m3(float low, float high) {
#if __CUDA_ARCH__ >= 890
  unsigned short bits;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return bitsOfE4m3(low) | bitsOfE4m3(high) << 8;
#endif
}
__device__ __forceinline__ unsigned short packE5m2(float low, float high) {
#if __CUDA_ARCH__ >= 890
  unsigned short bits;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return bitsOfE5m2(low) | bitsOfE5m2(high) << 8;
#endif
}
/// The two E4M3 of a halfword as two f16, which hold every one of them.
__device__ __forceinline__ unsigned e4m3ToF16(unsigned short pair) {
#if __CUDA_ARCH__ >= 890
  unsigned halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  return halves;
#else
  return packF16(e4m3ToFloat(pair & 0xff), e4m3ToFloat(pair >> 8));
#endif
}

//===- Arithmetic --------------------------------------------------------------------------------//

/// NaN if either is NaN.
__device__ __forceinline__ float maxNan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
__device__ __forceinline__ float minNan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
/// a / b within 2 ulp over the whole range; infinities, zeros and NaN as IEEE says.
__device__ __forceinline__ float divideFull(float a, float b) {
  float result;
  asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
/// 2^x within 2 ulp of f32; 0 where the result would be denormal.
__device__ __forceinline__ float powerOfTwo(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
/// (a & mask) ^ flip as one instruction. The compiler takes two where mask and flip are constants, of which an
/// instruction holds one.
__device__ __forceinline__ unsigned maskedXor(unsigned a, unsigned mask, unsigned flip) {
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(a), "r"(mask), "r"(flip));
  return result;
}
/// a b + c of two bf16, or two f16, each rounded once.
__device__ __forceinline__ unsigned fmaBf16x2(unsigned a, unsigned b, unsigned c) {
  unsigned result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
__device__ __forceinline__ unsigned fmaF16x2(unsigned a, unsigned b, unsigned c) {
  unsigned result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
/// 1 / x within 1 ulp; 0 where the result would be denormal.
__device__ __forceinline__ float reciprocalNear(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

//===- Threads and memory ------------------------------------------------------------------------//

/// The value of lane `lane ^ mask` of this warp, all of whose lanes take part.
template <class T> __device__ __forceinline__ T shuffleXor(T value, int mask) {
  return __shfl_xor_sync(~0u, value, mask);
}

/// Whether `holds` in any thread of this warp, or of this block, all of whose threads take part.
__device__ __forceinline__ bool anyInWarp(bool holds) { return __any_sync(~0u, holds); }
__device__ __forceinline__ bool anyInBlock(bool holds) { return __syncthreads_or(holds); }

/// Lets the kernel behind start, and waits until the kernel before has ended and its writes are visible. Whoever starts
/// waits itself, and a kernel ends only when its own wait has: behind the wait, what any earlier kernel wrote is there.
/// That goes for lines that an SM holds in its L1, too: of 20,000 times that a kernel read what the one before it had
/// written over what the one before that had read, all three on an H200 at once, none read old data.
/// Letting it start behind the wait cost 1.3 us wherever it had room on the SM: between a norm and a product. Does
/// nothing where the kernel was launched to start after its predecessor, and before sm_90.
__device__ __forceinline__ void waitForPredecessor() {
  mark(Moment::waits);
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
  mark(Moment::goesOn);
}

/// The shared memory that the launch asked for; swizzled tiles start at multiples of 1024 bytes.
__device__ __forceinline__ unsigned char *dynamicShared() {
  extern __shared__ __align__(1024) unsigned char dynamicSharedBytes[];
  return dynamicSharedBytes;
}

/// The address of shared memory that instructions take.
__device__ __forceinline__ unsigned sharedAddress(const void *pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// 16 aligned bytes that this block alone reads, and once. Only what is `fixed` may go past the caches' coherence: the
/// kernel ahead may still write the rest when this one starts.
template <bool fixed> __device__ __forceinline__ void loadStreaming(unsigned *to, const void *global) {
  if constexpr (fixed)
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(global));
  else
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(global)
                 : "memory");
}

/// Has the L2 fetch `bytes` at `global`, both multiples of 16. Does nothing before sm_90.
__device__ __forceinline__ void fetchToL2(const void *global, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#endif
}

/// Counts an arrival and says how many came before. What each thread's block wrote before a barrier and its
/// arrival, the block that arrives last sees after the next barrier.
__device__ __forceinline__ unsigned countArrival(unsigned *counter) {
  unsigned before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

/// Takes one of `count` tickets, 0 first; behind the last comes 0 again.
__device__ __forceinline__ unsigned takeTicket(unsigned *counter, unsigned count) {
  unsigned ticket;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(ticket)
               : "l"(counter), "r"(count - 1)
               : "memory");
  return ticket;
}

/// Words that another block may read or write meanwhile, each for itself, past this multiprocessor's own cache.
__device__ __forceinline__ void storeWords(void *to, const unsigned (&words)[2]) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(words[0]), "r"(words[1]) : "memory");
}
__device__ __forceinline__ void storeWords(void *to, const unsigned (&words)[4]) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}
__device__ __forceinline__ void loadWords(unsigned (&words)[2], const void *from) {
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(from) : "memory");
}
__device__ __forceinline__ void loadWords(unsigned (&words)[4], const void *from) {
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(from)
               : "memory");
}

/// 16 aligned bytes of shared memory.
__device__ __forceinline__ void loadShared(unsigned (&words)[4], unsigned shared) {
  asm volatile("ld.shared::cta.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared)
               : "memory");
}

//===- Asynchronous copies to shared memory ------------------------------------------------------//

/// Copies `bytes` <= `size` bytes (4, 8 or 16, aligned to it) and fills up with zeros.
template <int size> __device__ __forceinline__ void copyAsync(unsigned shared, const void *global, int bytes) {
  static_assert(size == 4 || size == 8 || size == 16);
  if constexpr (size == 16) // Past L1: every byte is used once per block.
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(global), "n"(size), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void commitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `pending` of this thread's latest groups are under way.
template <int pending> __device__ __forceinline__ void waitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

//===- Tensor cores ------------------------------------------------------------------------------//

/// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void loadMatrices(unsigned (&r)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
/// The same, each matrix transposed.
__device__ __forceinline__ void loadMatricesTransposed(unsigned (&r)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
/// c[16][8] += a[16][16] b[16][8], f32 accumulation.
__device__ __forceinline__ void mmaBf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
               "%1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mmaF16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
               "%1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// c[16][8] += a[16][8] b[8][8] of f32, cut behind 10 bits of mantissa.
__device__ __forceinline__ void mmaTf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
               "%1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

} // namespace kfuse
