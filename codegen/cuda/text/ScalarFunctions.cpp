#include "codegen/cuda/text/ScalarFunctions.h"

#include "codegen/InternalError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <array>
#include <cassert>

namespace kfuse::codegen::cuda {
namespace {

enum class Form { Prefix, Infix, Call, CallOfTwo, Select };

struct Row {
  llvm::StringRef function;
  Form form;
  llvm::StringRef spelling;
  int cost = 1;       ///< Instructions, about.
  int narrowCost = 0; ///< Those of its namesake in `narrow`, where there is one.
  bool hasVectorForm = false;
  llvm::StringRef onIntegers{}; ///< A function to call where C++ leaves open what happens past an integer's end.
};

// A function called by name is an overload set in device/base/math.cuh.
constexpr std::array rows{
    Row{"relu", Form::Call, "relu"},
    Row{"gelu", Form::Call, "gelu", 18, 10},
    Row{.function = "gelu_tanh", .form = Form::Call, .spelling = "geluTanh", .cost = 8, .hasVectorForm = true},
    Row{"silu", Form::Call, "silu", 6},
    Row{"sigmoid", Form::Call, "sigmoid", 5},
    Row{"tanh", Form::Call, "tanhf", 14},
    Row{"erf", Form::Call, "erff", 20},
    Row{"exp", Form::Call, "exponential", 3},
    Row{"expm1", Form::Call, "expm1f", 18},
    Row{"log", Form::Call, "logf", 12},
    Row{"log1p", Form::Call, "log1pf", 18},
    Row{"sqrt", Form::Call, "sqrtf", 8},
    Row{"rsqrt", Form::Call, "rsqrtf", 4},
    Row{"reciprocal", Form::Call, "reciprocal", 5},
    Row{"sin", Form::Call, "sinf", 24},
    Row{"cos", Form::Call, "cosf", 24},
    Row{"atan", Form::Call, "atanf", 20},
    Row{"round", Form::Call, "rintf"},
    Row{"round_to_f16", Form::Call, "rounded<f16>", 2},
    Row{"round_to_bf16", Form::Call, "rounded<bf16>", 2},
    Row{"floor", Form::Call, "floorf"},
    Row{.function = "neg", .form = Form::Prefix, .spelling = "-", .onIntegers = "wrappedMinus"},
    Row{"abs", Form::Call, "magnitude"},
    Row{"not", Form::Prefix, "!"},
    Row{"is_nan", Form::Call, "isNan"},
    Row{.function = "add", .form = Form::Infix, .spelling = "+", .onIntegers = "wrappedSum"},
    Row{.function = "sub", .form = Form::Infix, .spelling = "-", .onIntegers = "wrappedDifference"},
    Row{.function = "mul", .form = Form::Infix, .spelling = "*", .onIntegers = "wrappedProduct"},
    Row{"div", Form::CallOfTwo, "divide", 5},
    Row{"max", Form::CallOfTwo, "maximum"},
    Row{"min", Form::CallOfTwo, "minimum"},
    Row{"pow", Form::CallOfTwo, "powf", 50},
    Row{"mod", Form::CallOfTwo, "modulo", 20},
    Row{"rem", Form::CallOfTwo, "rest", 18},
    Row{"and", Form::Infix, "&"},
    Row{"or", Form::Infix, "|"},
    Row{"eq", Form::Infix, "=="},
    Row{"ne", Form::Infix, "!="},
    Row{"lt", Form::Infix, "<"},
    Row{"le", Form::Infix, "<="},
    Row{"gt", Form::Infix, ">"},
    Row{"ge", Form::Infix, ">="},
    Row{"where", Form::Select, ""},
};

const Row *find(llvm::StringRef function) {
  const Row *found = llvm::find_if(rows, [&](const Row &row) { return row.function == function; });
  return found == rows.end() ? nullptr : found;
}

} // namespace

Accuracy accuracyOf(const ir::ScalarGraph &graph) {
  constexpr std::array narrow{DType::BF16, DType::F8E4M3, DType::F8E5M2};
  const bool all = llvm::all_of(
      graph.outputs, [&](const ir::ScalarOutput &output) { return llvm::is_contained(narrow, output.type); });
  return all ? Accuracy::Narrow : Accuracy::Single;
}

int scalarCost(llvm::StringRef function, Accuracy accuracy) {
  const Row *row = find(function);
  if (!row)
    return 1;
  return accuracy == Accuracy::Narrow && row->narrowCost > 0 ? row->narrowCost : row->cost;
}

bool hasVectorForm(llvm::StringRef function) {
  const Row *row = find(function);
  return row && row->hasVectorForm;
}

bool hasScalarFunction(llvm::StringRef function) { return find(function); }

std::vector<NamedFunction> scalarFunctions() {
  std::vector<NamedFunction> all;
  for (const Row &row : rows) {
    const bool isUnary = row.form == Form::Prefix || row.form == Form::Call;
    all.push_back({row.function, isUnary ? 1U : row.form == Form::Select ? 3U : 2U});
  }
  return all;
}

std::string scalarText(llvm::StringRef function, llvm::ArrayRef<std::string> operands, DType type, Accuracy accuracy) {
  const Row *row = find(function);
  if (!row)
    throw InternalError("no CUDA text for the scalar function '" + function.str() + "'");
  if (!isFloat(type) && !row->onIntegers.empty())
    return row->onIntegers.str() + "(" + llvm::join(operands, ", ") + ")";
  std::string spelling = row->spelling.str();
  if (accuracy == Accuracy::Narrow && row->narrowCost > 0)
    spelling = "narrow::" + spelling;
  switch (row->form) {
  case Form::Prefix:
    return spelling + operands[0];
  case Form::Infix:
    return operands[0] + " " + spelling + " " + operands[1];
  case Form::Select:
    return operands[0] + " ? " + operands[1] + " : " + operands[2];
  case Form::Call:
  case Form::CallOfTwo:
    return spelling + "(" + llvm::join(operands, ", ") + ")";
  }
  return "";
}

} // namespace kfuse::codegen::cuda
