// If and Loop whose conditions and trip counts are known: the branch that is taken and the loop's steps become part of
// the graph around them.
#include "ir/import/onnx/static/Ops.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Steps of one loop. Exporters count tokens or layers with them; a graph of more is better written otherwise.
constexpr int64_t maxTrips = 4096;

/// What a single number or boolean is, where it is known.
std::optional<int64_t> known(Value value) {
  std::optional<Ints> numbers = Emitter::constantIntegers(value);
  return numbers && numbers->size() == 1 ? std::optional(numbers->front()) : std::nullopt;
}

Values branch(Node &node) {
  std::optional<int64_t> condition = known(node.input(0));
  if (!condition)
    return node.fail("its condition is computed from data, or from shapes that are not known when the model is read; "
                     "export with dynamo=True or at fixed shapes, which leaves one of its branches");
  std::optional<llvm::SmallVector<Value>> results = node.importBody(*condition ? "then_branch" : "else_branch", {});
  return results ? Values(*results) : Values(Value());
}

class LoopSteps {
public:
  explicit LoopSteps(Node &node) : node(node), emit(node.emit) {}

  Values run() {
    std::optional<int64_t> trips = node.input(0) ? known(node.input(0)) : std::optional<int64_t>(maxTrips + 1);
    std::optional<int64_t> goesOn = node.input(1) ? known(node.input(1)) : std::optional<int64_t>(1);
    if (!trips || !goesOn)
      return unknown();
    carried.append(node.allInputs().begin() + std::min<size_t>(2, node.inputCount()), node.allInputs().end());
    scanned.resize(
        std::max<int64_t>(0, static_cast<int64_t>(node.outputCount()) - static_cast<int64_t>(carried.size())));
    for (int64_t step = 0; step < *trips && *goesOn; ++step) {
      if (step == maxTrips)
        return node.fail("it takes over " + llvm::Twine(maxTrips) + " steps; export the model without the loop");
      goesOn = take(step);
      if (node.failed())
        return Value();
      if (!goesOn)
        return unknown();
    }
    return results();
  }

private:
  Value unknown() {
    return node.fail("how often it runs is computed from data, or from shapes that are not known when the model is "
                     "read; export with dynamo=True or at fixed shapes");
  }

  /// One step; whether another follows, where that is known.
  std::optional<int64_t> take(int64_t step) {
    llvm::SmallVector<Value> inputs{emit.reshape(emit.integers(step), {}), emit.splat(1, DType::Bool)};
    llvm::append_range(inputs, carried);
    std::optional<llvm::SmallVector<Value>> outputs = node.importBody("body", inputs);
    if (!outputs)
      return std::nullopt;
    if (outputs->size() != 1 + carried.size() + scanned.size()) {
      node.fail("its body gives " + llvm::Twine(outputs->size()) + " results; it has " +
                llvm::Twine(node.outputCount()));
      return std::nullopt;
    }
    auto next = outputs->begin();
    std::optional<int64_t> goesOn = known(*next++);
    for (Value &value : carried)
      value = *next++;
    for (llvm::SmallVector<Value> &values : scanned)
      values.push_back(*next++);
    return goesOn;
  }

  Values results() {
    llvm::SmallVector<Value> all(carried);
    for (llvm::SmallVector<Value> &values : scanned) {
      if (values.empty())
        return node.fail("it runs no step, which leaves results without a shape; a simplifier (onnxsim) removes it");
      for (Value &value : values) {
        Ints shape(dimsOf(value));
        shape.insert(shape.begin(), 1);
        value = emit.reshape(value, shape);
      }
      all.push_back(emit.concat(values, 0));
    }
    return all.empty() ? Values(node.fail("it gives no results")) : Values(all);
  }

  Node &node;
  Emitter &emit;
  llvm::SmallVector<Value> carried;
  llvm::SmallVector<llvm::SmallVector<Value>> scanned; ///< By result, then by step.
};

Values loop(Node &node) { return LoopSteps(node).run(); }

constexpr OnnxOp table[] = {
    {"If", 1, 1, branch, "else_branch then_branch"},
    {"Loop", 0, anyNumber, loop, "body"},
};

} // namespace

llvm::ArrayRef<OnnxOp> controlFlowOps() { return table; }

} // namespace kfuse::ir::onnx
