// Rotary position embedding, as written with slices and concats. With a and b the parts of x that
// are rotated against each other (the halves of its last dimension, or its even and odd elements):
//
//   x * cos + concat(-b, a) * sin                    tables as wide as x ("rotate half")
//   concat(a * cos - b * sin, b * cos + a * sin)     tables half as wide ("complex product")
//
// Even and odd elements are interleaved by a concat along a new last dimension and a reshape.
#include "passes/simplify/Matchers.h"
#include "passes/simplify/Patterns.h"

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Part 0 or 1 of the last dimension of `whole`: a half, or the even or odd elements.
struct Part {
  Value whole;
  int number = 0;
  bool interleaved = false;
};

std::optional<Part> partOf(Value value) {
  auto slice = value.getDefiningOp<SliceOp>();
  if (!slice)
    return std::nullopt;
  ArrayRef<int64_t> from = dimsOf(slice.getOperand()), to = slice.getType().getShape();
  int64_t half = to.back(), offset = slice.getOffsets().back(), stride = slice.getStrides().back();
  bool restIsWhole = from.drop_back() == to.drop_back() &&
                     llvm::all_of(slice.getOffsets().drop_back(), [](int64_t first) { return first == 0; });
  if (!restIsWhole || from.back() != 2 * half)
    return std::nullopt;
  if (stride == 1 && (offset == 0 || offset == half))
    return Part{slice.getOperand(), offset == 0 ? 0 : 1, false};
  if (stride == 2 && (offset == 0 || offset == 1))
    return Part{slice.getOperand(), static_cast<int>(offset), true};
  return std::nullopt;
}

/// The two tensors that `value` puts together as parts 0 and 1 of its last dimension.
struct Join {
  Value first, second;
  bool interleaved = false;
};

std::optional<Join> joinOf(Value value) {
  auto concat = value.getDefiningOp<ConcatOp>();
  if (concat && concat->getNumOperands() == 2 &&
      concat.getAxis() == static_cast<uint64_t>(concat.getType().getRank() - 1))
    return Join{concat->getOperand(0), concat->getOperand(1), false};
  // [..., H, 2] -> [..., 2H], of two [..., H, 1] reshaped from [..., H].
  auto flat = value.getDefiningOp<ReshapeOp>();
  concat = flat ? flat.getOperand().getDefiningOp<ConcatOp>() : ConcatOp();
  if (!concat || concat->getNumOperands() != 2 || concat.getType().getShape().back() != 2 ||
      concat.getAxis() != static_cast<uint64_t>(concat.getType().getRank() - 1) ||
      flat.getType().getRank() != concat.getType().getRank() - 1)
    return std::nullopt;
  SmallVector<Value> parts;
  for (Value operand : concat->getOperands()) {
    auto widened = operand.getDefiningOp<ReshapeOp>();
    if (!widened || dimsOf(widened.getOperand()) != widened.getType().getShape().drop_back())
      return std::nullopt;
    parts.push_back(widened.getOperand());
  }
  return Join{parts[0], parts[1], true};
}

/// Whether `table` reads as a table of rotary for x: it broadcasts to x (or its half) and ends alike.
bool fitsAsTable(Value table, Value x, int64_t width) {
  ArrayRef<int64_t> dims = dimsOf(table);
  if (dims.empty() || dims.back() != width || dims.size() > dimsOf(x).size())
    return false;
  SmallVector<int64_t> full(dims), joined;
  full.back() = dimsOf(x).back();
  return ir::detail::broadcastShapes(dimsOf(x), full, joined) && ArrayRef(joined) == dimsOf(x) &&
         typeOf(table).getElementType() == typeOf(x).getElementType();
}

/// A table as it was before it was broadcast to x.
Value broadcastSource(Value table) {
  auto broadcast = table.getDefiningOp<BroadcastOp>();
  return broadcast ? broadcast.getOperand() : table;
}

LogicalResult replaceByRotary(Operation *op, Value x, Value cos, Value sin, int64_t width, bool interleaved,
                              PatternRewriter &rewriter) {
  cos = broadcastSource(cos), sin = broadcastSource(sin);
  if (x.getType() != op->getResult(0).getType() || !fitsAsTable(cos, x, width) || !fitsAsTable(sin, x, width))
    return failure();
  rewriter.replaceOpWithNewOp<RotaryOp>(op, x, cos, sin, interleaved);
  return success();
}

/// Whether `rotated` is concat(-b, a) of the parts a, b of x.
std::optional<bool> rotatesHalves(Value rotated, Value x) {
  std::optional<Join> join = joinOf(rotated);
  auto negated = join ? join->first.getDefiningOp<NegOp>() : NegOp();
  std::optional<Part> b = negated ? partOf(negated.getOperand()) : std::nullopt;
  std::optional<Part> a = b ? partOf(join->second) : std::nullopt;
  if (!a || a->whole != x || b->whole != x || a->number != 0 || b->number != 1 || a->interleaved != join->interleaved ||
      b->interleaved != join->interleaved)
    return std::nullopt;
  return join->interleaved;
}

/// x * cos + concat(-b, a) * sin.
LogicalResult recogniseRotateHalf(AddOp op, PatternRewriter &rewriter) {
  return success(inEitherOrder(op, [&](Value straight, Value crossed) {
    auto xCos = straight.getDefiningOp<MulOp>(), rotatedSin = crossed.getDefiningOp<MulOp>();
    if (!xCos || !rotatedSin)
      return false;
    return inEitherOrder(rotatedSin, [&](Value rotated, Value sin) {
      return inEitherOrder(xCos, [&](Value x, Value cos) {
        std::optional<bool> interleaved = rotatesHalves(rotated, x);
        return interleaved && succeeded(replaceByRotary(op, x, cos, sin, dimsOf(x).back(), *interleaved, rewriter));
      });
    });
  }));
}

/// A product of a part of x and a table.
struct PartTimesTable {
  Part part;
  Value table;
};

std::optional<PartTimesTable> partTimesTable(Value value) {
  auto product = value.getDefiningOp<MulOp>();
  if (!product)
    return std::nullopt;
  if (std::optional<Part> part = partOf(product.getLhs()))
    return PartTimesTable{*part, product.getRhs()};
  if (std::optional<Part> part = partOf(product.getRhs()))
    return PartTimesTable{*part, product.getLhs()};
  return std::nullopt;
}

/// concat(a cos - b sin, b cos + a sin).
template <class Op> LogicalResult recogniseComplexProduct(Op op, PatternRewriter &rewriter) {
  std::optional<Join> join = joinOf(op);
  auto real = join ? join->first.template getDefiningOp<SubOp>() : SubOp();
  auto imaginary = join ? join->second.template getDefiningOp<AddOp>() : AddOp();
  if (!real || !imaginary)
    return failure();
  std::optional<PartTimesTable> aCos = partTimesTable(real.getLhs()), bSin = partTimesTable(real.getRhs());
  std::optional<PartTimesTable> bCos = partTimesTable(imaginary.getLhs()), aSin = partTimesTable(imaginary.getRhs());
  if (!aCos || !bSin || !bCos || !aSin)
    return failure();
  if (bCos->part.number == 0)
    std::swap(bCos, aSin);
  Value x = aCos->part.whole, cos = aCos->table, sin = bSin->table;
  auto is = [&](const PartTimesTable &term, int number, Value table) {
    return term.part.whole == x && term.part.number == number && term.part.interleaved == join->interleaved &&
           term.table == table;
  };
  if (!is(*aCos, 0, cos) || !is(*bSin, 1, sin) || !is(*bCos, 1, cos) || !is(*aSin, 0, sin))
    return failure();
  return replaceByRotary(op, x, cos, sin, dimsOf(x).back() / 2, join->interleaved, rewriter);
}

} // namespace

void populateRotary(RewritePatternSet &patterns) {
  patterns.add(recogniseRotateHalf);
  patterns.add(recogniseComplexProduct<ConcatOp>).add(recogniseComplexProduct<ReshapeOp>);
}

} // namespace kfuse::passes
