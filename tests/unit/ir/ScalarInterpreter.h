// A plain interpreter of scalar graphs: every point of the domain, one node at a time, in f64.
#pragma once

#include "AffineValue.h"

#include "ir/Scalar.h"
#include "ir/reference/Tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <vector>

namespace kfuse::test {

using Doubles = std::vector<double>;

/// Scalar functions by name, over f64; integers here are small enough for it.
inline double applyFunction(const std::string &name, const Doubles &x, bool isInteger) {
  using Function = double (*)(const Doubles &);
  static const std::map<std::string, Function> functions{
      {"add", [](const Doubles &x) { return x[0] + x[1]; }},
      {"sub", [](const Doubles &x) { return x[0] - x[1]; }},
      {"mul", [](const Doubles &x) { return x[0] * x[1]; }},
      {"div", [](const Doubles &x) { return x[0] / x[1]; }},
      {"max", [](const Doubles &x) { return std::max(x[0], x[1]); }},
      {"min", [](const Doubles &x) { return std::min(x[0], x[1]); }},
      {"neg", [](const Doubles &x) { return -x[0]; }},
      {"relu", [](const Doubles &x) { return std::max(x[0], 0.0); }},
      {"tanh", [](const Doubles &x) { return std::tanh(x[0]); }},
      {"exp", [](const Doubles &x) { return std::exp(x[0]); }},
      {"rsqrt", [](const Doubles &x) { return 1 / std::sqrt(x[0]); }},
      {"eq", [](const Doubles &x) { return double(x[0] == x[1]); }},
      {"lt", [](const Doubles &x) { return double(x[0] < x[1]); }},
      {"le", [](const Doubles &x) { return double(x[0] <= x[1]); }},
      {"ge", [](const Doubles &x) { return double(x[0] >= x[1]); }},
      {"and", [](const Doubles &x) { return double(x[0] != 0 && x[1] != 0); }},
      {"where", [](const Doubles &x) { return x[0] != 0 ? x[1] : x[2]; }},
  };
  REQUIRE_MESSAGE(functions.count(name), "the interpreter knows no " << name);
  double result = functions.at(name)(x);
  return isInteger && name == "div" ? std::trunc(result) : result;
}

class ScalarInterpreter {
public:
  ScalarInterpreter(const ir::ScalarGraph &graph, const std::vector<Doubles> &inputs) : graph(graph), inputs(inputs) {}

  /// All results; elements that no point stores stay NaN, or what the state held.
  std::vector<Doubles> run() {
    std::vector<Doubles> results;
    for (const ir::ScalarOutput &output : graph.outputs)
      results.push_back(store(output));
    return results;
  }

private:
  using Point = llvm::SmallVector<int64_t>;

  Doubles store(const ir::ScalarOutput &output) {
    Doubles result = output.inPlace >= 0 ? inputs[output.inPlace] : Doubles(elementCount(output.shape), NAN);
    Point point(graph.domain.rank(), 0);
    do {
      Point index = evaluate(output.map.getResults(), point, output.symbols);
      if (std::optional<int64_t> offset = offsetOf(index, output.shape))
        result[*offset] = value(output.value, point);
      else
        CHECK_MESSAGE(output.inPlace >= 0, "a store leaves its result");
    } while (next(point, output));
    return result;
  }

  /// The next point that stores an element of its own: reduced dimensions stay 0 where the map does
  /// not use them.
  bool next(Point &point, const ir::ScalarOutput &output) const {
    for (unsigned i = point.size(); i-- > 0;) {
      bool isHidden = static_cast<int>(i) == graph.domain.contractionDim ||
                      (static_cast<int>(i) == graph.domain.reductionDim && !output.map.isFunctionOfDim(i));
      if (!isHidden && ++point[i] < graph.domain.extents[i])
        return true;
      point[i] = 0;
    }
    return false;
  }

  double value(ir::Scalar scalar, const Point &point) {
    const ir::ScalarNode &node = graph[scalar];
    switch (node.kind) {
    case ir::ScalarNode::Kind::Load:
      return load(node, point);
    case ir::ScalarNode::Kind::Constant:
      return isFloat(node.type) ? node.constant : static_cast<double>(node.integer);
    case ir::ScalarNode::Kind::Index:
      return static_cast<double>(evaluate(node.index, point, node.symbols)[0]);
    case ir::ScalarNode::Kind::Apply: {
      Doubles operands;
      for (ir::Scalar operand : node.operands)
        operands.push_back(value(operand, point));
      return applyFunction(node.function, operands, !isFloat(node.type));
    }
    case ir::ScalarNode::Kind::Cast: {
      double operand = value(node.operands[0], point);
      return isFloat(node.type) ? operand : std::trunc(operand);
    }
    case ir::ScalarNode::Kind::Reduce:
      return reduce(node, point);
    case ir::ScalarNode::Kind::Contract:
      break;
    }
    Point along = point;
    double sum = 0;
    int64_t &k = along[graph.domain.contractionDim];
    for (k = 0; k < graph.domain.extents[graph.domain.contractionDim]; ++k)
      sum += value(node.operands[0], along) * value(node.operands[1], along);
    return sum;
  }

  double reduce(const ir::ScalarNode &node, const Point &point) {
    REQUIRE((node.function == "sum" || node.function == "max" || node.function == "min"));
    Point along = point;
    double result = node.function == "max" ? -INFINITY : node.function == "min" ? INFINITY : 0;
    int64_t &k = along[graph.domain.reductionDim];
    for (k = 0; k < graph.domain.extents[graph.domain.reductionDim]; ++k) {
      double element = value(node.operands[0], along);
      result = node.function == "max"   ? std::max(result, element)
               : node.function == "min" ? std::min(result, element)
                                        : result + element;
    }
    return result;
  }

  double load(const ir::ScalarNode &node, const Point &point) {
    for (const ir::Guard &guard : node.guards) {
      int64_t index = evaluate(guard.index, point, node.symbols)[0];
      if (index < guard.low || index >= guard.high)
        return 0;
    }
    Point index = evaluate(node.map.getResults(), point, node.symbols);
    std::optional<int64_t> offset = offsetOf(index, graph.inputs[node.input].shape);
    CHECK_MESSAGE(offset, "a load leaves input " << node.input);
    return offset ? inputs[node.input][*offset] : NAN;
  }

  Point evaluate(llvm::ArrayRef<mlir::AffineExpr> exprs, const Point &point, llvm::ArrayRef<ir::Scalar> symbols) {
    Point symbolValues, result;
    for (ir::Scalar symbol : symbols)
      symbolValues.push_back(static_cast<int64_t>(value(symbol, point)));
    for (mlir::AffineExpr expr : exprs) {
      std::optional<int64_t> index = valueAt(expr, point, symbolValues);
      CHECK_MESSAGE(index, "a negative index is divided");
      result.push_back(index.value_or(0));
    }
    return result;
  }

  static std::optional<int64_t> offsetOf(llvm::ArrayRef<int64_t> index, const Shape &shape) {
    int64_t offset = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (index[i] < 0 || index[i] >= shape[i])
        return std::nullopt;
      offset = offset * shape[i] + index[i];
    }
    return offset;
  }

  const ir::ScalarGraph &graph;
  const std::vector<Doubles> &inputs;
};

} // namespace kfuse::test
