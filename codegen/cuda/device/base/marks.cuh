// Moments of a block, for time lines (`kfuse bench timeline`): nothing, unless a kernel is compiled with KFUSE_MARKS,
// the address of memory for its marks, [block][moment][KFUSE_MARK_SLOTS].
#pragma once

namespace kfuse {

enum class Moment {
  starts,          ///< Its first instruction, nearly.
  waits,           ///< It begins to wait for the kernel before.
  goesOn,          ///< That kernel has ended.
  hasTile,         ///< The first operands are there.
  hasAccumulators, ///< Nothing is left to multiply.
  ends,            ///< Results are on their way to memory.
  count = 8        ///< A power of two.
};

/// A moment as it is stored.
struct Mark {
  unsigned long long nanoseconds, multiprocessor;
};

/// Thread 0 writes the time down; an H200's ticks are 32 ns. Launches of a kernel, 2 us apart or more, take turns in
/// the slots.
__device__ __forceinline__ void mark([[maybe_unused]] Moment moment) {
#ifdef KFUSE_MARKS
  if (threadIdx.x != 0)
    return;
  unsigned long long nanoseconds;
  unsigned multiprocessor;
  asm volatile("mov.u64 %0, %%globaltimer;\n\tmov.u32 %1, %%smid;"
               : "=l"(nanoseconds), "=r"(multiprocessor)
               :
               : "memory");
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned of = block * unsigned(Moment::count) + unsigned(moment), slot = nanoseconds >> 11;
  reinterpret_cast<Mark *>(KFUSE_MARKS)[of * KFUSE_MARK_SLOTS + slot % KFUSE_MARK_SLOTS] = {nanoseconds,
                                                                                            multiprocessor};
#endif
}

} // namespace kfuse
