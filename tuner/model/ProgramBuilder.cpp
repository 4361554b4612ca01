#include "tuner/model/ProgramBuilder.h"

#include "ir/dialect/Kfuse.h"
#include "ir/reference/Attributes.h"

#include <map>
#include <optional>

using namespace mlir;
using kfuse::runtime::BufferRef;

namespace kfuse::tuner {
namespace {

TensorDesc describe(Value value, StringAttr name, StringRef fallback) {
  TensorDesc desc;
  desc.name = name ? name.str() : fallback.str();
  desc.type = ir::dtypeOf(value.getType());
  desc.shape = ir::shapeOf(value);
  return desc;
}

/// What no model should lead to, and compiling again does not mend.
Error bug(const std::string &what) {
  return {ErrorCode::Internal, "internal error: " + what + "; this is a bug of kfuse, report it with the model"};
}

/// Walks one function and gives every value a place.
class ProgramBuilder {
public:
  ProgramBuilder(func::FuncOp function, const passes::MemoryPlan &memory,
                 const llvm::DenseMap<Operation *, unsigned> &kernelOf)
      : function(function), memory(memory), kernelOf(kernelOf) {}

  Result<runtime::Program> run(const std::vector<runtime::ProgramKernel> &kernels, const std::string &target) {
    program.name = function.getName().str();
    program.target = target;
    program.arenaBytes = memory.arenaBytes;
    describeEdges();
    placeResults();
    for (Operation &op : function.getBody().front())
      visit(op);
    handThroughResults();
    keepKernels(kernels);
    if (failure)
      return *failure;
    if (Result<void> valid = program.validate(); !valid)
      return bug(valid.error().message);
    return std::move(program);
  }

private:
  void describeEdges() {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      program.arguments.push_back(describeArgument(function, i));
      program.roles.push_back(roleOf(function, i));
      places[function.getArgument(i)] = {BufferRef::Space::Argument, i, 0};
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      program.results.push_back(describeResult(function, i));
    program.resultState.assign(program.results.size(), -1);
  }

  /// Values that the function returns are computed straight into the caller's memory.
  void placeResults() {
    for (auto [i, returned] : llvm::enumerate(returnedValues())) {
      Value source = memory.storageOf(returned);
      if (isa_and_nonnull<ir::FusedOp>(source.getDefiningOp()) && !memory.offsets.count(source))
        places.try_emplace(source, BufferRef{BufferRef::Space::Result, static_cast<uint32_t>(i), 0});
    }
  }

  OperandRange returnedValues() { return function.getBody().front().getTerminator()->getOperands(); }

  void visit(Operation &op) {
    if (auto constant = dyn_cast<ir::ConstantOp>(op))
      return addConstant(constant);
    auto fused = dyn_cast<ir::FusedOp>(op);
    if (!fused)
      return;
    runtime::Step step;
    step.kernel = kernelOf.lookup(fused);
    for (Value input : fused.getInputs())
      step.buffers.push_back(placeOf(input));
    for (Value output : fused.getOutputs())
      step.buffers.push_back(placeOf(output));
    program.steps.push_back(std::move(step));
  }

  void addConstant(ir::ConstantOp constant) {
    if (constant->use_empty())
      return;
    Result<reference::HostTensor> tensor = reference::tensorOf(constant.getValue());
    if (!tensor) {
      failure = tensor.error();
      return;
    }
    size_t offset = llvm::alignTo(program.constants.size(), 256);
    program.constants.resize(offset);
    program.constants.insert(program.constants.end(), tensor->bytes.begin(), tensor->bytes.end());
    places[constant.getResult()] = {BufferRef::Space::Constant, 0, offset};
  }

  /// Where a value lives: its own place, its storage's (a view, a state), or the arena.
  BufferRef placeOf(Value value) {
    Value storage = memory.storageOf(value);
    for (Value each : {value, storage})
      if (auto known = places.find(each); known != places.end())
        return known->second;
    if (auto offset = memory.offsets.find(storage); offset != memory.offsets.end())
      return {BufferRef::Space::Arena, 0, static_cast<uint64_t>(offset->second)};
    failure = bug("a value of @" + program.name + " has no place in the memory plan");
    return {};
  }

  /// A result that no kernel wrote into place: an argument or constant handed through, a value returned
  /// twice, or a state updated in place.
  void handThroughResults() {
    for (auto [i, returned] : llvm::enumerate(returnedValues())) {
      BufferRef place = placeOf(returned);
      bool isHere = place.space == BufferRef::Space::Result && place.index == i;
      bool isState = place.space == BufferRef::Space::Argument && program.roles[place.index] == Role::State;
      if (isState)
        program.resultState[i] = static_cast<int>(place.index);
      else if (!isHere)
        program.passThroughs.push_back({static_cast<uint32_t>(i), place});
    }
  }

  /// Only the kernels this function launches, renumbered in order of first use.
  void keepKernels(const std::vector<runtime::ProgramKernel> &kernels) {
    std::map<uint32_t, uint32_t> renumbered;
    for (runtime::Step &step : program.steps) {
      auto [found, isNew] = renumbered.try_emplace(step.kernel, program.kernels.size());
      if (isNew)
        program.kernels.push_back(kernels[step.kernel]);
      step.kernel = found->second;
    }
  }

  func::FuncOp function;
  const passes::MemoryPlan &memory;
  const llvm::DenseMap<Operation *, unsigned> &kernelOf;
  runtime::Program program;
  DenseMap<Value, BufferRef> places;
  std::optional<Error> failure;
};

} // namespace

TensorDesc describeArgument(func::FuncOp function, unsigned index) {
  return describe(function.getArgument(index), function.getArgAttrOfType<StringAttr>(index, ir::nameAttrName),
                  "arg" + std::to_string(index));
}

TensorDesc describeResult(func::FuncOp function, unsigned index) {
  Value value = function.getBody().front().getTerminator()->getOperand(index);
  return describe(value, function.getResultAttrOfType<StringAttr>(index, ir::nameAttrName),
                  "result" + std::to_string(index));
}

Role roleOf(func::FuncOp function, unsigned argument) {
  auto role = function.getArgAttrOfType<StringAttr>(argument, ir::roleAttrName);
  if (role && role.getValue() == "state")
    return Role::State;
  return role && role.getValue() == "input" ? Role::Input : Role::Parameter;
}

Result<runtime::Program> buildProgram(func::FuncOp function, const passes::MemoryPlan &memory,
                                      const llvm::DenseMap<Operation *, unsigned> &kernelOf,
                                      const std::vector<runtime::ProgramKernel> &kernels, const std::string &target) {
  return ProgramBuilder(function, memory, kernelOf).run(kernels, target);
}

} // namespace kfuse::tuner
