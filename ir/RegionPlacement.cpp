#include "ir/RegionPlacement.h"

#include "ir/IndexMath.h"
#include "ir/OperandReads.h"
#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <set>
#include <tuple>

using namespace mlir;

namespace kfuse::ir {
namespace {

using Index = RegionPlacement::Index;

/// Finds the space, then values from the anchor outwards.
class Placer {
public:
  explicit Placer(Block &body) : body(body), ctx(body.getParentOp()->getContext()) {
    for (Operation &op : body.without_terminator())
      numbers.try_emplace(&op, numbers.size());
  }

  RegionPlacement run() {
    placeAnchor();
    return spread();
  }
  RegionPlacement runByResult() {
    placeWhole(firstResult());
    if (firstOfKind(OpKind::RowReduction) && domain.rank() > 0)
      domain.reductionDim = static_cast<int>(domain.rank()) - 1;
    return spread();
  }

private:
  /// Rounds over the ops in their order, as long as something is placed; only those that may have something to place.
  RegionPlacement spread() {
    while (!pending.empty()) {
      auto [atRound, number, op] = *pending.begin();
      pending.erase(pending.begin());
      round = atRound;
      visited = number;
      if (auto fusable = dyn_cast<FusableOpInterface>(op)) {
        placeForward(fusable);
        placeBackward(fusable);
      }
    }
    return std::move(placement);
  }

  Operation *firstOfKind(OpKind kind) {
    for (Operation &op : body.without_terminator())
      if (auto fusable = dyn_cast<FusableOpInterface>(op); fusable && fusable.getOpKind() == kind)
        return &op;
    return nullptr;
  }

  /// Whether `op` is computed from `source`.
  bool isComputedFrom(Operation *op, Operation *source) {
    SmallPtrSet<Operation *, 8> computed{source};
    for (Operation &later : body.without_terminator())
      if (llvm::any_of(later.getOperands(), [&](Value operand) { return computed.contains(operand.getDefiningOp()); }))
        computed.insert(&later);
    return computed.contains(op);
  }

  //===- The anchor --------------------------------------------------------------------------===//

  void placeAnchor() {
    if (Operation *product = firstOfKind(OpKind::Contraction))
      return placeProduct(product);
    if (Operation *rows = firstOfKind(OpKind::RowReduction))
      return placeRows(rows);
    placeWhole(firstResult()); // Elementwise.
  }

  /// The first result; of a state update, what is written.
  Value firstResult() {
    Value first = body.getTerminator()->getOperand(0);
    auto update = first.getDefiningOp<StateUpdateOp>();
    return update ? update.getValue() : first;
  }

  void placeProduct(Operation *product) {
    placement.anchor = product;
    placeWhole(product->getResult(0));
    const int64_t flops = cast<FusableOpInterface>(product).getFlops();
    domain.contractionDim = domain.rank();
    domain.extents.push_back(flops / 2 / domain.points());
    // Rows beside it lie along K where it multiplies what they become, else along the columns of its result.
    if (Operation *rows = firstOfKind(OpKind::RowReduction))
      domain.reductionDim = isComputedFrom(product, rows) ? domain.contractionDim : domain.contractionDim - 1;
  }

  void placeRows(Operation *rows) {
    placement.anchor = rows;
    placeWhole(rows->getResult(0));
    ArrayRef<int64_t> dims = dimsOf(rows->getOperand(0));
    const bool keepsShape = dims == dimsOf(rows->getResult(0));
    domain.reductionDim = keepsShape ? domain.rank() - 1 : domain.rank();
    if (!keepsShape)
      domain.extents.push_back(elementsIn(dims) / domain.points());
  }

  /// The elements of `value` are the space.
  void placeWhole(Value value) {
    domain.extents.assign(dimsOf(value).begin(), dimsOf(value).end());
    Index identity;
    for (size_t i = 0; i < dimsOf(value).size(); ++i)
      identity.push_back(getAffineDimExpr(i, ctx));
    place(value, identity);
  }

  //===- From it outwards ----------------------------------------------------------------------===//

  Index simplified(ArrayRef<AffineExpr> index) const {
    Index result;
    for (AffineExpr expr : index)
      result.push_back(simplifyIndex(expr, domain.extents));
    return result;
  }

  /// Its neighbours may be placed next: those behind the op that is looked at in this round, the others in the next.
  void place(Value value, ArrayRef<AffineExpr> index) {
    if (!placement.elements.try_emplace(value, simplified(index)).second)
      return;
    if (Operation *producer = value.getDefiningOp())
      visit(producer);
    for (Operation *user : value.getUsers())
      visit(user);
  }

  void visit(Operation *op) {
    if (auto found = numbers.find(op); found != numbers.end()) // Not the terminator.
      pending.insert({found->second > visited ? round : round + 1, found->second, op});
  }

  void placeForward(FusableOpInterface op) {
    Value result = op->getResult(0);
    if (placement.elementOf(result))
      return;
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (const Index *known = placement.elementOf(operand))
        if (std::optional<Index> index = op.forwardIndex(i, *known))
          return place(result, *index);
  }

  void placeBackward(FusableOpInterface op) {
    const Index *known = placement.elementOf(op->getResult(0));
    if (!known || op.getOpKind() == OpKind::Contraction || op.readsOverlap())
      return;
    const Index resultIndex = *known;
    AffineExpr reduction = domain.reductionDim < 0 ? AffineExpr() : getAffineDimExpr(domain.reductionDim, ctx);
    if (llvm::all_of(op->getOperands(), [&](Value operand) { return placement.elementOf(operand); }))
      return;
    for (auto [operand, reads] : llvm::zip_equal(op->getOperands(), operandReads(op, resultIndex, reduction)))
      if (!reads.empty() && !placement.elementOf(operand) && isOneToOne(operand, reads.front()))
        place(operand, reads.front());
  }

  /// Element counts match the domain dims used and every dimension is read with unit weight: a
  /// slice or broadcast fails the count, a gather its symbol.
  bool isOneToOne(Value value, ArrayRef<AffineExpr> index) const {
    int64_t points = 1;
    for (unsigned dim = 0; dim < domain.rank(); ++dim)
      if (llvm::any_of(index, [&](AffineExpr expr) { return expr.isFunctionOfDim(dim); }))
        points *= domain.extents[dim];
    bool dynamic = llvm::any_of(index, [](AffineExpr expr) { return expr.isFunctionOfSymbol(0); });
    AffineExpr offset = linearise(simplified(index), dimsOf(value), ctx);
    bool covers = !dynamic && maxOfIndex(offset, domain.extents) == elementsIn(dimsOf(value)) - 1;
    return covers && points == elementsIn(dimsOf(value));
  }

  Block &body;
  MLIRContext *ctx;
  llvm::DenseMap<Operation *, int> numbers;            ///< Numbers of the ops, in their order.
  std::set<std::tuple<int, int, Operation *>> pending; ///< Round, number, op.
  int round = 0, visited = -1;                         ///< Number of the op that is looked at.
  RegionPlacement placement;
  Domain &domain = placement.domain;
};

} // namespace

std::string RegionPlacement::anchorName() const {
  return anchor ? anchor->getName().getStringRef().str() : "the first result";
}

const Index *RegionPlacement::elementOf(Value value) const {
  auto found = elements.find(value);
  return found == elements.end() ? nullptr : &found->second;
}

RegionPlacement placeRegion(Block &body) { return Placer(body).run(); }

RegionPlacement placeByResult(Block &body) { return Placer(body).runByResult(); }

} // namespace kfuse::ir
