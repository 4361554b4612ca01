#include "passes/FusionReport.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace kfuse::passes {
namespace {

constexpr StringLiteral refusalsAttrName = "kfuse.fusion_refusals";

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

} // namespace kfuse::passes
