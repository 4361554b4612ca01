#include "passes/FusionReport.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

#include <cmath>

using namespace mlir;

namespace kfuse::passes {
namespace {

constexpr StringLiteral refusalsAttrName = "kfuse.fusion_refusals", savingsAttrName = "kfuse.fusion_savings";

void append(func::FuncOp function, std::vector<FusionRefusal> &refusals) {
  auto array = function->getAttrOfType<ArrayAttr>(refusalsAttrName);
  if (!array)
    return;
  for (auto entry : array.getAsRange<ArrayAttr>()) {
    auto text = [&](unsigned i) { return cast<StringAttr>(entry[i]).getValue().str(); };
    refusals.push_back({text(0), text(1), text(2)});
  }
}

} // namespace

void setFusionRefusals(func::FuncOp function, ArrayRef<FusionRefusal> refusals) {
  if (refusals.empty())
    return;
  Builder builder(function.getContext());
  SmallVector<Attribute> entries;
  for (const FusionRefusal &refusal : refusals)
    entries.push_back(builder.getStrArrayAttr({refusal.producer, refusal.consumer, refusal.reason}));
  function->setAttr(refusalsAttrName, builder.getArrayAttr(entries));
}

std::vector<FusionRefusal> fusionRefusals(ModuleOp module) {
  std::vector<FusionRefusal> refusals;
  if (auto main = module.lookupSymbol<func::FuncOp>("main"))
    append(main, refusals);
  for (auto function : module.getOps<func::FuncOp>())
    if (function.getName() != "main")
      append(function, refusals);
  return refusals;
}

/// {launches, bytes, nanoseconds} before, then after.
void setFusionSavings(func::FuncOp function, const FusionSavings &savings) {
  SmallVector<int64_t> numbers;
  for (const FusionTotals &totals : {savings.unfused, savings.fused})
    numbers.append({totals.launches, std::llround(totals.bytes), std::llround(totals.us * 1e3)});
  function->setAttr(savingsAttrName, DenseI64ArrayAttr::get(function.getContext(), numbers));
}

FusionSavings fusionSavings(func::FuncOp function) {
  auto numbers = function->getAttrOfType<DenseI64ArrayAttr>(savingsAttrName);
  if (!numbers)
    return {};
  auto totals = [&](ArrayRef<int64_t> from) {
    return FusionTotals{from[0], static_cast<double>(from[1]), static_cast<double>(from[2]) * 1e-3};
  };
  return {totals(numbers.asArrayRef().take_front(3)), totals(numbers.asArrayRef().take_back(3))};
}

} // namespace kfuse::passes
