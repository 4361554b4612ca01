// Where the values of a fused region lie in its iteration space.
#pragma once

#include "ir/Scalar.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace kfuse::ir {

/// The iteration space of a region, which is that of its anchor (RegionScalars.h), and the values that hold one element
/// for each of its points, or for each row.
struct RegionPlacement {
  using Index = llvm::SmallVector<mlir::AffineExpr>;

  Domain domain;
  mlir::Operation *anchor = nullptr;           ///< A contraction or a row reduction; null: the region is elementwise.
  llvm::DenseMap<mlir::Value, Index> elements; ///< Which element of a value belongs to a point.

  bool isOfContraction() const { return domain.contractionDim >= 0; }
  /// "kfuse.matmul", or "the first result".
  std::string anchorName() const;
  /// The element of a value that belongs to a point, over the dimensions of the space; null where they do not
  /// correspond one to one.
  const Index *elementOf(mlir::Value value) const;
};

RegionPlacement placeRegion(mlir::Block &body);

/// The iteration space is the elements of the first result, of a state update what it writes; rows lie along the last
/// dimension.
RegionPlacement placeByResult(mlir::Block &body);

} // namespace kfuse::ir
