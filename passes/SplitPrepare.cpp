// @main(inputs, parameters, states) -> @prepare(parameters) -> (prepared), run once per weight set, and
// @main(inputs, parameters, states, prepared).
#include "passes/SplitPrepare.h"

#include "passes/Fixed.h"
#include "passes/Generated.h"
#include "passes/Passes.h"

#include "ir/dialect/Kfuse.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

class Splitter {
public:
  explicit Splitter(func::FuncOp main) : main(main), body(main.getBody().front()), fixed(fixedValues(main)) {}

  void run() {
    findPrepared();
    if (prepared.empty())
      return;
    buildPrepare();
    passPrepared();
    dropUnused();
  }

private:
  void findPrepared() {
    for (Operation &op : body.without_terminator())
      if (!fixed.contains(op.getResult(0)))
        for (Value operand : op.getOperands())
          if (fixed.contains(operand))
            require(operand, &op);
    // A result must be in memory: of views, only a reshape is.
    for (Value returned : body.getTerminator()->getOperands()) {
      while (auto reshape = returned.getDefiningOp<ReshapeOp>())
        returned = reshape.getOperand();
      if (fixed.contains(returned) && returned.getDefiningOp() && !isa<ConstantOp>(returned.getDefiningOp()))
        prepared.insert(returned);
    }
  }

  /// `value` is used by what runs each time: prepared, unless it is at hand or its reader can read it
  /// as a view (that nobody wants stored) or compute it as cheaply.
  void require(Value value, Operation *reader) {
    Operation *op = value.getDefiningOp();
    if (!op || isa<ConstantOp>(op) || isGenerated(value))
      return;
    if (isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp>(op) && !op->hasAttr(storedAttrName))
      return require(op->getOperand(0), reader);
    if (widens(op) && isSummed(reader))
      return require(op->getOperand(0), reader);
    prepared.insert(value);
  }

  /// A cast of narrower floats, which tensor cores multiply.
  static bool widens(Operation *op) {
    if (!isa<CastOp>(op))
      return false;
    const DType from = dtypeOf(op->getOperand(0).getType()), to = dtypeOf(op->getResult(0).getType());
    return isFloat(from) && isFloat(to) && byteWidth(from) < byteWidth(to);
  }
  /// A product that is only summed, as of windows with their weights. Left to every reader, casts took a depthwise 3x3
  /// on an H100, whose taps are added one by one, from 33.5 to 35.7 us.
  static bool isSummed(Operation *op) {
    return isa<MulOp>(op) && llvm::all_of(op->getUsers(), [](Operation *user) { return isa<ReduceOp>(user); });
  }

  /// @prepare: the ops that the prepared values depend on.
  void buildPrepare() {
    llvm::SetVector<Operation *> needed;
    for (Value value : prepared)
      collect(value, needed);
    SmallVector<BlockArgument> parameters;
    for (BlockArgument argument : body.getArguments())
      if (llvm::any_of(argument.getUsers(), [&](Operation *user) { return needed.contains(user); }))
        parameters.push_back(argument);

    OpBuilder builder(main);
    SmallVector<Value> inputs(parameters.begin(), parameters.end());
    auto type = builder.getFunctionType(ValueRange(inputs).getTypes(), ValueRange(prepared.getArrayRef()).getTypes());
    auto prepare = builder.create<func::FuncOp>(main.getLoc(), "prepare", type);
    Block *block = prepare.addEntryBlock();
    IRMapping mapping;
    for (auto [parameter, argument] : llvm::zip_equal(parameters, block->getArguments())) {
      mapping.map(parameter, argument);
      prepare.setArgAttrs(argument.getArgNumber(), main.getArgAttrDict(parameter.getArgNumber()));
    }
    builder.setInsertionPointToEnd(block);
    for (Operation &op : body)
      if (needed.contains(&op))
        builder.clone(op, mapping);
    SmallVector<Value> results;
    for (auto [i, value] : llvm::enumerate(prepared)) {
      results.push_back(mapping.lookup(value));
      prepare.setResultAttr(i, nameAttrName, nameOf(i));
    }
    builder.create<func::ReturnOp>(main.getLoc(), results);
  }

  static void collect(Value value, llvm::SetVector<Operation *> &needed) {
    SmallVector<Value> pending{value};
    while (!pending.empty())
      if (Operation *op = pending.pop_back_val().getDefiningOp(); op && needed.insert(op))
        llvm::append_range(pending, op->getOperands());
  }

  StringAttr nameOf(size_t i) { return StringAttr::get(main.getContext(), "prepared." + Twine(i)); }

  /// @main takes the prepared values as arguments.
  void passPrepared() {
    Builder builder(main.getContext());
    for (auto [i, fixedValue] : llvm::enumerate(prepared)) {
      Value value = fixedValue;
      DictionaryAttr attributes =
          builder.getDictionaryAttr({builder.getNamedAttr(roleAttrName, builder.getStringAttr("prepared")),
                                     builder.getNamedAttr(nameAttrName, nameOf(i))});
      unsigned number = main.getNumArguments();
      main.insertArgument(number, value.getType(), attributes, value.getLoc());
      value.replaceAllUsesWith(main.getArgument(number));
    }
  }

  void dropUnused() {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (op.use_empty() && &op != body.getTerminator())
        op.erase();
    BitVector unused(main.getNumArguments());
    for (BlockArgument argument : body.getArguments())
      if (argument.use_empty() && roleOf(main, argument) == "parameter")
        unused.set(argument.getArgNumber());
    main.eraseArguments(unused);
  }

  func::FuncOp main;
  Block &body;
  DenseSet<Value> fixed;
  llvm::SetVector<Value> prepared;
};

struct SplitPreparePass : PassWrapper<SplitPreparePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitPreparePass)
  StringRef getArgument() const override { return "kfuse-split-prepare"; }
  StringRef getDescription() const override { return "Moves what depends on parameters alone into @prepare"; }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || !main.getBody().hasOneBlock()) {
      getOperation().emitError("the module needs a function @main of one block");
      return signalPassFailure();
    }
    if (!getOperation().lookupSymbol("prepare"))
      splitPrepare(main);
  }
};

} // namespace

void splitPrepare(func::FuncOp main) { Splitter(main).run(); }

std::unique_ptr<Pass> createSplitPreparePass() { return std::make_unique<SplitPreparePass>(); }

} // namespace kfuse::passes
