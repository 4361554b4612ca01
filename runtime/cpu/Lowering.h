// The way of a kernel's MLIR text to machine code, one step a file.
#pragma once

#include "kfuse/error.h"
#include "runtime/cpu/HostCpu.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstddef>
#include <vector>

namespace kfuse::runtime::cpu {

/// Inlines calls of the functions that return one value (the scalar functions a kernel defines), so
/// that linalg bodies hold arithmetic only, and drops those functions.
void inlineScalarFunctions(mlir::ModuleOp module);

/// Turns every linalg op on a static tile into vector ops as large as the tile; ops that cannot be
/// vectorised become loops.
llvm::LogicalResult vectorizeTiles(mlir::ModuleOp module);

/// Breaks vectors of several dimensions down to one-dimensional loads, stores and arithmetic.
llvm::LogicalResult unrollVectors(mlir::ModuleOp module);

/// Everything left (scf, memref, vector, arith, math, func) to the LLVM dialect, and one C entry
/// `void name(void *const *args, int64_t begin, int64_t end)` per kernel. bf16 is rounded in integer
/// arithmetic where the processor has no instruction for it.
llvm::LogicalResult lowerToLlvm(mlir::ModuleOp module, const HostCpu &cpu);

/// Optimises for `cpu` and writes a relocatable object.
Result<std::vector<std::byte>> emitObject(mlir::ModuleOp module, const HostCpu &cpu, bool contracts);

} // namespace kfuse::runtime::cpu
