// A product as the templates see it: its sizes and operands, and which instructions may take it.
#pragma once

#include "codegen/LinearGraph.h"
#include "codegen/cuda/text/Kernel.h"

#include <optional>

namespace kfuse::codegen::cuda {

/// A region's product [batch..., M, N, K] in linear form, or its two of the same left operand: a gate and what
/// it gates.
struct MatmulProblem {
  LinearGraph graph;
  llvm::SmallVector<ir::Scalar, 2> products; ///< The Contract nodes.
  unsigned dimM, dimN, dimK;
  int64_t M, N, K, batches;
  std::vector<bool> isFixed; ///< Region::isFixed.
  bool reducesRows = false;  ///< Whether rows of its result are reduced, or (along K) of its left operand.
  bool tf32 = false;         ///< Operands of f32 may be cut behind 10 bits of mantissa, in every product.

  /// Nothing when the region has no product, more than two, or two that do not share their left operand.
  static std::optional<MatmulProblem> of(const Region &region);

  unsigned count() const { return products.size(); }
  ir::Scalar operand(unsigned side, unsigned product = 0) const { return graph[products[product]].operands[side]; }
  /// Whether some product reads the node as it is.
  bool isOperand(ir::Scalar node) const;
  /// Whether the input is read by other than the product itself.
  bool readsBeside(unsigned input) const;
  /// Whether what is fused behind the product reads other values in each row.
  bool readsRows() const;
  /// Whether a run ends its rows.
  bool endsRows() const;
  /// The stored type of an operand that is a load, f32 of one that is computed. The first right operand stands for all.
  DType elementType(unsigned side) const;
  /// Whether `type` is that of all right operands.
  bool isRightType(DType type) const;
};
/// The type in memory of a load, f32 of what is computed.
DType storedTypeOf(const LinearGraph &graph, ir::Scalar value);
/// The largest M, N, K or number of batches: device code counts them in 32 bits, and rounds up to tiles, clusters and
/// turns of loops, each by less than 2^20.
inline constexpr int64_t mostExtent = (int64_t{1} << 31) - (int64_t{1} << 20);
/// Whether a region's problem is there and of extents up to `mostExtent`; why not.
ir::FusionDecision isCounted(const Region &region, const std::optional<MatmulProblem> &problem);
inline constexpr const char *holdsTiles = "holds tiles of rows, which a reduction needs whole";

/// Whether mma.sync may take a product whose tiles are finished on their own; why not.
ir::FusionDecision takenByMmaSync(const MatmulProblem &problem, const ir::Target &target);
/// Whether mma.sync multiplies the operands' types: pairs of f16, of bf16, of 8-bit floats, and of f32 where the
/// product allows tf32 and the variant `takesTf32`; why not.
ir::FusionDecision multipliedByMmaSync(const MatmulProblem &problem, bool takesTf32);

} // namespace kfuse::codegen::cuda
