// Evaluating one line of the dialect in tests.
#pragma once

#include "IrText.h"

#include "ir/reference/Evaluator.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace kfuse::test {

using reference::HostTensor;
using reference::Mode;
using reference::Values;

/// MLIR's name of an element type.
inline std::string elementText(DType type) {
  const std::string name(toString(type));
  return type == DType::Bool ? "i1" : name.starts_with('u') ? "ui" + name.substr(1) : name;
}

/// "tensor<2x3xf32>"
inline std::string typeText(const HostTensor &tensor) {
  std::string text = "tensor<";
  for (std::int64_t size : tensor.shape)
    text += std::to_string(size) + "x";
  return text + elementText(tensor.type) + ">";
}

/// A function of %0, %1, ... whose result is `line`, which ends in its result's type.
inline std::string functionText(const std::string &line, const std::vector<HostTensor> &arguments) {
  std::string parameters, type = line.substr(line.rfind(' ') + 1);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    parameters += (i ? ", %arg" : "%arg") + std::to_string(i) + ": " + typeText(arguments[i]);
  return "func.func @f(" + parameters + ") -> " + type + " { %r = " + line + "\n return %r : " + type + " }";
}

inline Values evaluateLine(const std::string &line, const std::vector<HostTensor> &arguments, Mode mode = Mode::Exact) {
  ParsedModule parsed(functionText(line, arguments));
  auto results = reference::evaluate(parsed.body(), arguments, mode);
  REQUIRE_MESSAGE(results, results.error().message);
  REQUIRE(results->size() == 1);
  return results->front();
}

/// A pointwise op over arguments of one shape.
inline Values evaluatePointwise(const std::string &op, const std::vector<HostTensor> &arguments,
                                const std::string &resultType, Mode mode = Mode::Exact) {
  std::string names, types;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    names += (i ? ", %arg" : "%arg") + std::to_string(i);
    types += (i ? ", " : "") + typeText(arguments[i]);
  }
  return evaluateLine("kfuse." + op + " " + names + " : (" + types + ") -> " + resultType, arguments, mode);
}

inline std::vector<double> reals(const Values &values) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < values.size(); ++i)
    result.push_back(values.real(i));
  return result;
}

inline std::vector<std::int64_t> integers(const Values &values) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < values.size(); ++i)
    result.push_back(values.integer(i));
  return result;
}

/// Equal to within `tolerance` relative to the larger of 1 and the expected value; NaN equals NaN.
inline void checkClose(const std::vector<double> &got, const std::vector<double> &expected, double tolerance = 1e-12) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    if (expected[i] != expected[i] || std::isinf(expected[i]))
      CHECK((got[i] == expected[i] || (got[i] != got[i] && expected[i] != expected[i])));
    else
      CHECK(std::fabs(got[i] - expected[i]) <= tolerance * std::max(1.0, std::fabs(expected[i])));
  }
}

} // namespace kfuse::test
