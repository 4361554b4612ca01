// Plain value types shared by every part of kfuse and by its users.
#pragma once

#include "kfuse/api.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kfuse {

/// Element type of a tensor. Bool is stored as one byte, 0 or 1. The 8-bit floats are those of the Open Compute
/// Project (OFP8, 2023): E4M3 has no infinity and reaches 448, E5M2 reaches 57344. They are for storage: casts,
/// layout ops and matmuls take them, arithmetic does not. What is too large to store becomes the largest value,
/// as with CUDA's satfinite and ONNX's saturating Cast; NaN stays NaN.
/// The integers of 8 and 4 bits are for storage, too. Two of 4 bits share a byte, the first in its low half, and a row
/// that ends inside a byte is padded to it; no op computes them, but for layout, which moves them.
enum class DType : std::uint8_t { F32, F16, BF16, I32, I64, Bool, F8E4M3, F8E5M2, I8, U8, I4, U4 };
inline constexpr DType lastDType = DType::U4;

/// Bytes one element occupies in memory, 1 where it is half of one. Of a number that is none of the types above: 0, and
/// it is no float.
KFUSE_API std::size_t byteWidth(DType type);

/// "f32", "f16", "bf16", "i32", "i64", "bool", "f8E4M3FN", "f8E5M2", "i8", "u8", "i4", "u4"; "no type" for a number
/// that is none.
KFUSE_API std::string_view toString(DType type);
KFUSE_API std::optional<DType> parseDType(std::string_view text);

KFUSE_API bool isFloat(DType type);
/// Whether an element of `type` may be given as `value`: of an integer type whole numbers of its range, of Bool 0 and
/// 1, of a float type any, which is rounded.
KFUSE_API bool holds(DType type, double value);
/// One of the 8-bit floats.
KFUSE_API bool isFloat8(DType type);
/// One of the 4-bit integers, two of which share a byte.
KFUSE_API bool isPacked(DType type);
/// An integer of 8 or 4 bits, and the numbers it holds.
struct SmallInteger {
  std::int64_t lowest, largest;
};
KFUSE_API std::optional<SmallInteger> smallInteger(DType type);

/// Static shape, outermost dimension first; tensors are dense and row-major.
using Shape = std::vector<std::int64_t>;

/// Number of elements of a shape; 1 for a scalar. INT64_MAX where it is more; 0 where a size is 0 or less.
KFUSE_API std::int64_t elementCount(const Shape &shape);
/// Bytes of a dense tensor in memory; SIZE_MAX where it is more.
KFUSE_API std::size_t byteSize(DType type, const Shape &shape);
/// The shape of the bytes that hold a tensor of 4-bit integers: its last size halved, rounded up.
KFUSE_API Shape packedShape(Shape shape);

/// "2x3x4"; "scalar" for rank 0.
KFUSE_API std::string toString(const Shape &shape);

/// What a tensor at the edge of a model is for.
/// - Input: new data each run.
/// - Parameter: fixed between runs (weights); may be folded, merged and packed once by the
///   preparation function.
/// - State: lives in the caller's memory and is updated in place by a run (a KV cache).
enum class Role : std::uint8_t { Input, Parameter, State };

/// A size that a run gives: from `low` to `high`.
struct Dim {
  std::string name;
  std::int64_t low = 1;
  std::int64_t high = 1;
  friend bool operator==(const Dim &, const Dim &) = default;
};

/// Name, element type and shape of a tensor at the edge of a model.
struct TensorDesc {
  std::string name;
  DType type = DType::F32;
  Shape shape; ///< The largest, where a run gives sizes.
  /// Each dimension of `shape`, where a run gives the size of one; empty else. A size that is fixed has no name, others
  /// that of what they follow, "tokens" or "batch * tokens".
  std::vector<Dim> dims{};

  /// Dense size in memory; SIZE_MAX where it is more.
  KFUSE_API std::size_t bytes() const;
  friend bool operator==(const TensorDesc &, const TensorDesc &) = default;
};

} // namespace kfuse
