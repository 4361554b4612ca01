#include "codegen/cuda/text/ValuePrinter.h"

#include "codegen/InternalError.h"
#include "codegen/cuda/text/ScalarFunctions.h"
#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Guard;
using ir::Scalar;
using ir::ScalarNode;

StringRef storedType(DType type) {
  // Packed elements are loaded as bytes.
  constexpr std::array<StringRef, 12> names{"float",       "f16",           "bf16",          "int",
                                            "long long",   "bool",          "f8e4m3",        "f8e5m2",
                                            "signed char", "unsigned char", "unsigned char", "unsigned char"};
  return names[static_cast<size_t>(type)];
}

StringRef valueType(DType type) { return storedType(ir::computeType(type)); }

std::string integerText(int64_t value, DType type) {
  if (type == DType::Bool)
    return value != 0 ? "true" : "false";
  const std::string suffix = type == DType::I64 ? "ll" : "";
  const int64_t lowest =
      type == DType::I64 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<std::int32_t>::min();
  if (value == lowest) // A minus and a number that the type does not have.
    return "(" + std::to_string(value + 1) + suffix + " - 1)";
  std::string digits = std::to_string(value) + suffix;
  return value < 0 ? "(" + digits + ")" : digits;
}

std::string literalText(double value) {
  auto single = static_cast<float>(value);
  if (std::isnan(single))
    return "notANumber";
  if (std::isinf(single))
    return single < 0 ? "(-infinity)" : "infinity";
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.9g", single);
  std::string text = digits.data();
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  text += "f";
  return single < 0 ? "(" + text + ")" : text;
}

/// Floats become integers by a conversion that saturates everywhere.
static std::string castText(const std::string &value, DType from, DType to) {
  const bool truncates = isFloat(from) && (to == DType::I32 || to == DType::I64);
  return ((truncates ? "truncated<" : "static_cast<") + valueType(to) + ">(" + value + ")").str();
}

ValuePrinter ValuePrinter::within(unsigned dim, std::string name) const {
  ValuePrinter inner = *this;
  inner.dims[dim] = std::move(name);
  return inner;
}

std::string ValuePrinter::value(Scalar s) {
  const ScalarNode &node = graph[s];
  if (node.kind == ScalarNode::Kind::Constant)
    return isFloat(node.type) ? literalText(node.constant) : integerText(node.integer, node.type);
  if (auto found = known.find(s.id); found != known.end())
    return found->second;
  std::string text = print(s), name = "v" + std::to_string(s.id);
  std::string what = node.kind == ScalarNode::Kind::Apply  ? node.function
                     : node.kind == ScalarNode::Kind::Cast ? "cast"
                                                           : "";
  writer->line("const " + valueType(node.type) + " " + name + " = " + text + ";" + (what.empty() ? "" : " // " + what));
  known[s.id] = name;
  return name;
}

std::string ValuePrinter::print(Scalar s) {
  const ScalarNode &node = graph[s];
  auto operands = llvm::map_to_vector(node.operands, [&](Scalar operand) { return value(operand); });
  switch (node.kind) {
  case ScalarNode::Kind::Load:
    return loadText ? loadText(s) : elementText(s);
  case ScalarNode::Kind::Index:
    return offset(node.index, node.symbols);
  case ScalarNode::Kind::Apply:
    if (node.function == "div" && reciprocals.count(node.operands[1].id))
      return operands[0] + " * " + reciprocals[node.operands[1].id];
    return scalarText(node.function, operands, graph[node.operands.back()].type, accuracyOf(graph.graph));
  case ScalarNode::Kind::Cast:
    return castText(operands[0], graph[node.operands[0]].type, node.type);
  case ScalarNode::Kind::Constant:
  case ScalarNode::Kind::Reduce:
  case ScalarNode::Kind::Contract:
    break;
  }
  throw InternalError("nothing defines %" + std::to_string(s.id) + ", a " +
                      (node.kind == ScalarNode::Kind::Reduce ? "reduction (" + node.function + ")" : "product"));
}

std::string ValuePrinter::elementText(Scalar load) {
  const ScalarNode &node = graph[load];
  std::string where = offset(node.map.getResult(0), node.symbols);
  std::string element = "decode(in" + std::to_string(node.input) + "[" + where + "])";
  std::string when = condition(node.guards, node.symbols);
  return when.empty()
             ? element
             : when + " ? " + element + " : " + (isFloat(node.type) ? literalText(0) : integerText(0, node.type));
}

/// Symbols are values of any integer type; offsets need an Index, conditions the full value.
IndexNames ValuePrinter::names(ArrayRef<Scalar> symbols, bool wide) {
  IndexNames names{dims, {}};
  for (Scalar symbol : symbols)
    names.symbols.push_back(wide ? value(symbol) : "Index(" + value(symbol) + ")");
  return names;
}

std::string ValuePrinter::offset(AffineExpr expr, ArrayRef<Scalar> symbols) {
  return indexText(expr, names(symbols, false));
}

static bool mayBeNegative(AffineExpr expr) {
  bool found = false;
  expr.walk([&](AffineExpr part) {
    auto constant = dyn_cast<AffineConstantExpr>(part);
    found |= isa<AffineSymbolExpr>(part) || (constant && constant.getValue() < 0);
  });
  return found;
}

std::string ValuePrinter::condition(ArrayRef<Guard> guards, ArrayRef<Scalar> symbols) {
  SmallVector<std::string> parts;
  SmallVector<int64_t> symbolExtents(symbols.size(), unknownExtent);
  IndexNames wide = names(symbols, true);
  for (const Guard &guard : guards) {
    std::string index = indexText(guard.index, wide);
    if (mayBeNegative(guard.index) && symbols.empty())
      index = "Index(" + index + ")"; // Unsigned divisors made it unsigned.
    if (guard.low > 0 || mayBeNegative(guard.index))
      parts.push_back(index + " >= " + std::to_string(guard.low));
    if (mayBeNegative(guard.index) || ir::maxOfIndex(guard.index, graph.extents(), symbolExtents) >= guard.high)
      parts.push_back(index + " < " + std::to_string(guard.high));
  }
  return llvm::join(parts, " && ");
}

} // namespace kfuse::codegen::cuda
