// Which elements no run of some lengths reads: found from the results backwards, kernel by kernel, since what a kernel
// reads is what has to be there.
#include "passes/Lengths.h"
#include "passes/Passes.h"
#include "passes/lengths/LengthMath.h"

#include "ir/OperandReads.h"
#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

Axes wholeOf(Value value) {
  Axes axes;
  for (int64_t size : dimsOf(value))
    axes.push_back(Axis::fixed(size));
  return axes;
}

/// Along each dimension of a value how many of its elements are read in a run: the first ones.
class Reads {
public:
  explicit Reads(func::FuncOp function) {
    Block &block = function.getBody().front();
    for (Value result : block.getTerminator()->getOperands())
      add(result, wholeOf(result));
    visit(block);
  }

  /// Null where nobody reads it.
  const Axes *of(Value value) const {
    auto found = read.find(value);
    return found == read.end() ? nullptr : &found->second;
  }

private:
  /// Where readers differ all elements are read.
  void add(Value value, const Axes &axes) {
    auto [found, isFirst] = read.try_emplace(value, axes);
    for (auto [known, also] : llvm::zip_equal(found->second, axes))
      if (!isFirst && !(known == also))
        known = Axis::fixed(known.size());
  }

  void visit(Block &block) {
    for (Operation &op : llvm::reverse(block.without_terminator()))
      visit(&op);
  }

  void visit(Operation *op) {
    if (isa<FusedOp, AttentionOp>(op))
      return visitRegion(op);
    const Axes *known = of(op->getResult(0));
    if (!known)
      return;
    const Axes axes = *known; // The map may move.
    if (auto prefix = dyn_cast<PrefixOp>(op)) {
      Axes shorter = axes;
      const unsigned axis = prefix.getAxis();
      shorter[axis] = Factor{dimsOf(prefix)[axis], static_cast<int>(prefix.getLength()),
                             static_cast<int64_t>(prefix.getTimes()), static_cast<int64_t>(prefix.getPlus())};
      add(prefix.getOperand(), shorter);
      return add(prefix.getLengths(), wholeOf(prefix.getLengths()));
    }
    if (auto reshape = dyn_cast<ReshapeOp>(op))
      return add(reshape.getOperand(),
                 regroup(axes, dimsOf(reshape.getOperand())).value_or(wholeOf(reshape.getOperand())));
    auto fusable = dyn_cast<FusableOpInterface>(op);
    if (!fusable || fusable.getOpKind() == OpKind::StateUpdate) {
      for (Value operand : op->getOperands())
        add(operand, wholeOf(operand));
      return;
    }
    addOperands(fusable, axes);
  }

  /// Its results are what the region yields, its inputs the arguments.
  void visitRegion(Operation *op) {
    Block &body = op->getRegion(0).front();
    for (auto [result, yielded] : llvm::zip_equal(op->getResults(), body.getTerminator()->getOperands()))
      if (const Axes *axes = of(result))
        add(yielded, Axes(*axes));
    visit(body);
    for (auto [operand, argument] : llvm::zip_equal(op->getOperands(), body.getArguments()))
      if (const Axes *axes = of(argument))
        add(operand, Axes(*axes));
  }

  /// An operand that is read at a dimension's own index is read as far as the result is, along any other all of it.
  void addOperands(FusableOpInterface op, const Axes &axes) {
    MLIRContext *context = op->getContext();
    const ArrayRef<int64_t> dims = dimsOf(op->getResult(0));
    SmallVector<AffineExpr> index;
    for (unsigned dim = 0; dim < dims.size(); ++dim)
      index.push_back(getAffineDimExpr(dim, context));
    const AffineExpr reduction = getAffineDimExpr(dims.size(), context);
    for (auto [operand, reads] : llvm::zip_equal(op->getOperands(), operandReads(op, index, reduction)))
      for (const SmallVector<AffineExpr> &at : reads) {
        Axes needed = wholeOf(operand);
        for (auto [axis, expr, size] : llvm::zip_equal(needed, at, dimsOf(operand)))
          if (auto dim = dyn_cast<AffineDimExpr>(expr); dim && dim.getPosition() < dims.size())
            if (dims[dim.getPosition()] == size)
              axis = axes[dim.getPosition()];
        add(operand, needed);
      }
  }

  llvm::DenseMap<Value, Axes> read;
};

struct TrimRowsPass : PassWrapper<TrimRowsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TrimRowsPass)
  StringRef getArgument() const override { return "kfuse-trim-rows"; }
  StringRef getDescription() const override { return "What no run of its lengths reads need not be computed"; }

  void runOnOperation() override {
    auto lengths = llvm::find_if(getOperation().getArguments(), [](Value argument) { return isLengths(argument); });
    if (lengths == getOperation().getArguments().end())
      return;
    const Reads reads(getOperation());
    for (auto fused : getOperation().getOps<FusedOp>())
      if (fused.getBody().front().getOps<FusedOp>().empty())
        trim(fused, *lengths, reads);
      else
        trimChain(fused, *lengths, reads);
  }

  /// The layers of a chain, where the same rows are read of all: their kernel may take them for one another.
  static void trimChain(FusedOp chain, Value lengths, const Reads &reads) {
    std::optional<Axes> rows;
    for (auto layer : chain.getBody().front().getOps<FusedOp>())
      for (Value yielded : layer.getBody().front().getTerminator()->getOperands()) {
        const Axes *axes = reads.of(yielded);
        if (!axes || axes->size() < 2 || (rows && ArrayRef(*axes).drop_back() != ArrayRef(*rows)))
          return;
        rows.emplace(axes->begin(), axes->end() - 1);
      }
    const auto ends = [](const Axis &axis) { return !axis.factors().empty() && !axis.factors().front().isFixed(); };
    if (!rows || llvm::none_of(*rows, ends))
      return;
    const Value passed = inside(chain, lengths);
    for (auto layer : chain.getBody().front().getOps<FusedOp>())
      trim(layer, passed, reads);
  }

  /// But an updated state, which is the caller's: what a run writes of it its update says.
  static void trim(FusedOp fused, Value lengths, const Reads &reads) {
    Operation *yield = fused.getBody().front().getTerminator();
    for (OpOperand &yielded : yield->getOpOperands()) {
      const Axes *axes = reads.of(yielded.get());
      if (!axes || !isa<RankedTensorType>(yielded.get().getType()) || yielded.get().getDefiningOp<StateUpdateOp>())
        continue;
      OpBuilder builder(yield);
      yielded.set(prefixOf(builder, yielded.get(), *axes, [&] { return inside(fused, lengths); }));
    }
  }

  /// The argument that is `outside` there, a new one if it has none.
  static Value inside(FusedOp fused, Value outside) {
    Block &body = fused.getBody().front();
    for (auto [operand, argument] : llvm::zip_equal(fused.getInputs(), body.getArguments()))
      if (operand == outside)
        return argument;
    fused->insertOperands(fused->getNumOperands(), outside);
    return body.addArgument(outside.getType(), outside.getLoc());
  }
};

} // namespace

std::unique_ptr<Pass> createTrimRowsPass() { return std::make_unique<TrimRowsPass>(); }

} // namespace kfuse::passes
