// How the scalar functions of the dialect are written in CUDA.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace kfuse::codegen::cuda {

/// Whether `function`, an op's mnemonic, can be printed. A dialect without gaps passes for every op.
bool hasScalarFunction(llvm::StringRef function);

/// About how many instructions one application takes, for ranking.
int scalarCost(llvm::StringRef function);

/// The expression that applies `function` to operands (plain names). Operands of every type use one
/// text; the device library overloads what differs (kfuse/math.cuh).
std::string scalarText(llvm::StringRef function, llvm::ArrayRef<std::string> operands);

} // namespace kfuse::codegen::cuda
