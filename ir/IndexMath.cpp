#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace mlir;

namespace kfuse::ir {
namespace {

/// coefficient * term, where the term is a dimension, symbol, floordiv or mod; null for the constant.
struct Term {
  int64_t coefficient;
  AffineExpr term;
};

void collectTerms(AffineExpr expr, int64_t factor, SmallVectorImpl<Term> &terms) {
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

AffineExpr sumOf(ArrayRef<Term> terms, MLIRContext *context) {
  AffineExpr sum = getAffineConstantExpr(0, context);
  for (const Term &term : terms)
    sum = sum + (term.term ? term.term * term.coefficient : getAffineConstantExpr(term.coefficient, context));
  return sum;
}

/// The largest proper divisor u of `by` such that the terms u does not divide add up to less than u,
/// and some other term remains; 1 if there is none.
int64_t commonUnit(ArrayRef<Term> terms, int64_t by, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols) {
  int64_t best = 1;
  for (const Term &candidate : terms) {
    int64_t unit = std::gcd(candidate.coefficient, by), low = 0;
    if (!candidate.term || unit == by || unit <= best)
      continue;
    for (const Term &term : terms)
      if (term.coefficient % unit)
        low += term.coefficient * (term.term ? maxOfIndex(term.term, dims, symbols) : 1);
    if (low < unit)
      best = unit;
  }
  return best;
}

} // namespace

int64_t maxOfIndex(AffineExpr expr, ArrayRef<int64_t> dims, ArrayRef<int64_t> symbols) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue();
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()] - 1;
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return symbols[symbol.getPosition()] - 1;
  auto binary = cast<AffineBinaryOpExpr>(expr);
  int64_t lhs = maxOfIndex(binary.getLHS(), dims, symbols);
  int64_t rhs = maxOfIndex(binary.getRHS(), dims, symbols);
  switch (binary.getKind()) {
  case AffineExprKind::Add:
    return lhs + rhs;
  case AffineExprKind::Mul: // A negative factor: the expression's largest value is at most 0 there.
    return rhs < 0 ? 0 : lhs * rhs;
  case AffineExprKind::Mod:
    return std::min(lhs, rhs - 1);
  case AffineExprKind::FloorDiv:
    return lhs / std::max<int64_t>(rhs, 1);
  default:
    return lhs / std::max<int64_t>(rhs, 1) + 1;
  }
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
  if ((!isMod && binary.getKind() != AffineExprKind::FloorDiv) || !divisor)
    return getAffineBinaryOpExpr(binary.getKind(), lhs, rhs);

  int64_t by = divisor.getValue();
  SmallVector<Term> terms, divisible, rest;
  collectTerms(lhs, 1, terms);
  bool anyNegative = llvm::any_of(terms, [](const Term &term) { return term.coefficient < 0; });
  for (const Term &term : terms) {
    if (term.term) {
      (term.coefficient % by == 0 ? divisible : rest).push_back(term);
      continue;
    }
    // A constant gives its multiple of the divisor away: 70 = 64 + 6.
    divisible.push_back({term.coefficient - term.coefficient % by, {}});
    rest.push_back({term.coefficient % by, {}});
  }
  if (int64_t unit = commonUnit(rest, by, dims, symbols); unit > 1 && !anyNegative) {
    // (unit * high + low) with low < unit: only high takes part, over by / unit.
    SmallVector<Term> high, low;
    for (Term term : rest) {
      bool isHigh = term.coefficient % unit == 0;
      term.coefficient /= isHigh ? unit : 1;
      (isHigh ? high : low).push_back(term);
    }
    AffineExpr scaled = sumOf(high, expr.getContext());
    int64_t over = by / unit;
    if (isMod)
      return simplifyIndex(scaled % over, dims, symbols) * unit + sumOf(low, expr.getContext());
    for (Term &term : divisible)
      term.coefficient /= by;
    return sumOf(divisible, expr.getContext()) + simplifyIndex(scaled.floorDiv(over), dims, symbols);
  }
  AffineExpr remainder = sumOf(rest, expr.getContext());
  bool restIsSmall = !anyNegative && maxOfIndex(remainder, dims, symbols) < by;
  if (isMod)
    return restIsSmall ? remainder : (anyNegative ? lhs : remainder) % by;
  for (Term &term : divisible)
    term.coefficient /= by;
  AffineExpr quotient = sumOf(divisible, expr.getContext());
  if (restIsSmall)
    return quotient;
  return anyNegative ? lhs.floorDiv(by) : quotient + remainder.floorDiv(by);
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

} // namespace kfuse::ir
