// Masks of attention that are known when the model is compiled.
#pragma once

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace kfuse::passes {

/// Masks [..., rows, keys] that depend on constants alone and hold two values, one of them for all keys that a causal
/// mask, a sliding window or chunks of keys let a row see: the same values made of indices, so that a kernel need
/// neither read the mask nor look at other keys.
class MasksOfIndices {
public:
  /// What is made of indices in place of `mask`, behind its op; null for any other mask. Neither must be erased while
  /// more are asked for.
  mlir::Value of(mlir::Value mask);

private:
  llvm::DenseMap<mlir::Value, mlir::Value> made; ///< All layers share a mask.
};

} // namespace kfuse::passes
