// The dequantised right operands of a product, as its kernels read them.
#pragma once

#include "codegen/cuda/matmul/LowBitOperand.h"
#include "codegen/cuda/matmul/Tma.h"

namespace kfuse::codegen::cuda {

/// One operand for each product of a region, all read by the same instructions.
struct LowBitSide {
  std::vector<LowBitOperand> operands;
  std::string refusal; ///< Why the right operands are none of these, or "".

  static LowBitSide of(const Region &region, const MatmulProblem &problem);

  const LowBitOperand &front() const { return operands.front(); }
  bool isFixed() const;
  /// Bytes of a column of all products.
  int64_t columnBytes() const { return front().rowBytes * static_cast<int64_t>(operands.size()); }

  /// "LowBitWeights<u4, bf16, OneZero<8>, 2048, 128, 32, true>", as the device library names them; of two products
  /// both, in one.
  std::string type() const;
  /// "{in1, in2, {}}": what they are made of.
  std::string value() const;

  /// On wgmma they are the rows (device/matmul/low_bit_rows.cuh): a stage has so many elements of K, which are two
  /// K blocks of the other operand. 128 integers of 4 bits are 64 bytes, which memory gives at once.
  static constexpr int64_t stageDepth = 128;
  /// What a stage has of a row, in bytes.
  int64_t stageBytes() const { return stageDepth / front().perAccess() * 16; }
  /// Whether TMA brings them, and wgmma takes what registers make of them; why not.
  ir::FusionDecision takenByWgmma(const Region &region, const MatmulProblem &problem, const ir::Target &target) const;
  /// The rows as a kernel is given them that multiplies by `type`.
  TmaArgument argument(DType type) const;
  /// The recipes for their maps, for `rows` rows of all operands together of a matrix of N.
  std::vector<TensorMapRecipe> recipes(int64_t N, int64_t rows) const;
};

} // namespace kfuse::codegen::cuda
