#include "passes/MemoryPlan.h"

#include "ir/RegionScalars.h"
#include "ir/dialect/Kfuse.h"
#include "passes/OffsetPacking.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

class Planner {
public:
  explicit Planner(func::FuncOp function) : body(function.getBody().front()) {}

  MemoryPlan run() {
    findAliases();
    findLifetimes();
    for (FusedOp fused : body.getOps<FusedOp>()) {
      const Result<ScalarGraph> graph = scalariseRegion(fused.getBody().front());
      for (OpResult result : fused->getResults())
        if (lives(result) && !(graph && reuseInput(fused, *graph, result)))
          newBuffer(result);
    }
    pack();
    return std::move(plan);
  }

private:
  /// Reshapes are their operand's memory; an updated state is the state's.
  void findAliases() {
    for (Operation &op : body.without_terminator()) {
      if (auto reshape = dyn_cast<ReshapeOp>(op))
        plan.aliases[reshape] = reshape.getOperand();
      if (auto fused = dyn_cast<FusedOp>(op))
        for (auto [result, yielded] :
             llvm::zip_equal(fused.getResults(), fused.getBody().front().getTerminator()->getOperands()))
          if (auto update = yielded.getDefiningOp<StateUpdateOp>())
            if (auto state = dyn_cast<BlockArgument>(update.getState()))
              plan.aliases[result] = fused.getInputs()[state.getArgNumber()];
    }
    for (Value returned : body.getTerminator()->getOperands())
      returnedStorage.insert(plan.storageOf(returned));
  }

  /// A step is a kernel; a value lives from the one that computes it to the last that reads it.
  void findLifetimes() {
    int step = 0;
    for (FusedOp fused : body.getOps<FusedOp>()) {
      for (Value input : fused.getInputs())
        lastRead[plan.storageOf(input)] = step;
      for (Value result : fused.getResults())
        lastRead[plan.storageOf(result)] = step;
      stepOf[fused] = step++;
    }
  }

  /// Whether the result takes arena memory: not what the caller owns, nor another value's.
  bool lives(Value result) { return !plan.aliases.count(result) && !returnedStorage.contains(result); }

  void newBuffer(Value result) {
    int64_t bytes = llvm::alignTo(bytesOf(result), arenaAlignment);
    bufferOf[result] = buffers.size();
    buffers.push_back({bytes, {stepOf.lookup(result.getDefiningOp()), lastRead.lookup(result)}, 0});
    plan.separateBytes += bytes;
  }

  /// Puts an elementwise kernel's result into the memory of an input that dies there: each thread reads
  /// the element it then overwrites, and nothing else of that input. A result smaller than what the kernel goes over is
  /// computed several times, and the second time would read what the first has written.
  bool reuseInput(FusedOp fused, const ScalarGraph &graph, OpResult result) {
    if (graph.domain.reductionDim >= 0 || graph.domain.contractionDim >= 0)
      return false;
    for (auto [i, input] : llvm::enumerate(fused.getInputs())) {
      Value storage = plan.storageOf(input);
      auto buffer = bufferOf.find(storage);
      if (buffer == bufferOf.end() || lastRead.lookup(storage) != stepOf.lookup(fused) ||
          overwritten.contains(storage) || !readsOnlyWhereItWrites(graph, i, graph.outputs[result.getResultNumber()]) ||
          llvm::count_if(fused.getInputs(), [&](Value other) { return plan.storageOf(other) == storage; }) != 1)
        continue;
      overwritten.insert(storage);
      const unsigned taken = buffer->second; // Adding to the map moves what the iterator points to.
      bufferOf[result] = taken;
      buffers[taken].lifetime.last = lastRead.lookup(result);
      plan.separateBytes += llvm::alignTo(bytesOf(result), arenaAlignment);
      return true;
    }
    return false;
  }

  static bool readsOnlyWhereItWrites(const ScalarGraph &graph, unsigned input, const ScalarOutput &output) {
    const ScalarInput &source = graph.inputs[input];
    if (elementCount(output.shape) != graph.domain.points() || source.shape != output.shape ||
        byteWidth(source.type) != byteWidth(output.type) || output.inPlace >= 0)
      return false;
    return llvm::all_of(graph.nodes, [&](const ScalarNode &node) {
      return node.kind != ScalarNode::Kind::Load || node.input != input ||
             (node.guards.empty() && node.map == output.map);
    });
  }

  void pack() {
    plan.lowerBoundBytes = mostLiveBytes(buffers);
    plan.arenaBytes = buffers.empty() ? 0 : packOffsets(buffers);
    for (auto [value, buffer] : bufferOf)
      plan.offsets[value] = buffers[buffer].offset;
  }

  Block &body;
  MemoryPlan plan;
  DenseSet<Value> returnedStorage, overwritten;
  DenseMap<Value, int> lastRead;
  DenseMap<Operation *, int> stepOf;
  DenseMap<Value, unsigned> bufferOf;
  SmallVector<PackedBuffer> buffers;
};

} // namespace

Value MemoryPlan::storageOf(Value value) const {
  while (Value next = aliases.lookup(value))
    value = next;
  return value;
}

MemoryPlan planMemory(func::FuncOp function) { return Planner(function).run(); }

} // namespace kfuse::passes
