// The value of an affine expression at a point.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>

namespace kfuse::test {

/// Nothing where a negative number is divided: generated C would round towards 0, not down.
inline std::optional<int64_t> valueAt(mlir::AffineExpr expr, llvm::ArrayRef<int64_t> dims,
                                      llvm::ArrayRef<int64_t> symbols) {
  if (auto constant = mlir::dyn_cast<mlir::AffineConstantExpr>(expr))
    return constant.getValue();
  if (auto dim = mlir::dyn_cast<mlir::AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto symbol = mlir::dyn_cast<mlir::AffineSymbolExpr>(expr))
    return symbols[symbol.getPosition()];
  auto binary = mlir::cast<mlir::AffineBinaryOpExpr>(expr);
  std::optional<int64_t> a = valueAt(binary.getLHS(), dims, symbols), b = valueAt(binary.getRHS(), dims, symbols);
  if (!a || !b)
    return std::nullopt;
  if (binary.getKind() == mlir::AffineExprKind::Add)
    return *a + *b;
  if (binary.getKind() == mlir::AffineExprKind::Mul)
    return *a * *b;
  if (*a < 0)
    return std::nullopt;
  return binary.getKind() == mlir::AffineExprKind::Mod ? *a % *b : *a / *b;
}

} // namespace kfuse::test
