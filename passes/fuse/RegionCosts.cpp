#include "passes/fuse/RegionCosts.h"

#include "passes/ComputedByReaders.h"
#include "passes/Generated.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// A state is read through its old value only before its update: not inside the same region.
bool readsUpdatedState(Block &body) {
  for (auto update : body.getOps<StateUpdateOp>())
    if (!update.getState().hasOneUse())
      return true;
  return false;
}

/// Whether an op of the region computes `value` from what comes in; dequantising is part of reading.
bool isComputedInside(Value value) {
  auto op = value.getDefiningOp<FusableOpInterface>();
  if (!op || op.getOpKind() == OpKind::Contraction)
    return false;
  bool moves = op.getOpKind() == OpKind::Layout || op.getOpKind() == OpKind::Generator || isComputedByReaders(op);
  return (!moves && !isGenerated(value)) || llvm::any_of(op->getOperands(), isComputedInside);
}

/// Whether the region reduces rows on the way to `value`.
bool isOfReducedRows(Value value) {
  SmallVector<Value> pending{value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!pending.empty()) {
    auto op = pending.pop_back_val().getDefiningOp<FusableOpInterface>();
    if (!op || op.getOpKind() == OpKind::Contraction || !seen.insert(op).second)
      continue;
    if (op.getOpKind() == OpKind::RowReduction)
      return true;
    llvm::append_range(pending, op->getOperands());
  }
  return false;
}

/// A product reads an element of its operands once for every tile of its result; estimates count none of
/// the work to compute it again each time, but for rows of the left operand that are reduced (a norm): those are
/// computed whole in each block by a template that says what it costs, or not at all.
bool computesOperands(Block &body) {
  return llvm::any_of(body.without_terminator(), [](Operation &op) {
    auto fusable = dyn_cast<FusableOpInterface>(op);
    return fusable && fusable.getOpKind() == OpKind::Contraction &&
           llvm::any_of(op.getOpOperands(), [](OpOperand &operand) {
             return isComputedInside(operand.get()) &&
                    (operand.getOperandNumber() != 0 || !isOfReducedRows(operand.get()));
           });
  });
}

Appraisal appraise(Block &body, const CostModel &model) {
  if (readsUpdatedState(body))
    return {FusionDecision::no("one reads the value of a state that the other overwrites"), {}};
  if (computesOperands(body))
    return {FusionDecision::no(operandsComputedBefore), {}};
  return model.appraise(body);
}

} // namespace

const RegionCost &RegionCosts::of(ArrayRef<Operation *> members) {
  auto [found, isNew] = known.try_emplace(members.vec());
  RegionCost &answer = found->second;
  if (!isNew)
    return answer;
  BuiltRegion region = regions.build(members);
  // A launch takes 4 KB of parameters: 512 pointers, and what else a template passes.
  constexpr size_t mostTensors = 256;
  if (region.inputs.size() + region.outputs.size() > mostTensors && members.size() > 1) {
    answer.decision =
        FusionDecision::no("a kernel reads and writes " + std::to_string(mostTensors) + " tensors at most");
    return answer;
  }
  const auto [decision, cost] = appraise(region.body(), model);
  answer.decision = decision;
  if (!decision)
    return answer;
  if (cost.parts > 1 && !sharing) {
    answer.decision = FusionDecision::no("one has nothing to do with the other");
  } else {
    answer.us = cost.us;
    answer.bytes = cost.bytes;
  }
  return answer;
}

RegionCost RegionCosts::of(BuiltRegion chain) const {
  const auto [decision, cost] = model.appraise(chain.body());
  return decision ? RegionCost{decision, cost.us, cost.bytes, cost.profitabilityThreshold} : RegionCost{decision};
}

} // namespace kfuse::passes
