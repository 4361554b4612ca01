// wgmma: what one thread holds of a warpgroup's product of two matrices in shared memory.
#pragma once

#include "kfuse/types.h"

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace kfuse::test {

/// "m64n112k16.f32.bf16.bf16 1, 1, 0, 0": the instruction's name, and what follows its operands (PTX ISA,
/// "wgmma.mma_async"). Sums are f32, operands in shared memory, or the rows in registers ("1, 1, 0", which says nothing
/// of them); neither is negated.
struct WgmmaInstruction {
  int columns = 0, depth = 0;
  DType rowsType{}, columnsType{};
  bool areRowsTransposed = false, areColumnsTransposed = false; ///< K is not contiguous.
  bool areRowsInRegisters = false;

  /// Nothing where it is another instruction.
  static std::optional<WgmmaInstruction> parse(const std::string &text);

  /// sums[columns / 2] += rows[64][depth] columns[depth][columns], or without what was there. The descriptors say where
  /// in `shared` the operands lie; `thread` is one of 128. False, and nothing added, where they are not swizzled by 128
  /// bytes or lie elsewhere.
  bool multiply(std::span<const std::byte> shared, unsigned thread, float *sums, unsigned long long rowsDescriptor,
                unsigned long long columnsDescriptor, bool accumulate) const;
  /// The same of the thread's two rows of 16 elements.
  bool multiply(std::span<const std::byte> shared, unsigned thread, float *sums,
                const std::array<std::array<unsigned short, 16>, 2> &rows, unsigned long long columnsDescriptor,
                bool accumulate) const;
};

} // namespace kfuse::test
