// How the scalar functions of the dialect are written in CUDA.
#pragma once

#include "ir/Scalar.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace kfuse::codegen::cuda {

/// Whether `function`, an op's mnemonic, can be printed. A dialect without gaps passes for every op.
bool hasScalarFunction(llvm::StringRef function);

struct NamedFunction {
  llvm::StringRef name;
  unsigned operands;
};
/// All that can be printed.
std::vector<NamedFunction> scalarFunctions();

/// What the error of a function is measured by: f32, or results of 8 bits of mantissa and less, for which some have a
/// shorter form.
enum class Accuracy { Single, Narrow };

/// Narrow where every result of the region is stored as bf16 or less.
Accuracy accuracyOf(const ir::ScalarGraph &graph);

/// Whether device/base/math.cuh has a form for the neighbours of a vector, which share work.
bool hasVectorForm(llvm::StringRef function);

/// About how many instructions one application takes, for ranking.
int scalarCost(llvm::StringRef function, Accuracy accuracy);

/// The expression that applies `function` to operands (plain names), the last of which is of `type`. Where a function
/// is called, the device library has overloads for what differs (kfuse/math.cuh).
std::string scalarText(llvm::StringRef function, llvm::ArrayRef<std::string> operands, DType type, Accuracy accuracy);

} // namespace kfuse::codegen::cuda
