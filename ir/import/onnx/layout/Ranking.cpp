// Ops that compare the elements of a row with each other: TopK, ArgMax, ArgMin; and OneHot, which goes back from an
// index to a row.
#include "ir/import/onnx/layout/Coordinates.h"
#include "ir/import/onnx/layout/Ops.h"

#include <cmath>
#include <limits>

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// A row of up to so many elements is ranked at once, each element compared with every other. Experts of a router are
/// at most some hundred.
constexpr int64_t longestRow = 512;
/// Longer rows are cut into pieces of at least so many, whose best are ranked again.
constexpr int64_t shortestPiece = 256;
constexpr int64_t maxComparisons = int64_t{1} << 34;

/// Which of two elements comes first.
struct Order {
  bool largest;
  bool nanFirst = true;     ///< NaN comes before all numbers, else behind them.
  bool lastOfEqual = false; ///< The greatest index comes first among equal elements, else the least.

  Value comesFirst(Emitter &emit, Value a, Value b) const {
    if (!a || !isFloat(dtypeOf(a.getType())))
      return largest ? emit.binary<GtOp>(a, b) : emit.binary<LtOp>(a, b);
    Value comesLater = largest ? emit.binary<LeOp>(a, b) : emit.binary<GeOp>(a, b);
    Value isNan = emit.unary<IsNanOp>(nanFirst ? b : a);
    return emit.binary<AndOp>(emit.unary<NotOp>(comesLater), emit.unary<NotOp>(isNan));
  }
};

/// The lowest or highest number of a type.
Value endOf(Emitter &emit, DType type, bool isLast) {
  if (isFloat(type)) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return emit.splat(isLast ? infinity : -infinity, type);
  }
  const int64_t lowest = type == DType::I32 ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
  return emit.cast(emit.reshape(emit.integers(isLast ? -(lowest + 1) : lowest), {}), type);
}

/// Rows of elements, and where each comes from; both [..., n], the indices perhaps [n].
struct Ranked {
  Value values, indices;
};

Ints withLast(llvm::ArrayRef<int64_t> shape, std::initializer_list<int64_t> last) {
  Ints result(shape.drop_back());
  result.append(last);
  return result;
}

/// The first elements of each row in an order.
///
/// Comparisons that decide about one thing are made in one kernel: an element may be computed again by another one,
/// which keeps digits that the first has rounded, so that what is equal to a row's extreme can be none of its elements
/// there.
class Ranking {
public:
  Ranking(Node &node, Order order) : node(node), emit(node.emit), order(order) {}

  /// The index of the first element of each row of [..., n]. In long rows first the piece that holds it is found, then
  /// the element: 3 n comparisons.
  Value indexOfFirst(Value rows) {
    if (!rows)
      return {};
    Ints shape(dimsOf(rows));
    const int64_t size = shape.back(), count = elementsIn(llvm::ArrayRef(shape).drop_back());
    Value index = emit.iota(size, 0);
    if (size <= longestRow / 4)
      return emit.reshape(ranked({rows, index}, 1).indices, llvm::ArrayRef(shape).drop_back());
    const auto piece = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(size))));
    const int64_t pieces = (size + piece - 1) / piece;
    Ranked cut = cutIntoPieces({emit.reshape(rows, {count, size}), index}, piece);
    Value extremes = emit.reduce(cut.values, order.largest ? "max" : "min", 2);
    Value best = ranked({extremes, emit.iota(pieces, 0)}, 1).indices;
    Value bestOfAll = emit.add(best, emit.mul(emit.iota({count, 1}, 0), static_cast<double>(pieces)));
    Value values = emit.gather(emit.reshape(cut.values, {count * pieces, piece}), emit.reshape(bestOfAll, count), 0);
    Value indices = emit.gather(cut.indices, emit.reshape(best, count), 0);
    return emit.reshape(ranked({values, indices}, 1).indices, llvm::ArrayRef(shape).drop_back());
  }

  /// The `count` first of each row, in order.
  Ranked first(Ranked rows, int64_t count) {
    if (!rows.values || !rows.indices)
      return {};
    const int64_t size = dimsOf(rows.values).back(), piece = std::max(shortestPiece, 4 * count);
    if (size > longestRow && piece <= size / 2)
      return first(firstOfPieces(rows, count, piece), count);
    return ranked(rows, count);
  }

private:
  /// [..., n] as [..., pieces, piece]. What fills up the last one, or the first, comes behind all others.
  Ranked cutIntoPieces(Ranked rows, int64_t piece) {
    if (!rows.values || !rows.indices)
      return {};
    const DType type = dtypeOf(rows.values.getType());
    Value filler = order.nanFirst || !isFloat(type) ? endOf(emit, type, !order.largest)
                                                    : emit.splat(std::numeric_limits<double>::quiet_NaN(), type);
    auto cut = [&](Value x, Value with) -> Value {
      const int64_t size = dimsOf(x).back(), pieces = (size + piece - 1) / piece, missing = pieces * piece - size;
      const auto last = static_cast<int64_t>(dimsOf(x).size()) - 1;
      if (missing > 0) {
        Value rest = emit.broadcast(with, withLast(dimsOf(x), {missing}));
        x = order.lastOfEqual ? emit.concat({rest, x}, last) : emit.concat({x, rest}, last);
      }
      return x ? emit.reshape(x, withLast(dimsOf(x), {pieces, piece})) : x;
    };
    return {cut(rows.values, filler), cut(rows.indices, emit.scalarLike(rows.indices, 0))};
  }

  /// The first of each piece of a row, one piece behind the other.
  Ranked firstOfPieces(Ranked rows, int64_t count, int64_t piece) {
    const Ints shape(dimsOf(rows.values));
    Ranked best = ranked(cutIntoPieces(rows, piece), count);
    const Ints joined = withLast(shape, {(shape.back() + piece - 1) / piece * count});
    return {emit.reshape(best.values, joined), emit.reshape(best.indices, joined)};
  }

  /// Counts for each element those that come before it, and finds for each place the element with so many.
  Ranked ranked(Ranked rows, int64_t count) {
    if (!rows.values || !rows.indices)
      return {};
    llvm::ArrayRef<int64_t> shape = dimsOf(rows.values);
    const int64_t size = shape.back(), last = shape.size();
    if (elementsIn(shape) > maxComparisons / size) {
      node.fail("compares the " + llvm::Twine(size) + " elements of each of " +
                llvm::Twine(elementsIn(shape.drop_back())) +
                " rows with each other, more than 2^34 times in all; take fewer of them, or of shorter rows");
      return {};
    }
    Value own = emit.reshape(rows.values, withLast(shape, {size, 1}));
    Value other = emit.reshape(rows.values, withLast(shape, {1, size}));
    Value at = emit.iota({size, 1}, 0, DType::I32), otherAt = emit.iota({1, size}, 1, DType::I32);
    Value winsTies = order.lastOfEqual ? emit.binary<GtOp>(otherAt, at) : emit.binary<LtOp>(otherAt, at);
    Value isNotBehind = emit.unary<NotOp>(order.comesFirst(emit, own, other));
    Value isBefore = emit.where(winsTies, isNotBehind, order.comesFirst(emit, other, own));
    Value rank = emit.reduce(emit.cast(isBefore, DType::I32), "sum", last);
    if (!rank)
      return {};

    Value place = emit.iota({count, 1}, 0, DType::I32);
    Value isHere = emit.binary<EqOp>(emit.reshape(rank, withLast(shape, {1, size})), place);
    Value index = emit.reshape(rows.indices, withLast(dimsOf(rows.indices), {1, dimsOf(rows.indices).back()}));
    Value lowest = endOf(emit, dtypeOf(own.getType()), /*isLast=*/false);
    return {emit.reduce(emit.where(isHere, other, lowest), "max", last),
            emit.reduce(emit.where(isHere, index, emit.scalarLike(index, 0)), "sum", last)};
  }

  Node &node;
  Emitter &emit;
  const Order order;
};

/// The permutation that moves `axis` to the end, the others in order; back again by `fromEnd`.
Ints toEnd(int64_t axis, int64_t rank) {
  Ints permutation = counted(rank);
  permutation.erase(permutation.begin() + axis);
  permutation.push_back(axis);
  return permutation;
}
Ints fromEnd(int64_t axis, int64_t rank) {
  Ints permutation = counted(rank - 1);
  permutation.insert(permutation.begin() + axis, rank - 1);
  return permutation;
}

Values topK(Node &node) {
  Emitter &emit = node.emit;
  const int64_t rank = node.rank(0), axis = node.normalised(node.integer("axis", -1), rank);
  std::optional<Ints> given = node.constantIntegers(1, "k");
  if (!given || node.failed())
    return Value();
  const int64_t size = node.dims(0)[axis];
  if (given->size() != 1 || given->front() < 0 || given->front() > size)
    return node.fail("takes the first " + toString(*given) + " along dimension " + llvm::Twine(axis) + " of " +
                     toString(node.dims(0)) + "; k is one number from 0 to " + llvm::Twine(size));
  if (node.type(0) == DType::Bool)
    return node.fail("ranks booleans; cast them to integers");
  Ints shape(node.dims(0));
  shape[axis] = given->front();
  if (elementsIn(shape) == 0)
    return {emit.splat(0, node.type(0), shape), emit.splat(0, DType::I64, shape)};
  Value rows = emit.transpose(node.input(0), toEnd(axis, rank));
  const bool largest = node.flag("largest", true);
  Ranking ranking(node, {.largest = largest, .nanFirst = largest});
  Ranked best = ranking.first({rows, emit.iota(size, 0)}, given->front());
  return {emit.transpose(best.values, fromEnd(axis, rank)), emit.transpose(best.indices, fromEnd(axis, rank))};
}

/// The extreme of integers, and of an input's floats, is the same wherever it is computed: an equal element is there.
bool isExact(Value x) { return !isFloat(dtypeOf(x.getType())) || mlir::isa<mlir::BlockArgument>(x); }

/// Where the largest or smallest element is: the least index, or the greatest, of those equal to it. NaN counts as
/// either, as in NumPy.
Values argument(Node &node, bool largest) {
  Emitter &emit = node.emit;
  const int64_t rank = node.rank(0), axis = node.normalised(node.integer("axis", 0), rank);
  if (node.failed())
    return Value();
  const int64_t size = node.dims(0)[axis];
  Ints along(rank, 1), shape(node.dims(0));
  along[axis] = size;
  shape[axis] = 1;
  const bool isLast = node.flag("select_last_index");
  if (size == 0)
    return node.fail("has no elements along dimension " + llvm::Twine(axis) + " of " + toString(node.dims(0)));
  Value x = node.type(0) == DType::Bool ? emit.cast(node.input(0), DType::I32) : node.input(0), found;
  if (isExact(x)) {
    Value isExtreme = emit.binary<EqOp>(x, emit.reduceKeepingDims(x, largest ? "max" : "min", axis));
    if (isFloat(node.type(0)))
      isExtreme = emit.binary<OrOp>(isExtreme, emit.unary<IsNanOp>(x));
    Value index = emit.iota(along, axis), none = emit.scalarLike(index, isLast ? -1 : static_cast<double>(size));
    found = emit.reduce(emit.where(isExtreme, index, none), isLast ? "max" : "min", axis);
  } else {
    Ranking ranking(node, {.largest = largest, .nanFirst = true, .lastOfEqual = isLast});
    found = ranking.indexOfFirst(emit.transpose(x, toEnd(axis, rank)));
  }
  Ints dropped(shape);
  dropped.erase(dropped.begin() + axis);
  return emit.reshape(found, node.flag("keepdims", true) ? shape : dropped);
}

Values argMax(Node &node) { return argument(node, /*largest=*/true); }
Values argMin(Node &node) { return argument(node, /*largest=*/false); }

/// values[1] where a new dimension's position is the index, else values[0].
Values oneHot(Node &node) {
  Emitter &emit = node.emit;
  const int64_t axis = node.normalised(node.integer("axis", -1), node.rank(0) + 1);
  std::optional<HostTensor> depth = Emitter::constantOf(node.input(1));
  if (node.failed())
    return Value();
  if (!depth || depth->size() != 1)
    return node.fail("depth (input 1) must be one number, known when the model is read");
  if (elementsIn(node.dims(2)) != 2)
    return node.fail("values of shape " + toString(node.dims(2)) + "; two, for off and on");
  const double size = reference::toDoubles(*depth).front();
  if (!(size >= 1 && size <= static_cast<double>(maxTensorBytes)))
    return node.fail("depth " + std::to_string(size) + "; at least 1");
  Ints shape(node.dims(0)), along(node.rank(0) + 1, 1);
  shape.insert(shape.begin() + axis, 1);
  along[axis] = static_cast<int64_t>(size);
  Value index = emit.reshape(emit.cast(node.input(0), DType::I64), shape);
  Value isNegative = emit.binary<LtOp>(index, emit.scalarLike(index, 0));
  index = emit.where(isNegative, emit.add(index, static_cast<double>(along[axis])), index);
  auto value = [&](int64_t i) { return emit.reshape(emit.slice(emit.reshape(node.input(2), 2), 0, i, 1), {}); };
  // Known indices make it known: legacy exports count repeats with it.
  const bool isKnown = Emitter::constantIntegers(node.input(0)).has_value();
  Value place = positions(emit, along, axis, DType::I64, isKnown);
  return emit.where(emit.binary<EqOp>(place, index), value(1), value(0));
}

constexpr OnnxOp table[] = {
    {"ArgMax", 1, 1, argMax, "axis keepdims select_last_index"},
    {"ArgMin", 1, 1, argMin, "axis keepdims select_last_index"},
    {"OneHot", 3, 3, oneHot, "axis"},
    {"TopK", 2, 2, topK, "axis largest sorted"},
};

} // namespace

llvm::ArrayRef<OnnxOp> rankingOps() { return table; }

} // namespace kfuse::ir::onnx
