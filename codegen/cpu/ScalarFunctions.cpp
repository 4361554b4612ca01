#include "codegen/cpu/ScalarFunctions.h"

#include <array>
#include <cassert>
#include <limits>

namespace kfuse::codegen::cpu {
namespace {

struct FunctionRow {
  std::string_view name;
  ScalarFunction onFloat, onI32, onI64, onBool;
};

constexpr ScalarFunction none{};
constexpr ScalarFunction op(std::string_view text) { return {text, {}}; }
constexpr ScalarFunction call(std::string_view callee) { return {{}, callee}; }

constexpr std::array functionRows{
    FunctionRow{"relu", call("relu"), call("relu_i32"), call("relu_i64"), none},
    FunctionRow{"gelu", call("gelu"), none, none, none},
    FunctionRow{"gelu_tanh", call("gelu_tanh"), none, none, none},
    FunctionRow{"silu", call("silu"), none, none, none},
    FunctionRow{"sigmoid", call("sigmoid"), none, none, none},
    FunctionRow{"tanh", call("tanh"), none, none, none},
    FunctionRow{"erf", call("erf"), none, none, none},
    FunctionRow{"exp", call("exp"), none, none, none},
    FunctionRow{"expm1", call("expm1"), none, none, none},
    FunctionRow{"log", call("log"), none, none, none},
    FunctionRow{"log1p", call("log1p"), none, none, none},
    FunctionRow{"sqrt", op("math.sqrt"), none, none, none},
    FunctionRow{"rsqrt", call("rsqrt"), none, none, none},
    FunctionRow{"reciprocal", call("reciprocal"), none, none, none},
    FunctionRow{"sin", call("sin"), none, none, none},
    FunctionRow{"cos", call("cos"), none, none, none},
    FunctionRow{"atan", call("atan"), none, none, none},
    FunctionRow{"round", op("math.roundeven"), none, none, none},
    FunctionRow{"round_to_f16", call("round_to_f16"), none, none, none},
    FunctionRow{"round_to_bf16", call("round_to_bf16"), none, none, none},
    FunctionRow{"floor", op("math.floor"), none, none, none},
    FunctionRow{"neg", op("arith.negf"), call("neg_i32"), call("neg_i64"), none},
    FunctionRow{"abs", op("math.absf"), op("math.absi"), op("math.absi"), none},
    FunctionRow{"not", none, none, none, call("not")},
    FunctionRow{"is_nan", call("is_nan"), none, none, none},
    FunctionRow{"add", op("arith.addf"), op("arith.addi"), op("arith.addi"), none},
    FunctionRow{"sub", op("arith.subf"), op("arith.subi"), op("arith.subi"), none},
    FunctionRow{"mul", op("arith.mulf"), op("arith.muli"), op("arith.muli"), none},
    FunctionRow{"div", op("arith.divf"), call("div_i32"), call("div_i64"), none},
    FunctionRow{"max", op("arith.maximumf"), op("arith.maxsi"), op("arith.maxsi"), op("arith.ori")},
    FunctionRow{"min", op("arith.minimumf"), op("arith.minsi"), op("arith.minsi"), op("arith.andi")},
    FunctionRow{"pow", call("pow"), none, none, none},
    FunctionRow{"mod", call("mod"), call("mod_i32"), call("mod_i64"), none},
    FunctionRow{"rem", call("rem"), call("rem_i32"), call("rem_i64"), none},
    FunctionRow{"and", none, op("arith.andi"), op("arith.andi"), op("arith.andi")},
    FunctionRow{"or", none, op("arith.ori"), op("arith.ori"), op("arith.ori")},
    FunctionRow{"eq", op("arith.cmpf oeq,"), op("arith.cmpi eq,"), op("arith.cmpi eq,"), op("arith.cmpi eq,")},
    FunctionRow{"ne", op("arith.cmpf une,"), op("arith.cmpi ne,"), op("arith.cmpi ne,"), op("arith.cmpi ne,")},
    FunctionRow{"lt", op("arith.cmpf olt,"), op("arith.cmpi slt,"), op("arith.cmpi slt,"), op("arith.cmpi ult,")},
    FunctionRow{"le", op("arith.cmpf ole,"), op("arith.cmpi sle,"), op("arith.cmpi sle,"), op("arith.cmpi ule,")},
    FunctionRow{"gt", op("arith.cmpf ogt,"), op("arith.cmpi sgt,"), op("arith.cmpi sgt,"), op("arith.cmpi ugt,")},
    FunctionRow{"ge", op("arith.cmpf oge,"), op("arith.cmpi sge,"), op("arith.cmpi sge,"), op("arith.cmpi uge,")},
    FunctionRow{"where", op("arith.select"), op("arith.select"), op("arith.select"), op("arith.select")},
};

struct CastRow {
  DType from, to;
  ScalarFunction function;
};

constexpr std::array castRows{
    CastRow{DType::F32, DType::I32, call("f32_to_i32")},   CastRow{DType::F32, DType::I64, call("f32_to_i64")},
    CastRow{DType::F32, DType::Bool, call("f32_to_bool")}, CastRow{DType::I32, DType::F32, op("arith.sitofp")},
    CastRow{DType::I64, DType::F32, op("arith.sitofp")},   CastRow{DType::Bool, DType::F32, op("arith.uitofp")},
    CastRow{DType::I32, DType::I64, op("arith.extsi")},    CastRow{DType::I64, DType::I32, op("arith.trunci")},
    CastRow{DType::Bool, DType::I32, op("arith.extui")},   CastRow{DType::Bool, DType::I64, op("arith.extui")},
    CastRow{DType::I32, DType::Bool, call("i32_to_bool")}, CastRow{DType::I64, DType::Bool, call("i64_to_bool")},
};

constexpr std::array reductions{
    Reduction{"sum", "add", "add", "add", Neutral::Zero},
    Reduction{"max", "max", "maximumf", "maxsi", Neutral::Lowest},
    Reduction{"min", "min", "minimumf", "minsi", Neutral::Highest},
};

// Functions.inc holds the files of functions/ as one string literal.
constexpr std::string_view library =
#include "codegen/cpu/Functions.inc"
    ;

/// The text of one library function, from its comment-free first line to its closing brace.
std::string_view functionText(std::string_view name) {
  std::size_t begin = library.find("func.func private @" + std::string(name) + "(");
  assert(begin != std::string_view::npos && "a table names a function that functions/ lacks");
  return library.substr(begin, library.find("\n}\n", begin) + 3 - begin);
}

void addFunction(std::string_view name, std::set<std::string_view> &added, std::string &text) {
  if (!added.insert(name).second)
    return;
  constexpr std::string_view call = "func.call @";
  std::string_view function = functionText(name);
  for (std::size_t at = function.find(call); at != std::string_view::npos; at = function.find(call, at + 1)) {
    std::string_view callee = function.substr(at + call.size());
    addFunction(callee.substr(0, callee.find('(')), added, text);
  }
  text += std::string(function) + "\n";
}

} // namespace

const ScalarFunction *findFunction(std::string_view name, DType type) {
  for (const FunctionRow &row : functionRows) {
    if (row.name != name)
      continue;
    const ScalarFunction &function = isFloat(type)        ? row.onFloat
                                     : type == DType::I32 ? row.onI32
                                     : type == DType::I64 ? row.onI64
                                                          : row.onBool;
    return function.op.empty() && function.callee.empty() ? nullptr : &function;
  }
  return nullptr;
}

const ScalarFunction *findCast(DType from, DType to) {
  for (const CastRow &row : castRows)
    if (row.from == from && row.to == to)
      return &row.function;
  return nullptr;
}

std::string libraryText(const std::set<std::string_view> &callees) {
  std::set<std::string_view> added;
  std::string text;
  for (std::string_view callee : callees)
    addFunction(callee, added, text);
  return text;
}

const Reduction *findReduction(std::string_view name) {
  for (const Reduction &reduction : reductions)
    if (reduction.name == name)
      return &reduction;
  return nullptr;
}

double Reduction::neutralReal() const {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return neutral == Neutral::Zero ? 0 : neutral == Neutral::Lowest ? -infinity : infinity;
}

std::int64_t Reduction::neutralInteger(DType type) const {
  if (neutral == Neutral::Zero)
    return 0;
  const bool isLowest = neutral == Neutral::Lowest;
  if (type == DType::Bool)
    return !isLowest;
  if (type == DType::I32)
    return isLowest ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int32_t>::max();
  return isLowest ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

} // namespace kfuse::codegen::cpu
