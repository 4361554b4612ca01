// kfuse.same_sequence becomes a comparison of each key with where the row's sequence begins and ends, which kernels of
// attention read as bounds of their loops:
//
//     first(row) = sum over sequences: row_starts[i] <= row < row_starts[i + 1] ? key_starts[i]     : 0
//     end(row)   = sum over sequences: row_starts[i] <= row < row_starts[i + 1] ? key_starts[i + 1] : 0
//
// One sequence at most has the row, so the sums have one term. All layers of a model share them.
#include "passes/Passes.h"

#include "ir/dialect/Kfuse.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

class SequenceWriter {
public:
  explicit SequenceWriter(SameSequenceOp op)
      : op(op), builder(op), location(op.getLoc()), element(op.getRowStarts().getType().getElementType()),
        rows(op.getType().getDimSize(0)), keys(op.getType().getDimSize(1)),
        sequences(op.getRowStarts().getType().getDimSize(0) - 1) {}

  Value write() {
    const Value row = iota({rows, 1}, 0), key = iota({1, keys}, 1), rowEnd = edges(op.getRowStarts(), 1);
    const Value begun = builder.create<LeOp>(location, edges(op.getRowStarts(), 0), row),
                goesOn = builder.create<LtOp>(location, row, rowEnd),
                hasRow = builder.create<AndOp>(location, begun, goesOn);
    Value end = edges(op.getKeyStarts(), 1);
    if (op.getCausal()) { // There are as many keys behind the row's last one as there are rows behind the row.
      const Value left = builder.create<SubOp>(location, rowEnd, row);
      end = builder.create<AddOp>(location, builder.create<SubOp>(location, end, left), number(1));
    }
    const Value first = sumWhere(hasRow, edges(op.getKeyStarts(), 0)), last = sumWhere(hasRow, end);
    return builder.create<AndOp>(location, builder.create<GeOp>(location, key, first),
                                 builder.create<LtOp>(location, key, last));
  }

private:
  RankedTensorType typeOf(ArrayRef<int64_t> shape) const { return RankedTensorType::get(shape, element); }
  Value iota(ArrayRef<int64_t> shape, int64_t dim) {
    return builder.create<IotaOp>(location, typeOf(shape), builder.getI64IntegerAttr(dim));
  }
  Value number(int64_t value) {
    return builder.create<ConstantOp>(
        location, DenseElementsAttr::get(typeOf({}), Attribute(builder.getIntegerAttr(element, value))));
  }
  /// Where each sequence begins, or with `offset` 1 ends: [1, sequences].
  Value edges(Value starts, int64_t offset) {
    const Value cut =
        builder.create<SliceOp>(location, typeOf({sequences}), starts, ArrayRef<int64_t>{offset}, ArrayRef<int64_t>{1});
    return builder.create<ReshapeOp>(location, typeOf({1, sequences}), cut);
  }
  /// [rows, 1].
  Value sumWhere(Value condition, Value values) {
    const Value chosen = builder.create<WhereOp>(location, condition, values, number(0));
    const Value sum = builder.create<ReduceOp>(location, chosen, "sum", ArrayRef<int64_t>{1});
    return builder.create<ReshapeOp>(location, typeOf({rows, 1}), sum);
  }

  SameSequenceOp op;
  OpBuilder builder;
  Location location;
  Type element;
  int64_t rows, keys, sequences;
};

struct ExpandSequencesPass : PassWrapper<ExpandSequencesPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandSequencesPass)
  StringRef getArgument() const override { return "kfuse-expand-sequences"; }
  StringRef getDescription() const override { return "kfuse.same_sequence becomes bounds of the keys that a row sees"; }

  void runOnOperation() override {
    for (SameSequenceOp op : llvm::make_early_inc_range(getOperation().getBody().getOps<SameSequenceOp>())) {
      op.replaceAllUsesWith(SequenceWriter(op).write());
      op.erase();
    }
  }
};

} // namespace

std::unique_ptr<Pass> createExpandSequencesPass() { return std::make_unique<ExpandSequencesPass>(); }

} // namespace kfuse::passes
