// The text of a warpgroup's matrix product.
#pragma once

#include "codegen/cuda/text/SourceWriter.h"
#include "kfuse/types.h"

#include <string>

namespace kfuse::codegen::cuda {

/// One wgmma of 64 x `columns` x 32 bytes.
struct WgmmaText {
  std::string name; ///< The struct whose multiplyAdd it is.
  DType rowsType, columnsType;
  std::int64_t columns;
  bool areRowsInRegisters = false; ///< Else both operands lie in shared memory.
  /// Whether K is not contiguous in an operand in shared memory, which those of 16 bits alone may say.
  bool areRowsTransposed = false, areColumnsTransposed = false;
};
/// Writes the struct: the instruction names every accumulator, so each width is a text of its own.
void writeWgmma(SourceWriter &writer, const WgmmaText &product);

} // namespace kfuse::codegen::cuda
