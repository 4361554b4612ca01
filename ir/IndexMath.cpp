#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace kfuse::ir {

void collectTerms(AffineExpr expr, int64_t factor, SmallVectorImpl<IndexTerm> &terms) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    terms.push_back({factor * constant.getValue(), {}});
    return;
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (binary && binary.getKind() == AffineExprKind::Add) {
    collectTerms(binary.getLHS(), factor, terms);
    collectTerms(binary.getRHS(), factor, terms);
    return;
  }
  if (binary && binary.getKind() == AffineExprKind::Mul)
    if (auto scale = dyn_cast<AffineConstantExpr>(binary.getRHS()))
      return collectTerms(binary.getLHS(), factor * scale.getValue(), terms);
  terms.push_back({factor, expr});
}

namespace {

using Term = IndexTerm;

AffineExpr sumOf(ArrayRef<Term> terms, MLIRContext *context) {
  AffineExpr sum = getAffineConstantExpr(0, context);
  for (const Term &term : terms)
    sum = sum + (term.term ? term.term * term.coefficient : getAffineConstantExpr(term.coefficient, context));
  return sum;
}

/// Bounds of an expression's values; loose where operands depend on each other.
struct Range {
  int64_t low, high;
};

Range rangeOf(AffineExpr expr, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return {constant.getValue(), constant.getValue()};
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return {0, dims[dim.getPosition()] - 1};
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return {0, symbols[symbol.getPosition()] - 1};
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Range lhs = rangeOf(binary.getLHS(), dims, symbols), rhs = rangeOf(binary.getRHS(), dims, symbols);
  int64_t by = std::max<int64_t>(rhs.high, 1);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return {lhs.low + rhs.low, lhs.high + rhs.high};
  case AffineExprKind::Mul: // By a constant, on the right.
    return rhs.high < 0 ? Range{lhs.high * rhs.high, lhs.low * rhs.high}
                        : Range{lhs.low * rhs.high, lhs.high * rhs.high};
  case AffineExprKind::Mod:
    return {0, lhs.low < 0 ? by - 1 : std::min(lhs.high, by - 1)};
  case AffineExprKind::FloorDiv:
    return {llvm::divideFloorSigned(lhs.low, by), llvm::divideFloorSigned(lhs.high, by)};
  default:
    return {llvm::divideCeilSigned(lhs.low, by), llvm::divideCeilSigned(lhs.high, by)};
  }
}

/// unit * high + low, where 0 <= low < unit and 0 <= high: both as sums of terms.
struct Split {
  int64_t unit = 1;
  SmallVector<Term> high, low;
};

/// Splits terms by the largest proper divisor of `by` that allows it; unit 1 if there is none.
Split splitByUnit(ArrayRef<Term> terms, int64_t by, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols,
                  MLIRContext *context) {
  Split best;
  for (const Term &candidate : terms) {
    Split split{std::gcd(candidate.coefficient, by), {}, {}};
    if (!candidate.term || split.unit == by || split.unit <= best.unit)
      continue;
    for (const Term &term : terms)
      if (term.coefficient % split.unit == 0)
        split.high.push_back({term.coefficient / split.unit, term.term});
      else
        split.low.push_back(term);
    Range low = rangeOf(sumOf(split.low, context), dims, symbols);
    if (low.low >= 0 && low.high < split.unit && rangeOf(sumOf(split.high, context), dims, symbols).low >= 0)
      best = std::move(split);
  }
  return best;
}

/// A sum as by * quotient + rest.
struct Remainder {
  AffineExpr quotient, rest;
  SmallVector<Term> restTerms;
};

/// Takes what `by` divides out of a sum: terms, and a constant's multiple (70 = 64 + 6). With
/// `nonNegative`, also -d0 as by * -d0 + (by - 1) * d0, so that no term of the rest is negative.
Remainder remainderOf(ArrayRef<Term> terms, int64_t by, bool nonNegative, MLIRContext *context) {
  Remainder result;
  SmallVector<Term> quotient;
  for (const Term &term : terms) {
    bool takesMultiple = !term.term || term.coefficient % by == 0 || (nonNegative && term.coefficient < 0);
    int64_t rest = takesMultiple ? (term.coefficient % by + by) % by : term.coefficient;
    quotient.push_back({(term.coefficient - rest) / by, term.term});
    result.restTerms.push_back({rest, term.term});
  }
  result.quotient = sumOf(quotient, context);
  result.rest = sumOf(result.restTerms, context);
  return result;
}

/// lhs floordiv by, or lhs mod by.
AffineExpr simplifyDivision(AffineExpr lhs, int64_t by, bool isMod, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols) {
  MLIRContext *context = lhs.getContext();
  SmallVector<Term> terms;
  collectTerms(lhs, 1, terms);
  Remainder natural = remainderOf(terms, by, false, context);
  Range range = rangeOf(natural.rest, dims, symbols);
  if (range.low >= 0 && range.high < by)
    return isMod ? natural.rest : natural.quotient;

  // MLIR drops multiples of `by` from a dividend, which must not turn negative by it: C rounds towards 0.
  Remainder positive = remainderOf(terms, by, true, context);
  Split split = splitByUnit(positive.restTerms, by, dims, symbols, context);
  if (split.unit == 1)
    return isMod ? positive.rest % by : positive.quotient + positive.rest.floorDiv(by);
  // low < unit: only high takes part, over by / unit.
  AffineExpr high = simplifyDivision(sumOf(split.high, context), by / split.unit, isMod, dims, symbols);
  return isMod ? high * split.unit + sumOf(split.low, context) : positive.quotient + high;
}

/// Adds up terms of one expression, and drops those that vanish.
void merge(SmallVectorImpl<Term> &terms) {
  for (size_t i = 0; i < terms.size(); ++i)
    for (size_t j = terms.size(); --j > i;)
      if (terms[i].term == terms[j].term) {
        terms[i].coefficient += terms[j].coefficient;
        terms.erase(terms.begin() + j);
      }
  llvm::erase_if(terms, [](const Term &term) { return term.coefficient == 0; });
}

/// Puts what a reshape took apart together again: e mod n is e - (e floordiv n) * n, and where the sum
/// holds (e floordiv n) * n as well, e is left.
AffineExpr recombine(AffineExpr sum, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols) {
  SmallVector<Term> terms;
  collectTerms(sum, 1, terms);
  merge(terms);
  for (size_t i = 0; i < terms.size(); ++i) {
    auto mod = dyn_cast_if_present<AffineBinaryOpExpr>(terms[i].term);
    auto divisor = mod ? dyn_cast<AffineConstantExpr>(mod.getRHS()) : AffineConstantExpr();
    if (!divisor || mod.getKind() != AffineExprKind::Mod)
      continue;
    SmallVector<Term> shorter(terms);
    int64_t scale = terms[i].coefficient, by = divisor.getValue();
    shorter.erase(shorter.begin() + i);
    collectTerms(mod.getLHS(), scale, shorter);
    collectTerms(simplifyDivision(mod.getLHS(), by, /*isMod=*/false, dims, symbols), -scale * by, shorter);
    merge(shorter);
    if (shorter.size() < terms.size())
      return recombine(sumOf(shorter, sum.getContext()), dims, symbols);
  }
  return sum;
}

} // namespace

int64_t maxOfIndex(AffineExpr expr, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols) {
  return rangeOf(expr, dims, symbols).high;
}

AffineExpr simplifyIndex(AffineExpr expr, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()] == 1 ? getAffineConstantExpr(0, expr.getContext()) : expr;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return expr;
  AffineExpr lhs = simplifyIndex(binary.getLHS(), dims, symbols);
  AffineExpr rhs = simplifyIndex(binary.getRHS(), dims, symbols);
  bool isMod = binary.getKind() == AffineExprKind::Mod;
  auto divisor = dyn_cast<AffineConstantExpr>(rhs);
  if (binary.getKind() == AffineExprKind::Add)
    return recombine(lhs + rhs, dims, symbols);
  if ((!isMod && binary.getKind() != AffineExprKind::FloorDiv) || !divisor)
    return getAffineBinaryOpExpr(binary.getKind(), lhs, rhs);
  return simplifyDivision(lhs, divisor.getValue(), isMod, dims, symbols);
}

AffineExpr linearise(ArrayRef<AffineExpr> index, ArrayRef<int64_t> shape, MLIRContext *context) {
  AffineExpr offset = getAffineConstantExpr(0, context);
  for (auto [expr, size] : llvm::zip_equal(index, shape))
    offset = offset * size + expr;
  return offset;
}

SmallVector<AffineExpr> delinearise(AffineExpr offset, ArrayRef<int64_t> shape) {
  SmallVector<AffineExpr> index(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    AffineExpr outer = offset.floorDiv(stride);
    index[i] = i == 0 ? outer : outer % shape[i];
    stride *= shape[i];
  }
  return index;
}

bool linearForm(AffineExpr expr, unsigned rank, SmallVectorImpl<int64_t> &coefficients, int64_t &offset) {
  coefficients.assign(rank, 0);
  offset = 0;
  SmallVector<Term> terms;
  collectTerms(expr, 1, terms);
  for (const Term &term : terms) {
    if (!term.term)
      offset += term.coefficient;
    else if (auto dim = dyn_cast<AffineDimExpr>(term.term))
      coefficients[dim.getPosition()] += term.coefficient;
    else
      return false;
  }
  return true;
}

bool isStrided(AffineMap index, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  if (index.getNumSymbols() > 0)
    return false;
  SmallVector<int64_t> strides;
  int64_t start = 0;
  const AffineExpr offset = simplifyIndex(linearise(index.getResults(), shape, index.getContext()), dims);
  return linearForm(offset, dims.size(), strides, start);
}

} // namespace kfuse::ir
