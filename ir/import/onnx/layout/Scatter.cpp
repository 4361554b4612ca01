// Ops that write into a copy of a tensor.
//
// A kernel computes each element of its result from what it reads, so that a scatter is turned round: every element
// asks which update is its own. Positions that are known and regular are slices that are joined; a dimension along
// which each update stays where it is asks nothing; rows behind each other (writeRows) are found by a subtraction. What
// is left is compared with every update.
#include "ir/import/onnx/layout/Coordinates.h"
#include "ir/import/onnx/layout/Ops.h"
#include "ir/import/onnx/layout/Overwrite.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <limits>
#include <utility>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int64_t maxComparisons = int64_t{1} << 32;
/// Factors are multiplied one after the other: the dialect has no product of a row.
constexpr int64_t maxFactors = 64;

enum class Reduction { None, Add, Mul, Max, Min };

std::optional<Reduction> reductionOf(Node &node) {
  llvm::StringRef name = node.text("reduction", "none");
  for (auto [known, reduction] :
       {std::pair("none", Reduction::None), std::pair("add", Reduction::Add), std::pair("mul", Reduction::Mul),
        std::pair("max", Reduction::Max), std::pair("min", Reduction::Min)})
    if (name == known) {
      if (reduction == Reduction::None || node.type(0) != DType::Bool)
        return node.failed() ? std::nullopt : std::optional(reduction);
      node.fail("reduction '" + name + "' of booleans; cast them to integers");
      return std::nullopt;
    }
  node.fail("reduction '" + name + "'; kfuse has none, add, mul, max and min");
  return std::nullopt;
}

Value combine(Emitter &emit, Reduction reduction, Value old, Value update) {
  switch (reduction) {
  case Reduction::None:
    return update;
  case Reduction::Add:
    return emit.add(old, update);
  case Reduction::Mul:
    return emit.mul(old, update);
  case Reduction::Max:
    return emit.binary<MaxOp>(old, update);
  case Reduction::Min:
    return emit.binary<MinOp>(old, update);
  }
  return {};
}

/// `x` before it was reshaped or made a wider integer.
Value unpacked(Value x) {
  for (mlir::Operation *op = x.getDefiningOp(); op && mlir::isa<ReshapeOp, CastOp>(op); op = x.getDefiningOp())
    x = op->getOperand(0);
  return x;
}

/// One scatter. Its steps lay everything out as the data is: dimension by dimension, 1 where something does not vary,
/// with the updates that come into question for an element (`choices` of them) as one more dimension at the end.
class Scatter {
public:
  Scatter(Node &node, Reduction reduction, llvm::ArrayRef<Coordinate> coordinates, llvm::ArrayRef<int64_t> box)
      : node(node), emit(node.emit), reduction(reduction), coordinates(coordinates), box(box), data(node.input(0)),
        updates(node.input(2)), roles(counted(node.rank(0))), order(counted(node.rank(0))) {
    lookThroughTransposes();
    claimDimensions();
  }

  Value run() {
    const size_t rank = roles.size();
    Ints offsets(rank, 0), sizes(dimsOf(data));
    for (size_t dim = 0; dim < rank; ++dim)
      if (const Coordinate *own = coordinateAt(dim); own && !isSearched(dim)) {
        offsets[dim] = own->line->offset;
        sizes[dim] = own->line->dim < 0 ? 1 : box[own->line->dim];
      }
    old = emit.slice(data, offsets, sizes, Ints(rank, 1));
    return emit.transpose(replaceBox(emit, data, write(), offsets), order);
  }

private:
  /// Writing into a transposed tensor is writing into the tensor, transposed: `data` is then the cache itself.
  void lookThroughTransposes() {
    for (auto transpose = data.getDefiningOp<TransposeOp>(); transpose; transpose = data.getDefiningOp<TransposeOp>()) {
      roles = taken(roles, inverse(transpose.getPermutation()));
      order = taken(transpose.getPermutation(), order);
      data = transpose.getOperand();
    }
  }

  /// A dimension of the box along which one coordinate runs is a dimension of the data: each update stays where it is.
  void claimDimensions() {
    ownerOf.assign(box.size(), -1);
    for (auto [i, coordinate] : llvm::enumerate(coordinates)) {
      const bool isNumber = coordinate.line && coordinate.line->dim < 0;
      const bool isRun = !isNumber && coordinate.line && coordinate.runsAlong(coordinate.line->dim) &&
                         ownerOf[coordinate.line->dim] < 0;
      if (isRun)
        ownerOf[coordinate.line->dim] = i;
      searched.push_back(!isNumber && !isRun);
    }
    for (size_t dim = 0; dim < box.size(); ++dim)
      choices *= isOwned(dim) ? 1 : box[dim];
  }

  bool isOwned(size_t dimOfBox) const { return ownerOf[dimOfBox] >= 0; }
  /// The coordinate of a dimension of the data, or null.
  const Coordinate *coordinateAt(size_t dim) const {
    return roles[dim] < static_cast<int64_t>(coordinates.size()) ? &coordinates[roles[dim]] : nullptr;
  }
  bool isSearched(size_t dim) const { return coordinateAt(dim) && searched[roles[dim]]; }
  /// The box's dimension that runs along a dimension of the data, or -1.
  int64_t runOf(size_t dim) const {
    const Coordinate *own = coordinateAt(dim);
    return own && !searched[roles[dim]] ? own->line->dim : -1;
  }

  /// A tensor of the box's dimensions, and of the data's that no coordinate is for where it `hasRest`.
  Value laid(Value x, bool hasRest) {
    if (!x)
      return {};
    Ints full(dimsOf(x)), permutation, shape;
    for (size_t dim = 0; dim < box.size(); ++dim)
      full[dim] = isOwned(dim) ? full[dim] : box[dim];
    for (size_t dim = 0; dim < roles.size(); ++dim) {
      int64_t source = runOf(dim);
      if (hasRest && !coordinateAt(dim))
        source = static_cast<int64_t>(box.size()) + roles[dim] - static_cast<int64_t>(coordinates.size());
      shape.push_back(source < 0 ? 1 : full[source]);
      if (source >= 0)
        permutation.push_back(source);
    }
    for (size_t dim = 0; dim < box.size(); ++dim)
      if (!isOwned(dim))
        permutation.push_back(dim);
    if (choices > 1)
      shape.push_back(choices);
    return emit.reshape(emit.transpose(emit.broadcast(x, full), permutation), shape);
  }

  /// An index, counted from the front.
  Value fromFront(const Coordinate &coordinate) {
    Value index = coordinate.index;
    if (coordinate.isKnown)
      return index;
    Value fromEnd = emit.add(index, static_cast<double>(coordinate.size));
    return emit.where(emit.binary<LtOp>(index, emit.scalarLike(index, 0)), fromEnd, index);
  }

  /// Where an element is the place of an update; known if all indices are.
  Value matches() {
    const Ints ones(roles.size() + (choices > 1 ? 1 : 0), 1);
    Value match = emit.splat(1, DType::Bool, ones);
    bool isFirst = true;
    for (size_t dim = 0; dim < roles.size(); ++dim) {
      if (!isSearched(dim))
        continue;
      const Coordinate &coordinate = *coordinateAt(dim);
      Ints along(ones);
      along[dim] = coordinate.size;
      Value place = positions(emit, along, dim, DType::I64, coordinate.isKnown);
      Value isHere = emit.binary<EqOp>(place, laid(fromFront(coordinate), false));
      match = std::exchange(isFirst, false) ? isHere : emit.binary<AndOp>(match, isHere);
    }
    return match;
  }

  /// The updated box.
  Value write() {
    if (emit.failed())
      return {};
    if (choices == 1 && !llvm::is_contained(searched, true))
      return combine(emit, reduction, old, laid(updates, true));
    if (std::optional<Rows> rows = reduction == Reduction::None ? findRows() : std::nullopt)
      return writeRows(emit, old, rowsAlong(rows->dim), rows->position, rows->dim);
    if (choices == 1)
      return emit.where(matches(), combine(emit, reduction, old, laid(updates, true)), old);
    if (isTooMuch())
      return {};
    if (reduction == Reduction::None)
      return overwrite();
    return reduction == Reduction::Mul ? multiply() : reduce();
  }

  struct Rows {
    int64_t dim;
    Value position;
  };

  /// Updates that are rows from a run-time position on: one index is searched for, which is one number, or a number
  /// plus 0, 1, 2, ... for one update after the other.
  std::optional<Rows> findRows() {
    auto isHere = [this](size_t dim) { return isSearched(dim); };
    auto dims = llvm::make_filter_range(llvm::seq<size_t>(0, roles.size()), isHere);
    if (std::distance(dims.begin(), dims.end()) != 1)
      return std::nullopt;
    const auto dim = static_cast<int64_t>(*dims.begin());
    const Coordinate &coordinate = *coordinateAt(dim);
    if (choices == 1)
      return coordinate.isKnown ? std::nullopt : std::optional(Rows{dim, laid(coordinate.index, false)});
    llvm::ArrayRef<int64_t> shape = dimsOf(coordinate.index);
    if (choices > coordinate.size || elementsIn(shape) != choices)
      return std::nullopt;
    for (size_t i = 0; i < box.size(); ++i)
      if (isOwned(i) && shape[i] > 1)
        return std::nullopt;
    auto sum = unpacked(coordinate.index).getDefiningOp<AddOp>();
    for (unsigned i = 0; sum && i < 2; ++i)
      if (Value start = sum->getOperand(i); elementsIn(dimsOf(start)) == 1)
        if (Emitter::constantIntegers(sum->getOperand(1 - i)) == counted(choices))
          return Rows{dim, emit.reshape(emit.cast(start, DType::I64), Ints(roles.size(), 1))};
    return std::nullopt;
  }

  /// The updates laid as the data is, with the choices along `dim`.
  Value rowsAlong(int64_t dim) {
    Value rows = laid(updates, true);
    if (!rows || choices == 1)
      return rows;
    Ints permutation = counted(roles.size());
    permutation[dim] = roles.size(); // The choices are behind; `dim` itself is 1.
    permutation.push_back(dim);
    Value moved = emit.transpose(rows, permutation);
    return moved ? emit.reshape(moved, dimsOf(moved).drop_back()) : moved;
  }

  bool isTooMuch() {
    Ints asked(dimsOf(old));
    for (size_t dim = 0; dim < roles.size() && reduction == Reduction::None; ++dim)
      if (!isSearched(dim) && !isAnySearchedVarying(runOf(dim)))
        asked[dim] = 1;
    const int64_t places = elementsIn(asked);
    if (reduction == Reduction::Mul && choices > maxFactors)
      node.fail("multiplies " + llvm::Twine(choices) + " updates into each place; kfuse multiplies at most " +
                llvm::Twine(maxFactors) + ": scatter them in parts");
    else if (places > maxComparisons / choices)
      node.fail(
          "compares " + llvm::Twine(places) + " places with " + llvm::Twine(choices) +
          " updates each, more than 2^32 times in all; scatter fewer at a time, or at indices that are known when "
          "the model is read");
    return node.failed();
  }

  bool isAnySearchedVarying(int64_t dimOfBox) const {
    for (auto [i, coordinate] : llvm::enumerate(coordinates))
      if (searched[i] && dimOfBox >= 0 && coordinate.varies(dimOfBox))
        return true;
    return false;
  }

  /// The last of several updates of one element remains.
  Value overwrite() {
    Value match = matches();
    Ints behind(roles.size() + 1, 1);
    behind.back() = choices;
    const bool isKnown = match && match.getDefiningOp<ConstantOp>();
    Value number = positions(emit, behind, roles.size(), DType::I64, isKnown);
    Value chosen = emit.reduce(emit.where(match, number, emit.scalarLike(number, -1)), "max", roles.size());
    if (!chosen)
      return {};
    Value isWritten = emit.binary<GeOp>(chosen, emit.scalarLike(chosen, 0));
    return emit.where(isWritten, choose(emit, laid(updates, true), chosen), old);
  }

  Value reduce() {
    Value match = matches(), all = laid(updates, true);
    const llvm::StringRef function = reduction == Reduction::Add ? "sum" : reduction == Reduction::Max ? "max" : "min";
    const auto behind = static_cast<int64_t>(roles.size());
    Value reduced = emit.reduce(emit.where(match, all, neutral()), function, behind);
    Value combined = combine(emit, reduction, old, reduced);
    if (!combined || reduction != Reduction::Add || !isFloat(dtypeOf(old.getType())))
      return combined;
    // -0 plus nothing stays -0.
    Ints full(dimsOf(match));
    full.back() = choices;
    Value written = emit.reduce(emit.cast(emit.broadcast(match, full), DType::I32), "max", behind);
    return emit.where(emit.cast(written, DType::Bool), combined, old);
  }

  Value multiply() {
    Value match = matches(), all = laid(updates, true), product = old;
    const auto behind = static_cast<int64_t>(roles.size());
    auto choice = [&](Value x, int64_t i) -> Value {
      if (!x)
        return {};
      Ints shape(dimsOf(x).drop_back());
      return emit.reshape(emit.slice(x, behind, dimsOf(x).back() == 1 ? 0 : i, 1), shape);
    };
    for (int64_t i = 0; i < choices; ++i)
      product = emit.where(choice(match, i), emit.mul(product, choice(all, i)), product);
    return product;
  }

  /// What changes no other number.
  Value neutral() {
    const DType type = dtypeOf(old.getType());
    if (reduction == Reduction::Add)
      return emit.splat(0, type);
    const bool isMax = reduction == Reduction::Max;
    if (isFloat(type))
      return emit.splat(isMax ? -infinity : infinity, type);
    const int64_t lowest =
        type == DType::I32 ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
    return emit.cast(emit.reshape(emit.integers(isMax ? lowest : -(lowest + 1)), {}), type);
  }

  Node &node;
  Emitter &emit;
  const Reduction reduction;
  const llvm::ArrayRef<Coordinate> coordinates;
  const Ints box;
  Value data, updates;
  Ints roles;   ///< Per dimension of the data: its coordinate's number; those without one are counted on.
  Ints order;   ///< How the result is transposed: as the data was.
  Ints ownerOf; ///< Per dimension of the box: the coordinate that runs along it, or -1.
  llvm::SmallVector<bool> searched; ///< Per coordinate: elements ask for their place among the updates'.
  int64_t choices = 1;              ///< Updates that come into question for an element.
  Value old;                        ///< The box of the data that is written to.
};

Values scatterElements(Node &node) {
  llvm::ArrayRef<int64_t> data = node.dims(0), box = node.dims(1);
  int64_t axis = node.normalised(node.integer("axis", 0), data.size());
  std::optional<Reduction> reduction = reductionOf(node);
  if (node.failed() || box.size() != data.size() || box != node.dims(2))
    return node.fail("indices of shape " + toString(box) + " and updates of shape " + toString(node.dims(2)) +
                     " for data of shape " + toString(data));
  if (elementsIn(box) == 0 || elementsIn(data) == 0)
    return node.input(0);
  llvm::SmallVector<Coordinate> coordinates;
  for (size_t dim = 0; dim < data.size(); ++dim) {
    const bool isAxis = static_cast<int64_t>(dim) == axis;
    if (!isAxis && box[dim] > data[dim])
      return node.fail("indices of shape " + toString(box) + " leave data of shape " + toString(data));
    std::optional<Coordinate> coordinate = isAxis ? coordinateOf(node, node.input(1), data[dim])
                                                  : positionAlong(node.emit, box, dim, data[dim], /*isKnown=*/false);
    if (!coordinate)
      return Value();
    coordinates.push_back(*coordinate);
  }
  return Scatter(node, *reduction, coordinates, box).run();
}

Values scatterNd(Node &node) {
  llvm::ArrayRef<int64_t> data = node.dims(0), shape = node.dims(1);
  const int64_t depth = shape.empty() ? 0 : shape.back();
  std::optional<Reduction> reduction = reductionOf(node);
  if (node.failed() || depth < 1 || depth > static_cast<int64_t>(data.size()))
    return node.fail("indices of shape " + toString(shape) + " for data of shape " + toString(data) +
                     "; the last of them may be 1 to " + llvm::Twine(data.size()));
  Ints expected(shape.drop_back());
  llvm::append_range(expected, data.drop_front(depth));
  if (node.dims(2) != llvm::ArrayRef(expected))
    return node.fail("updates of shape " + toString(node.dims(2)) + "; indices of shape " + toString(shape) +
                     " and data of shape " + toString(data) + " need " + toString(expected));
  if (elementsIn(expected) == 0)
    return node.input(0);
  auto coordinates = coordinatesIn(node, node.input(1), data.take_front(depth));
  return coordinates ? Scatter(node, *reduction, *coordinates, shape.drop_back()).run() : Value();
}

/// A cache [batch, ..., positions, ...] with rows from the position on that each batch has.
Values tensorScatter(Node &node) {
  Emitter &emit = node.emit;
  llvm::ArrayRef<int64_t> cache = node.dims(0), rows = node.dims(1);
  const int64_t axis = node.normalised(node.integer("axis", -2), cache.size());
  const llvm::StringRef mode = node.text("mode", "linear");
  if (node.failed() || axis == 0)
    return node.fail("writes along dimension 0, which is the batch");
  if (mode != "linear" && mode != "circular")
    return node.fail("mode '" + mode + "'; linear or circular");
  Ints expected(cache);
  if (rows.size() == cache.size())
    expected[axis] = rows[axis];
  if (rows != llvm::ArrayRef(expected) || rows[axis] > cache[axis])
    return node.fail("updates of shape " + toString(rows) + " for a cache of shape " + toString(cache) +
                     " along dimension " + llvm::Twine(axis));
  if (elementsIn(rows) == 0)
    return node.input(0);
  if (!node.input(2))
    return replaceBox(emit, node.input(0), node.input(1), Ints(cache.size(), 0));
  if (node.dims(2) != llvm::ArrayRef(cache.front()))
    return node.fail("write_indices of shape " + toString(node.dims(2)) + " for a batch of " +
                     llvm::Twine(cache.front()));
  Value position = emit.cast(node.input(2), DType::I64);
  if (mode == "linear" && rows[axis] > 1 && node.mayUpdate(0, 0)) {
    Value isFromEnd = emit.binary<LtOp>(position, emit.scalarLike(position, 0));
    position = emit.where(isFromEnd, emit.add(position, static_cast<double>(cache[axis])), position);
    return emit.updateRows(node.input(0), node.input(1), position, axis);
  }
  Ints perBatch(cache.size(), 1);
  perBatch[0] = cache[0];
  return writeRows(emit, node.input(0), node.input(1), emit.reshape(position, perBatch), axis,
                   mode == "linear" ? Beyond::Dropped : Beyond::Continued);
}

constexpr OnnxOp table[] = {
    {"ScatterElements", 3, 3, scatterElements, "axis reduction"},
    {"ScatterND", 3, 3, scatterNd, "reduction"},
    {"TensorScatter", 2, 3, tensorScatter, "axis mode"},
};

} // namespace

llvm::ArrayRef<OnnxOp> scatterOps() { return table; }

} // namespace kfuse::ir::onnx
