#include "codegen/cpu/ScalarText.h"

#include "codegen/InternalError.h"
#include "codegen/cpu/ScalarFunctions.h"

#include "llvm/ADT/StringExtras.h"

namespace kfuse::codegen::cpu {

using ir::Scalar;
using ir::ScalarNode;
using Kind = ScalarNode::Kind;

std::string ScalarText::toCompute(const std::string &value, DType stored) {
  if (stored == DType::Bool)
    return text.let("v", "arith.trunci " + value + " : i8 to i1");
  if (stored == DType::I8 || stored == DType::U8)
    return text.let("v", (stored == DType::I8 ? "arith.extsi " : "arith.extui ") + value + " : i8 to i32");
  if (isFloat8(stored))
    return call(stored == DType::F8E4M3 ? "e4m3_to_f32" : "e5m2_to_f32", value, "i8", "f32");
  if (stored == DType::F16 || stored == DType::BF16)
    return text.let("v", "arith.extf " + value + " : " + storedTypeName(stored) + " to f32");
  return value;
}

std::string ScalarText::toStored(const std::string &value, DType stored) {
  if (stored == DType::Bool)
    return text.let("v", "arith.extui " + value + " : i1 to i8");
  if (stored == DType::I8 || stored == DType::U8)
    return text.let("v", "arith.trunci " + value + " : i32 to i8");
  if (isFloat8(stored))
    return call(stored == DType::F8E4M3 ? "f32_to_e4m3" : "f32_to_e5m2", value, "f32", "i8");
  if (stored == DType::F16 || stored == DType::BF16)
    return text.let("v", "arith.truncf " + value + " : f32 to " + storedTypeName(stored));
  return value;
}

/// e^(x - y) where y is the largest x of its row: the exponent is not above 0.
bool ScalarText::isExpBelowOne(const ScalarNode &apply) const {
  if (apply.kind != Kind::Apply || apply.function != "exp")
    return false;
  const ScalarNode &difference = kernel.graph[apply.operands[0]];
  if (difference.kind != Kind::Apply || difference.function != "sub")
    return false;
  const ScalarNode &largest = kernel.graph[difference.operands[1]];
  return largest.kind == Kind::Reduce && largest.function == "max" &&
         largest.operands[0].id == difference.operands[0].id;
}

std::string ScalarText::apply(const ScalarNode &node, const Names &operands) {
  DType from = kernel.graph[node.operands.back()].type;
  bool isCast = node.kind == Kind::Cast;
  const ScalarFunction *function = isCast ? findCast(from, node.type) : findFunction(node.function, from);
  if (!function)
    throw InternalError("no CPU code for the scalar function '" + node.function + "' of " +
                        std::string(toString(from)));
  std::string op(function->op), list = llvm::join(operands, ", "), result = computeTypeName(node.type);
  if (!op.empty())
    return text.let("v", op + " " + list + " : " + computeTypeName(from) + (isCast ? " to " + result : ""));
  Names types;
  for (Scalar operand : node.operands)
    types.push_back(computeTypeName(kernel.graph[operand].type));
  return call(isExpBelowOne(node) ? "exp_below" : function->callee, list, llvm::join(types, ", "), result);
}

std::string ScalarText::call(std::string_view callee, const std::string &operands, const std::string &types,
                             const std::string &result) {
  kernel.callees.insert(callee);
  return text.let("v", "func.call @" + std::string(callee) + "(" + operands + ") : (" + types + ") -> " + result);
}

std::string ScalarText::combine(std::string_view reduction, DType type, const std::string &a, const std::string &b) {
  const ScalarFunction *function = findFunction(findReduction(reduction)->function, type);
  return text.let("v", std::string(function->op) + " " + a + ", " + b + " : " + computeTypeName(type));
}

} // namespace kfuse::codegen::cpu
