#include "passes/simplify/Attention.h"

#include "passes/Generated.h"
#include "passes/simplify/Masks.h"
#include "passes/simplify/Matchers.h"

#include "ir/dialect/SinkSoftmax.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// What lies between the product of scores and the product with the values:
///
///     matmul(q, k) -> scale -> mask -> softmax -> is_nan -> where -> matmul(., v)
///                                         `-----------------^
/// with a sink: mask -> concat -> softmax -> slice.
class Attention {
public:
  explicit Attention(MatmulOp product) : product(product) {}

  /// Finds the ops; true when they are an attention and no other op sees inside.
  bool match() {
    if (!leadsToScores(product.getLhs()) || scores == nullptr || softmaxes != 1)
      return false;
    ops.insert(product);
    return llvm::all_of(ops, [&](Operation *op) {
      return op == product || llvm::all_of(op->getUsers(), [&](Operation *user) { return ops.contains(user); });
    });
  }

  void outline(MasksOfIndices &masks) {
    OpBuilder builder(product);
    llvm::SetVector<Operation *> inside(ops.begin(), ops.end());
    makeMasksOfIndices(masks, inside);
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (!ops.contains(operand.getDefiningOp()) && !isGenerated(operand))
          addPositions(operand, inside);
    SmallVector<Operation *> ordered(inside.getArrayRef());
    llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    llvm::SetVector<Value> inputs;
    for (Operation *op : ordered)
      for (Value operand : op->getOperands())
        if (!inside.contains(operand.getDefiningOp()) && !isSplat(operand))
          inputs.insert(operand);

    auto attention = builder.create<AttentionOp>(product.getLoc(), product->getResultTypes(), inputs.getArrayRef());
    Block &body = attention.getBody().emplaceBlock();
    IRMapping mapping;
    for (Value input : inputs)
      mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
    builder.setInsertionPointToEnd(&body);
    for (Operation *op : ordered) {
      for (Value operand : op->getOperands())
        if (isSplat(operand) && !mapping.contains(operand))
          builder.clone(*operand.getDefiningOp(), mapping);
      builder.clone(*op, mapping);
    }
    builder.create<YieldOp>(product.getLoc(), mapping.lookup(product.getResult()));
    product->replaceAllUsesWith(attention);
    for (Operation *op : llvm::reverse(ordered))
      if (ops.contains(op))
        op->erase();
  }

private:
  /// A mask that is known now is computed inside, where a kernel sees which keys count.
  void makeMasksOfIndices(MasksOfIndices &masks, llvm::SetVector<Operation *> &inside) {
    SmallVector<Value> pending;
    for (Operation *op : ops)
      for (OpOperand &operand : op->getOpOperands())
        if (isElementwise(op) && !ops.contains(operand.get().getDefiningOp()))
          if (Value made = masks.of(operand.get())) {
            operand.set(made);
            pending.push_back(made);
          }
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      if (!isSplat(value) && madeOps.insert(value.getDefiningOp()).second)
        llvm::append_range(pending, value.getDefiningOp()->getOperands());
    }
    inside.insert(madeOps.begin(), madeOps.end());
  }

  static bool isSplat(Value value) { return value.getDefiningOp<ConstantOp>() && splatValue(value); }

  /// Adds what compares run-time positions with indices, the mask of a cache, so that a kernel sees how many keys
  /// count; it stays outside as well for other users.
  static void addPositions(Value mask, llvm::SetVector<Operation *> &inside) {
    llvm::SetVector<Operation *> found;
    SmallVector<Value> pending{mask};
    bool hasIndex = false;
    while (!pending.empty()) {
      Value value = pending.pop_back_val();
      auto op = value.getDefiningOp<FusableOpInterface>();
      bool isInteger = dtypeOf(value.getType()) == DType::Bool || !isFloat(dtypeOf(value.getType()));
      bool isCheap = op && (op.getOpKind() == OpKind::Generator || op.getOpKind() == OpKind::Pointwise ||
                            isa<ReshapeOp, BroadcastOp>(*op));
      if (!isInteger || !isCheap || isa<ConstantOp>(*op))
        continue;
      hasIndex |= isa<IotaOp>(*op);
      if (found.insert(op))
        llvm::append_range(pending, op->getOperands());
    }
    constexpr size_t mostPositionOps = 8;
    if (!hasIndex)
      return;
    if (found.size() > mostPositionOps) // What does not depend on an index is computed once, in front.
      found = ofIndices(found.takeVector());
    if (found.size() <= mostPositionOps)
      inside.insert(found.begin(), found.end());
  }
  /// Those that depend on a row's or a key's number.
  static llvm::SetVector<Operation *> ofIndices(SmallVector<Operation *> ops) {
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    llvm::SetVector<Operation *> moving;
    for (Operation *op : ops)
      if (isa<IotaOp>(op) ||
          llvm::any_of(op->getOperands(), [&](Value operand) { return moving.contains(operand.getDefiningOp()); }))
        moving.insert(op);
    return moving;
  }

  /// Whether `value` is scores with a sink beside them, or weights that it has been taken from.
  static bool movesSink(Value value) {
    if (auto slice = value.getDefiningOp<SliceOp>()) {
      auto softmax = slice.getOperand().getDefiningOp<SoftmaxOp>();
      return softmax && SinkSoftmax(softmax).weights == value;
    }
    auto softmax = value.hasOneUse() ? dyn_cast<SoftmaxOp>(*value.user_begin()) : SoftmaxOp();
    return softmax && SinkSoftmax(softmax).sink;
  }

  /// Collects the ops from `value` back to the product of scores.
  bool leadsToScores(Value value) {
    constexpr size_t mostSeen = 512; // Masks are computed by a few dozen ops.
    Operation *op = value.getDefiningOp();
    if (!op || ops.size() > 16)
      return false;
    if (ops.contains(op))
      return true;
    if (seen.size() == mostSeen || !seen.insert(op).second)
      return false;
    if (isa<MatmulOp>(op)) {
      scores = op;
      ops.insert(op);
      return true;
    }
    if (!isElementwise(op) && !isa<SoftmaxOp, ReshapeOp, PrefixOp>(op) && !movesSink(value))
      return false;
    bool leads = false;
    for (Value operand : op->getOperands())
      leads |= leadsToScores(operand);
    if (leads) {
      softmaxes += isa<SoftmaxOp>(op);
      ops.insert(op);
    }
    return leads;
  }

  MatmulOp product;
  Operation *scores = nullptr;
  int softmaxes = 0;
  llvm::SetVector<Operation *> ops;
  llvm::DenseSet<Operation *> seen, madeOps; ///< The latter make masks of indices.
};

} // namespace

void recogniseAttention(func::FuncOp function) {
  SmallVector<MatmulOp> products(function.getBody().getOps<MatmulOp>());
  MasksOfIndices masks;
  for (MatmulOp product : products) {
    Attention attention(product);
    if (attention.match())
      attention.outline(masks);
  }
  // Masks that are computed inside. Other layers asked for them until now.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace kfuse::passes
