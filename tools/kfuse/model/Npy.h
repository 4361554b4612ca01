// NumPy's .npy files, format versions 1 to 3, as inputs and outputs of a model.
#pragma once

#include "kfuse/error.h"
#include "kfuse/types.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace kfuse::tools {

/// A dense row-major tensor on the host.
struct NpyArray {
  DType type = DType::F32;
  Shape shape;
  std::vector<std::byte> data;
};

/// Reads little-endian f2, f4, f8 (rounded to f32), i4, i8 and b1 in C order. Io for a file that is
/// truncated, has another layout or holds more or less data than its shape; the message says which.
Result<NpyArray> readNpy(const std::filesystem::path &path);
Result<NpyArray> parseNpy(std::span<const std::byte> file);

/// Writes version 1. NumPy has no bf16 and no 8-bit floats: such a tensor is written as f4, which holds its values
/// exactly.
Result<void> writeNpy(const std::filesystem::path &path, const NpyArray &array);

/// The same values as `type`. Floats convert to floats, rounding to nearest even (the 8-bit ones saturate); other pairs
/// are a Usage error that names both.
Result<NpyArray> convert(NpyArray array, DType type);

} // namespace kfuse::tools
