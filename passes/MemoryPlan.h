// Where the values between kernels live: one arena, shared by values that never live together.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <cstdint>

namespace kfuse::passes {

/// Offsets are multiples of this: no two values share a cache line or a TMA descriptor's alignment.
inline constexpr int64_t arenaAlignment = 256;

/// The memory of one function of kfuse.fused ops, constants and views. Bytes throughout.
struct MemoryPlan {
  /// The place of each kfuse.fused result that lives in the arena. Results that the function returns are not
  /// here: they are computed straight into the caller's memory.
  llvm::DenseMap<mlir::Value, int64_t> offsets;
  /// The value whose memory another one is: of a reshape's operand, of a state that was updated.
  llvm::DenseMap<mlir::Value, mlir::Value> aliases;
  int64_t arenaBytes = 0;
  /// Largest sum of bytes that live at one step: no packing needs less.
  int64_t lowerBoundBytes = 0;
  /// What the values would take side by side.
  int64_t separateBytes = 0;

  /// The argument, constant or kfuse.fused result whose memory `value` is.
  mlir::Value storageOf(mlir::Value value) const;
};

/// Plans a function that went through kfuse-fuse.
MemoryPlan planMemory(mlir::func::FuncOp function);

} // namespace kfuse::passes
