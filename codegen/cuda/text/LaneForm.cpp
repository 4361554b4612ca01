#include "codegen/cuda/text/LaneForm.h"

#include "llvm/Support/Casting.h"

#include <numeric>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

/// value mod by, value floordiv by: lanes keep together when no chunk crosses a multiple of `by`.
std::optional<LaneForm> divided(LaneForm value, AffineExprKind kind, int64_t by, int64_t width) {
  int64_t unit = std::gcd(value.divisor, by);
  bool staysInUnit = value.stride >= 0 && value.stride * (width - 1) < unit;
  if (by <= 0 || (value.stride != 0 && !staysInUnit))
    return std::nullopt;
  if (kind == AffineExprKind::Mod)
    return LaneForm{value.stride, unit};
  return LaneForm{0, unit == by ? value.divisor / by : 1};
}

} // namespace

int64_t LaneForm::alignment(int64_t limit) const {
  int64_t power = 1;
  while (power < limit && divisor % (2 * power) == 0)
    power *= 2;
  return power;
}

std::optional<LaneForm> laneForm(AffineExpr expr, unsigned dim, int64_t width,
                                 llvm::function_ref<bool(unsigned)> isUniform) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return LaneForm{0, std::abs(constant.getValue())};
  if (auto along = dyn_cast<AffineDimExpr>(expr))
    return along.getPosition() == dim ? LaneForm{1, width} : LaneForm{0, 1};
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return isUniform(symbol.getPosition()) ? std::optional(LaneForm{0, 1}) : std::nullopt;

  auto binary = cast<AffineBinaryOpExpr>(expr);
  std::optional<LaneForm> lhs = laneForm(binary.getLHS(), dim, width, isUniform);
  std::optional<LaneForm> rhs = laneForm(binary.getRHS(), dim, width, isUniform);
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (!lhs || !rhs)
    return std::nullopt;
  if (binary.getKind() == AffineExprKind::Add)
    return LaneForm{lhs->stride + rhs->stride, std::gcd(lhs->divisor, rhs->divisor)};
  if (!constant)
    return std::nullopt;
  int64_t by = constant.getValue();
  if (binary.getKind() == AffineExprKind::Mul)
    return LaneForm{lhs->stride * by, lhs->divisor * std::abs(by)};
  if (binary.getKind() == AffineExprKind::CeilDiv)
    return std::nullopt;
  return divided(*lhs, binary.getKind(), by, width);
}

} // namespace kfuse::codegen::cuda
