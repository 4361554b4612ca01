// Index expressions as CUDA text.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace kfuse::codegen::cuda {

/// What dimensions and symbols are called: names, or expressions in brackets.
struct IndexNames {
  llvm::SmallVector<std::string, 6> dims;
  llvm::SmallVector<std::string, 2> symbols;
};

/// `expr` in C++: "d0 * 768 + (d1 + 32) % 64u". Divisors are unsigned: quotients of non-negative
/// numbers take fewer instructions that way.
std::string indexText(mlir::AffineExpr expr, const IndexNames &names);

/// `const Index d0 = ..., d1 = ...;` which splits the row-major position `linear` over
/// `extents`; "" when there is nothing to name.
std::string splitText(llvm::StringRef linear, llvm::ArrayRef<int64_t> extents, llvm::ArrayRef<std::string> names);

} // namespace kfuse::codegen::cuda
