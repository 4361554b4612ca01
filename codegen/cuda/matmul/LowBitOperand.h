// A right operand that a region dequantises: where its integers, scales and zeros lie in memory.
#pragma once

#include "codegen/KernelTemplate.h"

namespace kfuse::codegen::cuda {

/// Integers of 8 or 4 bits in rows along K, with a scale, and a zero, for every `block` of a row, or for all.
struct LowBitOperand {
  DType type = DType::U4;
  unsigned quantised = 0;         ///< An input of the region.
  std::optional<unsigned> scales; ///< The same; else all are `scale`.
  float scale = 1;
  std::optional<unsigned> zeros; ///< The input of zeros; else all are `zero`.
  DType zeroType = DType::U4;    ///< `type`, or a float.
  DType difference =
      DType::F32; ///< What (integers - floats) is rounded to: `zeroType`, or F32 where nothing rounds it.
  int64_t zero = 0;
  int64_t rowBytes = 0;     ///< From one row of integers to the next.
  int64_t zeroRowBytes = 0; ///< The same of zeros.
  int64_t block = 0;        ///< Elements of K.
  int64_t blocksOfRow = 1;  ///< From one row of scales to the next, in elements; 1 where a row has one scale.
  DType scaleType = DType::F32;
  bool isFixed = true; ///< Nothing of it is written in a run (Region::isFixed).
  std::string refusal; ///< Why the operand is none of these, or "".

  /// That of the region's `product`-th product.
  static LowBitOperand of(const Region &region, unsigned product);

  /// Whether both are read by the same instructions: all but where they lie.
  bool isLike(const LowBitOperand &other) const {
    return type == other.type && zeroType == other.zeroType && difference == other.difference &&
           rowBytes == other.rowBytes && block == other.block && scaleType == other.scaleType;
  }
  /// Elements in 16 bytes.
  int64_t perAccess() const { return isPacked(type) ? 32 : 16; }
};

} // namespace kfuse::codegen::cuda
