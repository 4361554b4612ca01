#include "ir/import/States.h"

#include "ir/dialect/Kfuse.h"
#include "ir/import/StatePatterns.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

using namespace mlir;

namespace kfuse::ir {
namespace {

/// Rows that an op writes into a copy of an argument.
struct WrittenRows {
  Operation *op = nullptr;
  BlockArgument old{};
  Value rows{};
  Value position{}; ///< Null where it is known.
  int64_t axis = 0, first = 0, count = 1;
};

/// Sizes aligned at the right of `rank` dimensions.
SmallVector<int64_t> aligned(Value value, size_t rank) {
  SmallVector<int64_t> dims(rank - std::min(rank, dimsOf(value).size()), 1);
  llvm::append_range(dims, dimsOf(value));
  return dims;
}

/// The only dimension above 1, or nothing.
std::optional<int64_t> onlyDimension(ArrayRef<int64_t> dims) {
  std::optional<int64_t> only;
  for (auto [dim, size] : llvm::enumerate(dims)) {
    if (size > 1 && only)
      return std::nullopt;
    if (size > 1)
      only = dim;
  }
  return only;
}

/// Whether each element is its index along the only dimension above 1.
bool isIndex(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getOperand();
  if (auto iota = value.getDefiningOp<IotaOp>())
    return onlyDimension(dimsOf(value)) == static_cast<int64_t>(iota.getDim());
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  if (!elements || elements.isSplat())
    return false;
  int64_t next = 0;
  return llvm::all_of(elements.getValues<APInt>(),
                      [&](const APInt &element) { return element.getSExtValue() == next++; });
}

/// One number, or one for each index of dimension 0.
bool isPosition(Value value, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> dims = aligned(value, shape.size());
  const bool isPerIndex = dims.front() == shape.front();
  return dims.size() == shape.size() && !isFloat(dtypeOf(value.getType())) &&
         llvm::all_of(ArrayRef(dims).drop_front(), [](int64_t size) { return size == 1; }) &&
         (dims.front() == 1 || isPerIndex);
}

/// where(index along an axis == position, rows, old).
std::optional<WrittenRows> rowsChosen(Value result) {
  auto where = result.getDefiningOp<WhereOp>();
  auto old = where ? dyn_cast<BlockArgument>(where->getOperand(2)) : BlockArgument();
  ArrayRef<int64_t> shape = dimsOf(result);
  if (!old || old.getType() != result.getType() || shape.empty())
    return std::nullopt;
  auto equal = where->getOperand(0).getDefiningOp<EqOp>();
  for (unsigned i = 0; equal && i < 2; ++i) {
    Value index = equal->getOperand(i), position = equal->getOperand(1 - i);
    const SmallVector<int64_t> dims = aligned(index, shape.size());
    std::optional<int64_t> axis = onlyDimension(dims);
    if (!axis || dims[*axis] != shape[*axis] || !isIndex(index) || !isPosition(position, shape) ||
        (*axis == 0 && elementsIn(dimsOf(position)) > 1))
      continue;
    Value rows = where->getOperand(1);
    if (aligned(rows, shape.size())[*axis] != 1)
      if (auto broadcast = rows.getDefiningOp<BroadcastOp>())
        rows = broadcast.getOperand();
    if (aligned(rows, shape.size())[*axis] == 1)
      return WrittenRows{where, old, rows, position, *axis};
  }
  return std::nullopt;
}

/// The argument of which a value is the part from `first` on along `axis`, or null.
BlockArgument wholeOf(Value part, int64_t axis, int64_t first) {
  auto slice = part.getDefiningOp<SliceOp>();
  auto whole = slice ? dyn_cast<BlockArgument>(slice.getOperand()) : BlockArgument();
  if (!whole || llvm::any_of(slice.getStrides(), [](int64_t stride) { return stride != 1; }))
    return {};
  for (auto [dim, offset] : llvm::enumerate(slice.getOffsets()))
    if (offset != (static_cast<int64_t>(dim) == axis ? first : 0))
      return {};
  return whole;
}

/// concat(old rows, rows, old rows), where the old ones keep their places.
std::optional<WrittenRows> rowsJoined(Value result) {
  auto joined = result.getDefiningOp<ConcatOp>();
  if (!joined)
    return std::nullopt;
  WrittenRows written{joined};
  written.axis = joined.getAxis();
  int64_t at = 0;
  for (Value piece : joined->getOperands()) {
    const int64_t count = dimsOf(piece)[written.axis];
    BlockArgument old = wholeOf(piece, written.axis, at);
    if (old && old.getType() == result.getType() && (!written.old || old == written.old)) {
      written.old = old;
    } else {
      if (written.rows)
        return std::nullopt;
      written.rows = piece, written.first = at, written.count = count;
    }
    at += count;
  }
  return written.old && written.rows ? std::optional(written) : std::nullopt;
}

std::optional<WrittenRows> writtenRows(Value result) {
  std::optional<WrittenRows> rows = rowsChosen(result);
  return rows ? rows : rowsJoined(result);
}

class StateMaker {
public:
  StateMaker(Model &model) : model(model), main(model.module->lookupSymbol<func::FuncOp>("main")) {}

  Result<void> run(const std::vector<std::string> &patterns) {
    Result<std::vector<StatePair>> pairs = pairStates(patterns, inputs(), outputs());
    if (!pairs)
      return pairs.error();
    for (const StatePair &pair : *pairs)
      if (Result<void> made = make(pair); !made)
        return made;
    for (unsigned result = 0; result < main.getNumResults(); ++result)
      if (Result<void> recognised = recognise(result); !recognised)
        return recognised;
    return {};
  }

private:
  Operation *terminator() { return main.getBody().front().getTerminator(); }
  StringRef role(unsigned argument) { return main.getArgAttrOfType<StringAttr>(argument, roleAttrName).getValue(); }
  std::string nameOf(BlockArgument argument) {
    return main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nameAttrName).str();
  }
  std::string nameOf(unsigned result) { return main.getResultAttrOfType<StringAttr>(result, nameAttrName).str(); }

  /// Those of the file: "past*" is not meant to name the length that growing caches add.
  std::vector<std::string> inputs() {
    std::vector<std::string> names;
    for (BlockArgument argument : main.getArguments())
      if (role(argument.getArgNumber()) != "parameter" &&
          !(model.pastLength && model.pastLength->input == nameOf(argument)))
        names.push_back(nameOf(argument));
    return names;
  }
  std::vector<std::string> outputs() {
    std::vector<std::string> names;
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      names.push_back(nameOf(i));
    return names;
  }

  Error usage(const StatePair &pair, const Twine &reason) {
    return {ErrorCode::Usage, ("--state " + pair.option + ": " + reason).str()};
  }

  Result<void> make(const StatePair &pair) {
    auto *argument = llvm::find_if(main.getArguments(), [&](BlockArgument each) { return nameOf(each) == pair.input; });
    unsigned result = 0;
    while (nameOf(result) != pair.output)
      ++result;
    Value returned = terminator()->getOperand(result);
    auto isOther = [&](Operation *user) { return isa<StateUpdateOp>(user) && user->getResult(0) != returned; };
    if (llvm::any_of(argument->getUsers(), isOther))
      return usage(pair, "input '" + pair.input + "' is kept in place as another output already");
    if (pair.capacity > 0)
      return isUpdated(*argument, returned) ? Result<void>()
                                            : usage(pair, "only a cache of an ONNX file takes a capacity, whose past "
                                                          "and new rows the file joins (Concat)");
    if (returned.getType() != argument->getType())
      return usage(pair, "input '" + pair.input + "' is " + textOf(*argument) + " and output '" + pair.output + "' " +
                             textOf(returned) + "; a state is one tensor before and after" +
                             advice(*argument, returned, pair));
    if (std::optional<WrittenRows> rows = writtenRows(returned); rows && rows->old == *argument) {
      if (std::string reason = whyNotInPlace(*rows); !reason.empty())
        return usage(pair, reason);
      write(*rows, result);
    } else if (isUpdated(*argument, returned)) {
      return keepUpdated(cast<StateUpdateOp>(returned.getDefiningOp()), result);
    } else if (returned == *argument) {
      keep(*argument, result, "it is returned as it is");
    } else {
      if (dimsOf(*argument).empty())
        return usage(pair, "input '" + pair.input + "' is a scalar; give it one dimension");
      writeWhole(*argument, result);
    }
    return {};
  }

  /// What the graph says by itself.
  Result<void> recognise(unsigned result) {
    Value returned = terminator()->getOperand(result);
    if (auto update = returned.getDefiningOp<StateUpdateOp>())
      return keepUpdated(update, result);
    if (std::optional<WrittenRows> rows = writtenRows(returned); rows && isInput(rows->old)) {
      if (std::string reason = whyNotInPlace(*rows); reason.empty())
        write(*rows, result);
      else
        model.states.push_back({nameOf(rows->old), nameOf(result), false, reason});
      return {};
    }
    auto window = returned.getDefiningOp<SliceOp>();
    auto where = returned.getDefiningOp<WhereOp>(); // Rows are written into a longer cache so.
    auto joined = (window ? window.getOperand() : where ? where->getOperand(2) : returned).getDefiningOp<ConcatOp>();
    auto past =
        joined && joined->getNumOperands() == 2 ? dyn_cast<BlockArgument>(joined->getOperand(0)) : BlockArgument();
    if (!joined && where)
      tellSeveralRows(where, result);
    if (!past || !isInput(past))
      return {};
    const std::string pair = nameOf(past) + "=" + nameOf(result);
    if (!window)
      model.states.push_back({nameOf(past), nameOf(result), false,
                              ("it grows from " + Twine(dimsOf(past)[joined.getAxis()]) + " rows to " +
                               Twine(dimsOf(returned)[joined.getAxis()]) +
                               " by a copy; where the file has its past's length dynamic, --state '" + pair +
                               ":ROWS' keeps it in place, with room for ROWS")
                                  .str()});
    else if (past.getType() == returned.getType())
      model.states.push_back({nameOf(past), nameOf(result), false,
                              "its first rows go as new ones come, a window that moves; --state '" + pair +
                                  "' keeps it in one buffer, by a copy"});
    return {};
  }

  /// Rows that the graph's reader has seen to be written in place.
  Result<void> keepUpdated(StateUpdateOp update, unsigned result) {
    auto argument = dyn_cast<BlockArgument>(update.getState());
    if (!argument || role(argument.getArgNumber()) == "state")
      return {};
    if (!isInput(argument))
      return Error{ErrorCode::Usage, "'" + nameOf(argument) + "' is a parameter, and output '" + nameOf(result) +
                                         "' is it with rows written in place; --params may not name it"};
    keep(argument, result, "rows are written at a position along axis " + std::to_string(update.getAxis()));
    return {};
  }

  /// Rows chosen by a mask, as some scatters write several at once.
  void tellSeveralRows(WhereOp where, unsigned result) {
    auto old = dyn_cast<BlockArgument>(where->getOperand(2));
    if (old && isInput(old) && old.getType() == where->getResult(0).getType())
      model.states.push_back({nameOf(old), nameOf(result), false,
                              "a mask chooses what is written, not one row at a position; --state '" + nameOf(old) +
                                  "=" + nameOf(result) + "' keeps it in one buffer, by a copy"});
  }

  bool isInput(BlockArgument argument) { return role(argument.getArgNumber()) == "input"; }

  static bool isUpdated(BlockArgument argument, Value returned) {
    auto update = returned.getDefiningOp<StateUpdateOp>();
    return update && update.getState() == argument;
  }

  static std::string textOf(Value value) {
    return std::string(toString(dtypeOf(value.getType()))) + " of " + kfuse::toString(shapeOf(value));
  }

  std::string advice(BlockArgument argument, Value returned, const StatePair &pair) {
    auto joined = returned.getDefiningOp<ConcatOp>();
    if (!joined || joined->getOperand(0) != argument)
      return "";
    return ", and this one grows: give it room, --state '" + pair.option + ":4096'";
  }

  /// Why the old value cannot be overwritten, or "".
  std::string whyNotInPlace(const WrittenRows &rows) {
    llvm::DenseSet<Operation *> behind;
    SmallVector<Operation *> pending(rows.op->getUsers());
    while (!pending.empty()) {
      Operation *op = pending.pop_back_val();
      if (behind.insert(op).second)
        llvm::append_range(pending, op->getUsers());
    }
    llvm::DenseSet<Operation *> readers;
    pending.assign(rows.old.user_begin(), rows.old.user_end());
    while (!pending.empty()) {
      Operation *reader = pending.pop_back_val();
      if (reader == rows.op || !readers.insert(reader).second)
        continue;
      if (auto moves = dyn_cast<FusableOpInterface>(reader); moves && moves.getOpKind() == OpKind::Layout)
        llvm::append_range(pending, reader->getUsers()); // They read the old value, too.
      if (behind.contains(reader)) {
        auto name = reader->getLoc()->findInstanceOf<NameLoc>();
        return "the old value of '" + nameOf(rows.old) + "' is read" +
               (isa<func::ReturnOp>(reader)
                    ? std::string(" as an output, too")
                    : " by '" + (name ? name.getName().str() : reader->getName().getStringRef().str()) +
                          "' together with the new one") +
               ", which would overwrite it";
      }
    }
    return "";
  }

  void write(const WrittenRows &rows, unsigned result) {
    Operation *op = rows.op;
    OpBuilder builder(op);
    SmallVector<int64_t> shape(dimsOf(rows.old)), positions;
    shape[rows.axis] = rows.count;
    Value position = rows.position;
    if (!position)
      position = numberAt(builder, op->getLoc(), rows.first);
    if (elementsIn(dimsOf(position)) > 1)
      positions.push_back(shape.front());
    auto moved = [&]<class Op>(Value value, ArrayRef<int64_t> to) {
      auto type = RankedTensorType::get(to, cast<RankedTensorType>(value.getType()).getElementType());
      return value.getType() == type ? value : builder.create<Op>(op->getLoc(), type, value).getResult();
    };
    position = moved.template operator()<ReshapeOp>(position, positions);
    Value value = moved.template operator()<BroadcastOp>(rows.rows, shape);
    Value updated = builder.create<StateUpdateOp>(op->getLoc(), rows.old.getType(), rows.old, value, position,
                                                  builder.getI64IntegerAttr(rows.axis));
    const SmallVector<Value> operands(op->getOperands());
    op->replaceAllUsesWith(ValueRange(updated));
    op->erase();
    for (Value operand : operands) // What was kept of the old rows.
      if (auto slice = operand.getDefiningOp<SliceOp>(); slice && slice->use_empty())
        slice->erase();
    keep(rows.old, result, "rows are written at a position along axis " + std::to_string(rows.axis));
  }

  static Value numberAt(OpBuilder &builder, Location location, int64_t number) {
    auto scalar = RankedTensorType::get({}, builder.getI64Type());
    return builder.create<ConstantOp>(location, DenseElementsAttr::get(scalar, number));
  }

  /// Any new value: computed beside the old one, then copied over it.
  void writeWhole(BlockArgument argument, unsigned result) {
    Value value = terminator()->getOperand(result);
    OpBuilder builder(terminator());
    Value first = numberAt(builder, value.getLoc(), 0);
    Value updated = builder.create<StateUpdateOp>(value.getLoc(), argument.getType(), argument, value, first,
                                                  builder.getI64IntegerAttr(0));
    terminator()->setOperand(result, updated);
    keep(argument, result, "all of it is written over, by a copy");
  }

  void keep(BlockArgument argument, unsigned result, std::string how) {
    MLIRContext *context = main.getContext();
    main.setArgAttr(argument.getArgNumber(), roleAttrName, StringAttr::get(context, "state"));
    main.setResultAttr(result, stateAttrName, IntegerAttr::get(IntegerType::get(context, 64), argument.getArgNumber()));
    model.states.push_back({nameOf(argument), nameOf(result), true, std::move(how)});
  }

  Model &model;
  func::FuncOp main;
};

} // namespace

Result<void> makeStates(Model &model, const std::vector<std::string> &patterns) {
  return StateMaker(model).run(patterns);
}

} // namespace kfuse::ir
