// Integers of 2, 4 and 8 bits in the bytes of a file.
#pragma once

#include "ir/import/Model.h"

namespace kfuse::ir::onnx {

/// Rows of integers in whole bytes, the first in the low bits of its byte.
struct PackedRows {
  std::int64_t bits = 4; ///< 2, 4 or 8.
  std::int64_t rows = 1;
  std::int64_t columns = 1;

  std::int64_t rowBytes() const { return (columns * bits + 7) / 8; }
  /// The type that kfuse keeps them in, which for 2 bits is that of 4.
  DType type() const { return bits == 8 ? DType::U8 : DType::U4; }
};

/// The integers that `data` holds, rows.rows x rows.columns of rows.type(): the same bytes, where they are in that
/// order already. `columns` are, where there are any, the numbers of the columns in the order they are wanted in.
/// `data` is of the size that `rows` says.
ParameterData unpacked(const ParameterData &data, const PackedRows &rows, std::span<const std::int64_t> columns = {});

} // namespace kfuse::ir::onnx
