// Running passes in tests, and evaluating what came out.
#pragma once

#include "IrText.h"

#include "ir/reference/Evaluator.h"
#include "passes/Pipeline.h"
#include "passes/ScalarFormCostModel.h"

#include "mlir/Pass/PassManager.h"

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace kfuse::test {

using reference::HostTensor;
using reference::Mode;
using reference::Values;

inline const ir::Target &cpuTarget() { return *ir::findTarget("cpu"); }

/// A cost model that refuses regions of more than `most` computing ops, whatever they are.
class SmallRegionsOnly : public passes::ScalarFormCostModel {
public:
  SmallRegionsOnly(const ir::Target &target, size_t most) : ScalarFormCostModel(target), most(most) {}
  ir::Appraisal appraise(mlir::Block &region) const override {
    size_t computing = 0;
    for (mlir::Operation &op : region.without_terminator())
      if (auto fusable = mlir::dyn_cast<ir::FusableOpInterface>(op))
        computing += fusable.getOpKind() != ir::OpKind::Layout && fusable.getOpKind() != ir::OpKind::Generator;
    if (computing > most)
      return {ir::FusionDecision::no("too many ops"), {}};
    return ScalarFormCostModel::appraise(region);
  }

private:
  size_t most;
};

/// Random values for an argument: floats around 0, integers that index something.
inline HostTensor randomArgument(mlir::Value argument, std::uint64_t seed) {
  DType type = ir::dtypeOf(argument.getType());
  Shape shape = ir::shapeOf(argument);
  return isFloat(type) ? reference::uniform(type, shape, seed)
                       : reference::integers(type, shape, seed, 0, type == DType::Bool ? 2 : 3);
}

inline std::string nameOf(mlir::DictionaryAttr attributes, unsigned number) {
  auto name = attributes ? attributes.getAs<mlir::StringAttr>(ir::nameAttrName) : mlir::StringAttr();
  return name ? name.str() : "#" + std::to_string(number);
}

using Arguments = std::map<std::string, HostTensor>;

/// Random tensors for the arguments of a function, by their kfuse.name (or number).
inline Arguments randomArguments(mlir::func::FuncOp function, std::uint64_t seed) {
  Arguments arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    arguments[nameOf(function.getArgAttrDict(i), i)] = randomArgument(function.getArgument(i), seed * 1000 + i);
  return arguments;
}

inline std::vector<Values> evaluate(mlir::func::FuncOp function, const Arguments &arguments, Mode mode = Mode::Exact) {
  std::vector<HostTensor> ordered;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto found = arguments.find(nameOf(function.getArgAttrDict(i), i));
    REQUIRE_MESSAGE(found != arguments.end(), nameOf(function.getArgAttrDict(i), i));
    ordered.push_back(found->second);
  }
  auto results = reference::evaluate(function.getBody().front(), ordered, mode);
  REQUIRE_MESSAGE(results, results.error().message);
  return std::move(*results);
}

/// @prepare, if there is one, then @main: its results.
inline std::vector<Values> evaluateModel(mlir::ModuleOp module, Arguments arguments) {
  if (auto prepare = module.lookupSymbol<mlir::func::FuncOp>("prepare")) {
    std::vector<Values> prepared = evaluate(prepare, arguments);
    for (auto [i, values] : llvm::enumerate(prepared))
      arguments[nameOf(prepare.getResultAttrDict(i), i)] = reference::toTensor(values);
  }
  return evaluate(module.lookupSymbol<mlir::func::FuncOp>("main"), arguments);
}

/// Equal to within `tolerance` of the largest element; NaN and infinity where they were.
inline void checkSame(const std::vector<Values> &got, const std::vector<Values> &expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (size_t result = 0; result < got.size(); ++result) {
    REQUIRE(got[result].shape == expected[result].shape);
    if (!isFloat(expected[result].type)) {
      for (std::int64_t i = 0; i < got[result].size(); ++i)
        CHECK(got[result].integer(i) == expected[result].integer(i));
      continue;
    }
    double largest = 1, worst = 0;
    bool sameSpecials = true;
    for (std::int64_t i = 0; i < got[result].size(); ++i) {
      double a = got[result].real(i), b = expected[result].real(i);
      if (!std::isfinite(b)) {
        sameSpecials &= std::isnan(a) == std::isnan(b) && (std::isnan(a) || a == b);
        continue;
      }
      largest = std::max(largest, std::fabs(b));
      worst = std::isfinite(a) ? std::max(worst, std::fabs(a - b)) : INFINITY;
    }
    CAPTURE(result);
    CHECK(sameSpecials);
    CHECK(worst <= tolerance * largest);
  }
}

/// Runs `passes` on a module; the text of the first error, or nothing.
inline std::string runPasses(mlir::ModuleOp module, const std::function<void(mlir::PassManager &)> &addPasses) {
  std::string message;
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    if (message.empty() && diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
      message = diagnostic.str();
    return mlir::success();
  });
  mlir::PassManager manager(module.getContext());
  addPasses(manager);
  if (failed(manager.run(module)) && message.empty())
    message = "failed without a word";
  return message;
}

} // namespace kfuse::test
