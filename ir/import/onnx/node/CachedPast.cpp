#include "ir/import/onnx/node/CachedPast.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace kfuse::ir::onnx {
namespace {

constexpr llvm::StringLiteral varyingAttrName = "kfuse.varies";

std::uint32_t bit(int64_t dim) { return std::uint32_t{1} << dim; }

/// What `op` makes of its operands' rows.
class Rule {
public:
  Rule(const CachedPast &past, Operation *op) : past(past), op(op), rank(dimsOf(op->getResult(0)).size()) {}

  std::string refusal;

  CacheRows run() {
    TypeSwitch<Operation *>(op)
        .Case<ReshapeOp>([&](auto) { reshape(); })
        .Case<TransposeOp>([&](TransposeOp transpose) {
          for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
            take(0, from, to);
        })
        .Case<BroadcastOp>([&](auto) { aligned(0); })
        .Case<SliceOp>([&](SliceOp slice) { cut(slice); })
        .Case<ConcatOp>([&](ConcatOp concat) { join(concat.getAxis()); })
        .Case<GatherOp>([&](GatherOp gather) { lookUp(gather.getAxis()); })
        .Case<MatmulOp>([&](MatmulOp product) { multiply(product); })
        .Case<ReduceOp>([&](ReduceOp reduce) { reduceRows(reduce); })
        .Case<SoftmaxOp>([&](auto) { softmax(); })
        .Default([&](Operation *) { others(); });
    return result;
  }

private:
  CacheRows operand(unsigned i) const { return past.rowsOf(op->getOperand(i)); }
  ArrayRef<int64_t> dims(unsigned i) const { return dimsOf(op->getOperand(i)); }

  void refuse(const Twine &reason) {
    if (refusal.empty())
      refusal = reason.str();
  }

  /// Dimension `to` of the result is dimension `from` of operand `i`.
  void take(unsigned i, int64_t from, int64_t to) {
    const CacheRows rows = operand(i);
    result.areMixed |= rows.areMixed;
    if (!(rows.counting & bit(from)))
      return;
    result.counting |= bit(to);
    result.stale |= rows.stale & bit(from) ? bit(to) : 0;
    result.zero |= rows.zero & bit(from) ? bit(to) : 0;
  }

  /// Aligned at the right, as broadcasting does.
  void aligned(unsigned i) {
    for (int64_t from = 0, size = dims(i).size(); from < size; ++from)
      take(i, from, from + rank - size);
    result.areMixed |= operand(i).areMixed;
  }

  /// A dimension stays one where size and stride stay.
  void reshape() {
    ArrayRef<int64_t> from = dims(0), to = dimsOf(op->getResult(0));
    result.areMixed = operand(0).areMixed;
    int64_t stride = 1;
    for (int64_t dim = from.size() - 1; dim >= 0; stride *= from[dim--]) {
      if (!(operand(0).counting & bit(dim)))
        continue;
      int64_t same = to.size() - 1, at = 1;
      while (same >= 0 && (at != stride || to[same] != from[dim]))
        at *= to[same--];
      if (same >= 0)
        take(0, dim, same);
      else
        mix(0);
    }
  }

  void mix(unsigned i) {
    result.areMixed = true;
    if (operand(i).stale != 0)
      refuse("it mixes the rows of a cache with another dimension");
  }

  void cut(SliceOp slice) {
    for (auto [dim, size] : llvm::enumerate(dims(0))) {
      if (!(operand(0).counting & bit(dim)) || (dimsOf(slice)[dim] == size && slice.getOffsets()[dim] == 0))
        take(0, dim, dim);
      else
        refuse("it takes a part of a cache's rows, of which there are as many as the run says");
    }
  }

  void join(int64_t axis) {
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      if (operand(i).counting & bit(axis))
        mix(i);
      for (int64_t dim = 0; dim < rank; ++dim)
        if (dim != axis)
          take(i, dim, dim);
      result.areMixed |= operand(i).areMixed;
    }
    result.zero &= ~bit(axis);
    const bool allZero = llvm::all_of(llvm::seq<unsigned>(0, op->getNumOperands()),
                                      [&](unsigned i) { return (operand(i).zero & result.zero) == result.zero; });
    result.zero = allZero ? result.zero : 0;
  }

  /// Rows that are looked up are those that the indices say.
  void lookUp(int64_t axis) {
    if (operand(0).areMixed)
      refuse("it looks up elements where a cache's rows share a dimension with others");
    const int64_t indices = dims(1).size();
    for (int64_t dim = 0, size = dims(0).size(); dim < size; ++dim)
      if (dim != axis)
        take(0, dim, dim < axis ? dim : dim - 1 + indices);
    for (int64_t dim = 0; dim < indices; ++dim)
      if (operand(1).counting & bit(dim))
        result.counting |= bit(axis + dim);
    // Indices behind the present look up what lies there in a mask: its zeros, where that is what it has.
    if (operand(0).zero & bit(axis))
      result.zero |= result.counting;
  }

  void multiply(MatmulOp product) {
    const int64_t left = dims(0).size(), right = dims(1).size();
    const int64_t m = left - (product.getTransposeA() ? 1 : 2), k = left - (product.getTransposeA() ? 2 : 1);
    const int64_t n = right - (product.getTransposeB() ? 2 : 1), kRight = right - (product.getTransposeB() ? 1 : 2);
    if (left < 2 || right < 2)
      return others();
    const bool leftSums = operand(0).counting & bit(k), rightSums = operand(1).counting & bit(kRight);
    if ((leftSums || rightSums) && !(operand(0).zero & bit(k)) && !(operand(1).zero & bit(kRight)))
      refuse("it sums over the rows of a cache, of which there are as many as the run says");
    for (int64_t dim = 0; dim + 2 < left; ++dim)
      take(0, dim, dim + rank - left);
    for (int64_t dim = 0; dim + 2 < right; ++dim)
      take(1, dim, dim + rank - right);
    take(0, m, rank - 2);
    take(1, n, rank - 1);
    result.zero &= ~result.stale;
    result.areMixed |= operand(0).areMixed || operand(1).areMixed;
  }

  void reduceRows(ReduceOp reduce) {
    int64_t to = 0;
    for (int64_t dim = 0, size = dims(0).size(); dim < size; ++dim) {
      if (!llvm::is_contained(reduce.getAxes(), dim))
        take(0, dim, to++);
      else if ((operand(0).counting & bit(dim)) && !((operand(0).zero & bit(dim)) && reduce.getFunction() == "sum"))
        refuse("it reduces over the rows of a cache, of which there are as many as the run says");
    }
    result.areMixed |= operand(0).areMixed;
  }

  /// Its operand was hidden behind the present.
  void softmax() {
    aligned(0);
    if (result.counting & bit(rank - 1)) {
      result.stale &= ~bit(rank - 1);
      result.zero |= bit(rank - 1);
    }
  }

  void others() {
    auto fusable = dyn_cast<FusableOpInterface>(op);
    const OpKind kind = fusable ? fusable.getOpKind() : OpKind::StateUpdate;
    const bool keepsShape = kind == OpKind::RowReduction && dims(0) == dimsOf(op->getResult(0));
    if ((kind == OpKind::Pointwise && !fusable.isComputedByReaders()) || keepsShape) {
      pointwise();
      if (keepsShape && (operand(0).counting & bit(rank - 1)))
        refuse("it takes a norm over the rows of a cache");
      return;
    }
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      if (operand(i).any())
        mix(i);
  }

  void pointwise() {
    std::uint32_t zeros = ~std::uint32_t{0}, someZeros = 0;
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      const CacheRows before = result;
      result.zero = 0;
      aligned(i);
      const std::uint32_t here = result.zero;
      someZeros |= here;
      const bool isCondition = isa<WhereOp>(op) && i == 0;
      if (!isCondition && !isZero(op->getOperand(i)))
        zeros &= here;
      result.zero = before.zero;
    }
    if (isa<MulOp, AndOp>(op)) // One zero is enough, but for what is no number.
      zeros = someZeros;
    else if (!isa<WhereOp, CastOp, NegOp, AbsOp, AddOp, SubOp, OrOp, MaxOp, MinOp>(op))
      zeros = 0;
    result.zero = zeros & result.counting & ~(isa<WhereOp>(op) ? 0 : result.stale);
    if (isa<WhereOp>(op))
      result.stale &= ~result.zero;
  }

  static bool isZero(Value value) {
    auto constant = value.getDefiningOp<ConstantOp>();
    auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    if (!dense || !dense.isSplat())
      return false;
    if (isa<FloatType>(dense.getElementType()))
      return dense.getSplatValue<APFloat>().isZero();
    return dense.getSplatValue<APInt>().isZero();
  }

  const CachedPast &past;
  Operation *op;
  int64_t rank;
  CacheRows result;
};

} // namespace

void CachedPast::addState(Value view, State state) {
  states[view] = state;
  setRows(view, {.counting = bit(state.axis), .stale = bit(state.axis)});
}

CachedPast::State *CachedPast::stateOf(Value value) {
  auto found = states.find(value);
  return found == states.end() ? nullptr : &found->second;
}

void CachedPast::setRows(Value value, CacheRows of) {
  if (of.any())
    rows[value] = of;
}

std::string CachedPast::follow(Operation *op, Value result) {
  if (llvm::none_of(op->getOperands(), [&](Value operand) { return rowsOf(operand).any(); }))
    return "";
  Rule rule(*this, op);
  setRows(result, rule.run());
  return rule.refusal;
}

bool CachedPast::varies(Value value) {
  auto constant = value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
  return constant && constant->hasAttr(varyingAttrName);
}

void CachedPast::setVarying(Value constant, Value atRunTime) {
  constant.getDefiningOp()->setAttr(varyingAttrName, UnitAttr::get(constant.getContext()));
  varying[constant] = atRunTime;
}

bool CachedPast::countsPresent(Value value, unsigned dim) const {
  return (rowsOf(value).counting & bit(dim)) && dimsOf(value)[dim] == capacity;
}

bool CachedPast::countsPast(Value value, unsigned dim) const {
  return (rowsOf(value).counting & bit(dim)) && dimsOf(value)[dim] == past();
}

} // namespace kfuse::ir::onnx
