#include "codegen/PartedRegion.h"

#include "codegen/MakeRegion.h"
#include "ir/dialect/Kfuse.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace kfuse::codegen {
namespace {

bool computes(Operation *op) {
  auto fusable = dyn_cast<ir::FusableOpInterface>(op);
  return !fusable || (fusable.getOpKind() != ir::OpKind::Layout && fusable.getOpKind() != ir::OpKind::Generator);
}

/// What `value` is computed from inside its block, itself included.
llvm::SetVector<Operation *> coneOf(Value value) {
  llvm::SetVector<Operation *> cone;
  if (Operation *op = value.getDefiningOp())
    cone.insert(op);
  for (size_t i = 0; i < cone.size(); ++i)
    for (Value operand : cone[i]->getOperands())
      if (Operation *op = operand.getDefiningOp())
        cone.insert(op);
  return cone;
}

/// Numbers of results that have computed ops in common; in order.
SmallVector<SmallVector<unsigned>> partsOf(ArrayRef<llvm::SetVector<Operation *>> cones) {
  llvm::EquivalenceClasses<unsigned> classes;
  DenseMap<Operation *, unsigned> owner;
  for (auto [i, cone] : llvm::enumerate(cones)) {
    classes.insert(i);
    for (Operation *op : cone)
      if (computes(op))
        classes.unionSets(owner.try_emplace(op, i).first->second, i);
  }
  SmallVector<SmallVector<unsigned>> parts;
  DenseMap<unsigned, unsigned> partOf;
  for (unsigned i = 0; i < cones.size(); ++i) {
    auto [found, isNew] = partOf.try_emplace(classes.getLeaderValue(i), parts.size());
    if (isNew)
      parts.emplace_back();
    parts[found->second].push_back(i);
  }
  return parts;
}

/// The region of some of a body's results.
Result<Region> regionOf(Block &body, ArrayRef<unsigned> results, ArrayRef<llvm::SetVector<Operation *>> cones) {
  OpBuilder builder(body.getParentOp()->getContext());
  OwningOpRef<ir::FusedOp> fused(builder.create<ir::FusedOp>(body.getParentOp()->getLoc(), TypeRange(), ValueRange()));
  Block &part = fused->getBody().emplaceBlock();
  IRMapping mapping;
  for (BlockArgument argument : body.getArguments())
    mapping.map(argument, part.addArgument(argument.getType(), argument.getLoc()));
  builder.setInsertionPointToEnd(&part);
  for (Operation &op : body.without_terminator())
    if (llvm::any_of(results, [&](unsigned result) { return cones[result].contains(&op); }))
      builder.clone(op, mapping);
  SmallVector<Value> yielded;
  for (unsigned result : results)
    yielded.push_back(mapping.lookup(body.getTerminator()->getOperand(result)));
  builder.create<ir::YieldOp>(body.getTerminator()->getLoc(), yielded);
  return makeScalarRegion(part);
}

} // namespace

std::optional<Region> makePartedRegion(Block &body) {
  SmallVector<llvm::SetVector<Operation *>> cones = llvm::map_to_vector(body.getTerminator()->getOperands(), coneOf);
  SmallVector<SmallVector<unsigned>> parts = partsOf(cones);
  if (parts.size() < 2)
    return std::nullopt;
  Region whole;
  std::vector<Part> form;
  whole.graph.outputs.resize(cones.size());
  for (ArrayRef<unsigned> results : parts) {
    Result<Region> part = regionOf(body, results, cones);
    if (!part)
      return std::nullopt;
    whole.graph.inputs = part->graph.inputs;
    whole.bytesRead += part->bytesRead;
    whole.bytesWritten += part->bytesWritten;
    whole.tf32 |= part->tf32;
    for (auto [i, result] : llvm::enumerate(results))
      whole.graph.outputs[result] = part->graph.outputs[i];
    form.push_back({std::make_shared<Region>(std::move(*part)), {results.begin(), results.end()}});
  }
  whole.form = std::move(form);
  const Shape &shape = whole.graph.outputs.front().shape;
  whole.graph.domain.extents.assign(shape.begin(), shape.end());
  if (!describe(whole, body))
    return std::nullopt;
  return whole;
}

} // namespace kfuse::codegen
