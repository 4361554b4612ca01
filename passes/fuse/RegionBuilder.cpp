#include "passes/fuse/RegionBuilder.h"

#include "passes/ComputedByReaders.h"
#include "passes/Generated.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {

Value peelReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

Transparency::Transparency(Block &block) {
  for (Operation &op : block.without_terminator()) {
    auto fusable = dyn_cast<FusableOpInterface>(op);
    if (fusable && (fusable.getOpKind() == OpKind::Layout || isComputedByReaders(&op) || isGenerated(op.getResult(0))))
      transparent.insert(&op);
  }
}

bool Transparency::isStored(Value value) const { return !isTransparent(peelReshapes(value).getDefiningOp()); }

void Transparency::forEachSource(Value value, llvm::function_ref<void(Value)> visit) const {
  SmallVector<Value> pending{value};
  llvm::DenseSet<Value> seen;
  while (!pending.empty()) {
    Value next = pending.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (isTransparent(next.getDefiningOp()))
      llvm::append_range(pending, next.getDefiningOp()->getOperands());
    else
      visit(next);
  }
}

bool Transparency::isReadOutside(Value value, ArrayRef<Operation *> members) const {
  if (value.getDefiningOp<StateUpdateOp>()) // The state is the caller's, who reads it whether or not it is returned.
    return true;
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isTransparent(user))
      return isReadOutside(user->getResult(0), members);
    return !llvm::is_contained(members, user);
  });
}

namespace {

/// One region under construction.
class OneRegion {
public:
  OneRegion(const Transparency &transparency, ArrayRef<Operation *> members)
      : transparency(transparency), members(members), memberSet(members.begin(), members.end()),
        builder(members.front()->getContext()) {}

  BuiltRegion build() {
    body = new Block();
    builder.setInsertionPointToEnd(body);
    for (Operation *member : members)
      cloneInside(member);
    SmallVector<Value> yielded;
    for (Operation *member : members)
      for (Value result : member->getResults())
        if (transparency.isReadOutside(result, members)) {
          region.outputs.push_back(result);
          yielded.push_back(mapping.lookup(result));
        }
    Location location = members.back()->getLoc();
    builder.create<YieldOp>(location, yielded);
    OpBuilder detached(builder.getContext());
    region.op = detached.create<FusedOp>(location, ValueRange(region.outputs).getTypes(), region.inputs);
    region.op->getBody().push_back(body);
    return std::move(region);
  }

private:
  void cloneInside(Operation *op) {
    for (Value operand : op->getOperands())
      resolve(operand);
    builder.clone(*op, mapping);
  }

  /// Makes `value` available inside: computed again when it is transparent, else as an input.
  void resolve(Value value) {
    if (mapping.contains(value))
      return;
    Operation *op = value.getDefiningOp();
    bool isInside = transparency.isTransparent(op) && !(isa<ReshapeOp>(op) && isStoredOutside(value));
    if (isInside)
      return cloneInside(op);
    region.inputs.push_back(value);
    mapping.map(value, body->addArgument(value.getType(), value.getLoc()));
  }

  bool isStoredOutside(Value value) const {
    return transparency.isStored(value) && !memberSet.contains(peelReshapes(value).getDefiningOp());
  }

  const Transparency &transparency;
  ArrayRef<Operation *> members;
  llvm::SmallDenseSet<Operation *> memberSet;
  OpBuilder builder;
  Block *body = nullptr;
  IRMapping mapping;
  BuiltRegion region;
};

/// A region of regions under construction.
class OneChain {
public:
  OneChain(const Transparency &transparency, ArrayRef<SmallVector<Operation *>> layers)
      : transparency(transparency), builder(layers.front().front()->getContext()) {
    for (const SmallVector<Operation *> &layer : layers)
      llvm::append_range(members, layer);
  }

  BuiltRegion build(ArrayRef<SmallVector<Operation *>> layers) {
    body = new Block();
    builder.setInsertionPointToEnd(body);
    SmallVector<Value> yielded;
    for (const SmallVector<Operation *> &layer : layers) {
      BuiltRegion built = OneRegion(transparency, layer).build();
      SmallVector<Value> inputs;
      for (Value input : built.inputs)
        inputs.push_back(resolve(input));
      FusedOp fused = built.op.release();
      fused->setOperands(inputs);
      builder.insert(fused);
      for (auto [outside, inside] : llvm::zip_equal(built.outputs, fused.getResults())) {
        mapping.map(outside, inside);
        if (!transparency.isReadOutside(outside, members))
          continue;
        region.outputs.push_back(outside);
        yielded.push_back(inside);
      }
    }
    Location location = members.back()->getLoc();
    builder.create<YieldOp>(location, yielded);
    OpBuilder detached(builder.getContext());
    region.op = detached.create<FusedOp>(location, ValueRange(region.outputs).getTypes(), region.inputs);
    region.op->getBody().push_back(body);
    return std::move(region);
  }

private:
  /// A layer's result or a view of one, else an input of the chain.
  Value resolve(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    auto view = value.getDefiningOp<ReshapeOp>();
    if (view && mapping.contains(peelReshapes(value))) {
      resolve(view.getOperand());
      builder.clone(*view, mapping);
      return mapping.lookup(value);
    }
    region.inputs.push_back(value);
    mapping.map(value, body->addArgument(value.getType(), value.getLoc()));
    return mapping.lookup(value);
  }

  const Transparency &transparency;
  SmallVector<Operation *> members;
  OpBuilder builder;
  Block *body = nullptr;
  IRMapping mapping;
  BuiltRegion region;
};

} // namespace

BuiltRegion RegionBuilder::chain(ArrayRef<SmallVector<Operation *>> layers) const {
  return OneChain(transparency, layers).build(layers);
}

BuiltRegion RegionBuilder::build(ArrayRef<Operation *> members) const {
  return OneRegion(transparency, members).build();
}

} // namespace kfuse::passes
