// Offsets as TMA sees them: a few strides and a coordinate of the batch.
#pragma once

#include "codegen/KernelPlan.h"
#include "ir/IndexMath.h"

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace kfuse::codegen::cuda {

constexpr uint64_t tmaGranule = 16;    ///< Bytes: what addresses and strides are multiples of.
constexpr uint32_t tmaLineBytes = 128; ///< The widest swizzle.

/// Splits `expr` into coefficient * d_dim, a constant and the rest; false when d_dim appears otherwise.
bool splitOff(mlir::AffineExpr expr, unsigned dim, int64_t &coefficient, int64_t &constant,
              llvm::SmallVectorImpl<ir::IndexTerm> &rest);

/// What the batch dimensions add to an offset, as a coordinate times the largest stride that they share.
struct BatchCoordinate {
  mlir::AffineExpr index;
  int64_t stride = 0; ///< 0 where they add nothing.
};
BatchCoordinate batchCoordinate(llvm::ArrayRef<ir::IndexTerm> terms, mlir::MLIRContext *context);

/// The maps, as the first arguments of the plan's one launch.
void passTensorMaps(KernelPlan &plan, std::vector<TensorMapRecipe> maps);

} // namespace kfuse::codegen::cuda
