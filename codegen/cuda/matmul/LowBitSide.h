// The dequantised right operands of a product, as its kernels read them.
#pragma once

#include "codegen/KernelPlan.h"
#include "codegen/cuda/matmul/LowBitOperand.h"
#include "codegen/cuda/matmul/MatmulProblem.h"

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
  /// The recipes by which TMA brings boxes of `rows` of each operand's integers, of `bytes` along K.
  std::vector<TensorMapRecipe> recipes(int64_t N, int64_t rows, int64_t bytes) const;
};

} // namespace kfuse::codegen::cuda
