#include "passes/Passes.h"
#include "passes/fuse/Partition.h"
#include "passes/fuse/WideConcats.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Writes a partition out: the block's ops become kfuse.fused ops, constants and views.
class RegionEmitter {
public:
  RegionEmitter(Block &block, const Partition &partition)
      : block(block), partition(partition), builder(block.getTerminator()) {}

  void run() {
    SmallVector<Operation *> old;
    for (Operation &op : block.without_terminator())
      if (!isa<ConstantOp>(op))
        old.push_back(&op);
    for (const Launched &launch : partition.launches())
      emit(launch);
    Operation *terminator = block.getTerminator();
    llvm::DenseSet<Value> returned;
    for (OpOperand &operand : terminator->getOpOperands()) {
      Value result = stored(operand.get()), memory = peelReshapes(result);
      bool isTaken = memory.getDefiningOp<FusedOp>() && !returned.insert(memory).second;
      operand.set(isTaken ? copied(result) : result);
    }
    for (Operation *op : llvm::reverse(old))
      op->erase();
    for (ConstantOp constant : llvm::make_early_inc_range(block.getOps<ConstantOp>()))
      if (constant->use_empty())
        constant.erase();
  }

private:
  void emit(const Launched &launch) {
    BuiltRegion region = partition.regionOf(launch.layers);
    SmallVector<Value> inputs;
    for (Value input : region.inputs)
      inputs.push_back(stored(input));
    FusedOp fused = region.op.release();
    fused->setOperands(inputs);
    markAttention(fused);
    builder.insert(fused);
    for (auto [before, after] : llvm::zip_equal(region.outputs, fused.getResults()))
      results[before] = after;
  }

  /// The ops' mark moves to their kernel, so that regions of several layers stay equal.
  static void markAttention(FusedOp fused) {
    for (Operation &op : fused.getBody().front())
      if (Attribute number = op.removeAttr(attentionAttrName))
        fused->setAttr(attentionAttrName, number);
  }

  /// A result is written into the caller's memory for it: one that is returned twice is copied.
  Value copied(Value value) {
    auto copy = builder.create<FusedOp>(value.getLoc(), TypeRange(value.getType()), value);
    Block &body = copy.getBody().emplaceBlock();
    Value inside = body.addArgument(value.getType(), value.getLoc());
    OpBuilder::atBlockEnd(&body).create<YieldOp>(value.getLoc(), inside);
    return copy->getResult(0);
  }

  /// The value in memory that stands for one of the old block: a region's result, or a view of one.
  Value stored(Value value) {
    SmallVector<ReshapeOp> views;
    Value memory = value; // Else an argument or a constant.
    for (; !results.contains(memory); memory = views.back().getOperand()) {
      auto view = memory.getDefiningOp<ReshapeOp>();
      if (!view)
        break;
      views.push_back(view);
    }
    if (Value known = results.lookup(memory))
      memory = known;
    for (ReshapeOp view : llvm::reverse(views)) {
      memory = builder.create<ReshapeOp>(view.getLoc(), view.getType(), memory);
      results[view] = memory;
    }
    return memory;
  }

  Block &block;
  const Partition &partition;
  OpBuilder builder;
  DenseMap<Value, Value> results;
};

struct FusePass : PassWrapper<FusePass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FusePass)
  explicit FusePass(const CostModel &model) : model(model) {}
  StringRef getArgument() const override { return "kfuse-fuse"; }
  StringRef getDescription() const override { return "Every op into one kfuse.fused that a kernel template takes"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.getBody().hasOneBlock()) {
      function.emitError("fusion takes functions of one block");
      return signalPassFailure();
    }
    Block &block = function.getBody().front();
    eraseDead(block);
    splitWideConcats(block);
    Partition partition(block, model);
    if (failed(partition.run()))
      return signalPassFailure();
    partition.formChains();
    setFusionRefusals(function, partition.refusals());
    setFusionSavings(function, {partition.unfusedTotals(), partition.totals()});
    RegionEmitter(block, partition).run();
  }

  const CostModel &model;
};

} // namespace

void eraseDead(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

std::unique_ptr<Pass> createFusePass(const CostModel &model) { return std::make_unique<FusePass>(model); }

} // namespace kfuse::passes
