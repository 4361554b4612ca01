// From a fused and planned function to a runtime Program.
#pragma once

#include "passes/MemoryPlan.h"
#include "runtime/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace kfuse::tuner {

/// The program of `function`: a step per kfuse.fused in order, constants as data, free views as aliases.
/// `kernelOf` gives each fused op's index in `kernels`.
Result<runtime::Program> buildProgram(mlir::func::FuncOp function, const passes::MemoryPlan &memory,
                                      const llvm::DenseMap<mlir::Operation *, unsigned> &kernelOf,
                                      const std::vector<runtime::ProgramKernel> &kernels, const std::string &target);

/// Name, type and shape of the function's argument or result `index`.
TensorDesc describeArgument(mlir::func::FuncOp function, unsigned index);
TensorDesc describeResult(mlir::func::FuncOp function, unsigned index);

/// "input", "state"; anything else (a parameter, a prepared value) is fixed between runs.
Role roleOf(mlir::func::FuncOp function, unsigned argument);

} // namespace kfuse::tuner
