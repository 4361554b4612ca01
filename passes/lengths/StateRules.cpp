// What is written into a state by a run of some lengths: whatever does not count has its place outside the state, where
// nothing is written.
#include "passes/lengths/Rules.h"

#include "ir/dialect/ScatteredRows.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Along a dimension that follows at most one length.
Factor only(const Axis &axis) { return axis.factors().empty() ? Factor{} : axis.factors()[0]; }

} // namespace

Axes LengthRules::update(StateUpdateOp update) {
  const Axes state(axesOf(update.getState())), value(axesOf(update.getValue()));
  const unsigned axis = update.getAxis();
  const bool scatters = scattersRows(update);
  for (unsigned dim = 0; dim < value.size(); ++dim)
    if (dim != axis && !(value[dim] == state[dim]))
      refuse("dimension " + std::to_string(dim) + " of what it writes follows another length than that of the state");
  for (const Axis &one : axesOf(update.getPosition()))
    if (!one.isFixed() && !(one == state[0]) && !(one == value[axis]))
      refuse("its positions follow another length than what it writes");
  if (!state[axis].isFixed() && !(state[axis] == value[axis]))
    refuse(
        "it writes a part of a dimension of the state that follows a length; give the dimension's size with --shape");
  if (!scatters && (state[axis].factors().size() > 1 || value[axis].factors().size() > 1))
    refuse("it writes along more than one length");
  if (!refusal.empty() || (isFixed(update.getValue()) && isFixed(update.getState())))
    return state;
  const Value outside = math.integer(dimsOf(update.getState())[axis]);
  const int64_t rows = dimsOf(update.getValue())[axis];
  Value at = math.cast(update.getPosition(), math.ops().getI64Type());
  const int64_t positions = elementsIn(dimsOf(at));
  if (value[axis].isFixed() && !scatters) { // One for each sequence.
    at = math.where(math.counting(state[0], 0, 1), math.reshape(at, {positions}), outside);
  } else { // One for each sequence and row.
    if (scatters) {
      at = math.reshape(at, {positions / rows, rows});
    } else { // All rows are written or none.
      const Value first = math.reshape(at, {positions, 1});
      const Value end = math.make<AddOp>({first, math.length(only(value[axis]))});
      const Value fits = math.make<AndOp>(
          {math.make<GeOp>({first, math.integer(0)}), math.make<GeOp>({math.length(only(state[axis])), end})});
      at = math.where(fits, math.make<AddOp>({first, math.reshape(math.iota(rows), {1, rows})}), outside);
    }
    if (!value[axis].isFixed())
      at = math.where(math.counting(value[axis], 1, 2), at, outside);
    if (!state[0].isFixed() && axis != 0)
      at = math.where(math.counting(state[0], 0, 2), at, outside);
    if (axis == 0)
      at = math.reshape(at, {rows});
  }
  update->setOperand(1, math.prefix(update.getValue(), value));
  update->setOperand(2, at);
  return state;
}

} // namespace kfuse::passes
