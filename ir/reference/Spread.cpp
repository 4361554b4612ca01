#include "ir/reference/Spread.h"

#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Block.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cmath>
#include <set>

namespace kfuse::reference {
namespace {

constexpr std::uint64_t evaluations = 8;

bool isElementwise(mlir::Operation *op) {
  auto fusable = mlir::dyn_cast<ir::FusableOpInterface>(op);
  if (!fusable || mlir::isa<ir::RotaryOp>(op)) // A rotation adds two products.
    return false;
  if (auto dequantize = mlir::dyn_cast<ir::DequantizeOp>(op); // Zeros that are rounded cancel.
      dequantize && dequantize.getZeros() && isFloat(ir::dtypeOf(dequantize.getZeros().getType())))
    return false;
  const ir::OpKind kind = fusable.getOpKind();
  return kind == ir::OpKind::Pointwise || kind == ir::OpKind::Layout || kind == ir::OpKind::Generator;
}

double distance(double value, double exact) {
  const double difference = std::fabs(value - exact);
  return std::isnan(difference) ? INFINITY : difference;
}

} // namespace

bool isElementwise(mlir::Block &block, unsigned result) {
  llvm::SmallVector<mlir::Value> open{block.getTerminator()->getOperand(result)};
  std::set<mlir::Operation *> seen;
  while (!open.empty()) {
    mlir::Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (!isElementwise(op))
      return false;
    llvm::append_range(open, op->getOperands());
  }
  return true;
}

Result<std::vector<double>> spreadAt(mlir::Block &block, std::span<const HostTensor> arguments, unsigned result,
                                     std::span<const std::int64_t> offsets) {
  Result<Values> exact = evaluateAt(block, arguments, result, offsets, Mode::Exact);
  if (!exact)
    return exact.error();
  std::vector<double> spread(offsets.size());
  for (std::uint64_t seed = 1; seed <= evaluations; ++seed) {
    Result<Values> shaken = evaluateAt(block, arguments, result, offsets, Mode::Shaken, seed);
    if (!shaken)
      return shaken.error();
    for (auto [i, widest] : llvm::enumerate(spread))
      widest = std::max(
          widest, distance(shaken->real(static_cast<std::int64_t>(i)), exact->real(static_cast<std::int64_t>(i))));
  }
  return spread;
}

Spread spreadOf(mlir::Block &block, std::span<const HostTensor> arguments, unsigned result) {
  if (!isElementwise(block, result))
    return {};
  return [&block, arguments, result](std::span<const std::int64_t> offsets) {
    return spreadAt(block, arguments, result, offsets);
  };
}

} // namespace kfuse::reference
