// What each scalar function is in MLIR.
#pragma once

#include "kfuse/types.h"

#include <set>
#include <string>
#include <string_view>

namespace kfuse::codegen::cpu {

/// How a scalar function is written for operands of one type.
struct ScalarFunction {
  std::string_view op;       ///< "arith.addf", "arith.cmpf olt,"; empty where `callee` computes it.
  std::string_view callee{}; ///< A function of the library.
};

/// The function's row for operands of `type`: its last operand's, which is not the condition of a
/// `where`. Null when there is none.
const ScalarFunction *findFunction(std::string_view name, DType type);

/// The same for a conversion between two types a value is computed in.
const ScalarFunction *findCast(DType from, DType to);

/// The text of library functions and of those they call, callees first.
std::string libraryText(const std::set<std::string_view> &callees);

/// What changes nothing of what it is reduced with, among the values of any type.
enum class Neutral { Zero, Lowest, Highest };

struct Reduction {
  std::string_view name;
  std::string_view function;               ///< What combines two elements: a row of findFunction().
  std::string_view floatKind, integerKind; ///< The names that vector.reduction has for it.
  Neutral neutral;

  double neutralReal() const;
  /// Among the values of an integer type, or of booleans.
  std::int64_t neutralInteger(DType type) const;
};
/// Null where there is no such reduction.
const Reduction *findReduction(std::string_view name);

} // namespace kfuse::codegen::cpu
