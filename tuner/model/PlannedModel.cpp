#include "tuner/model/PlannedModel.h"

#include "codegen/CostModel.h"
#include "codegen/Region.h"
#include "ir/FirstError.h"
#include "ir/dialect/Kfuse.h"
#include "tuner/model/Dump.h"
#include "tuner/record/Trace.h"

#include "mlir/Pass/PassManager.h"

#include <map>

using namespace mlir;

namespace kfuse::tuner {
namespace {

/// Gives every fused op of a function its kernel; regions of equal text are one kernel.
class KernelCollector {
public:
  explicit KernelCollector(PlannedModel &model) : model(model) {}

  Result<void> collect(func::FuncOp function, int PlannedKernel::*uses) {
    for (auto fused : function.getOps<ir::FusedOp>()) {
      Result<unsigned> kernel = kernelFor(fused);
      if (!kernel)
        return kernel.error();
      PlannedKernel &planned = model.kernels[*kernel];
      planned.region.programmaticLaunch |=
          !model.target->isCpu() && uses == &PlannedKernel::uses && !model.kernelOf.empty();
      model.kernelOf[fused] = *kernel;
      ++(planned.*uses);
    }
    return {};
  }

private:
  Result<unsigned> kernelFor(ir::FusedOp fused) {
    Result<codegen::Region> region = codegen::makeRegion(fused.getBody().front());
    if (!region)
      return region.error();
    auto [found, isNew] = known.try_emplace(region->text, model.kernels.size());
    if (!isNew)
      return found->second;
    PlannedKernel kernel;
    kernel.body = &fused.getBody().front();
    std::string reasons;
    kernel.kernelTemplate = codegen::templateFor(*region, *model.target, &reasons);
    if (!kernel.kernelTemplate)
      return Error{ErrorCode::BadModel,
                   "no kernel template of " + model.target->name + " takes " + region->ops + ": " + reasons};
    if (auto number = fused->getAttrOfType<IntegerAttr>("kfuse.attention"))
      kernel.attention = static_cast<int>(number.getInt());
    kernel.region = std::move(*region);
    model.kernels.push_back(std::move(kernel));
    return found->second;
  }

  PlannedModel &model;
  std::map<std::string, unsigned> known;
};

} // namespace

Result<PlannedModel> planModel(ModuleOp module, const ir::Target &target, bool simplify) {
  return planModel(module, *codegen::makeCostModel(target), {.simplify = simplify});
}

Result<PlannedModel> planModel(ModuleOp module, const ir::CostModel &costs, const passes::PipelineOptions &options) {
  if (Result<void> made = makeDumpFolder(); !made)
    return made.error();
  Span span("plan", costs.target().name);
  PlannedModel model;
  model.target = &costs.target();
  model.module = module.clone();
  ir::FirstError error(module.getContext());
  PassManager manager(module.getContext());
  dumpAfterPasses(manager);
  passes::buildPipeline(manager, costs, options);
  if (failed(manager.run(*model.module)))
    return error.as(ErrorCode::BadModel);

  model.refusals = passes::fusionRefusals(*model.module);
  model.main.function = model.module->lookupSymbol<func::FuncOp>("main");
  model.main.memory = passes::planMemory(model.main.function);
  KernelCollector kernels(model);
  if (Result<void> collected = kernels.collect(model.main.function, &PlannedKernel::uses); !collected)
    return collected.error();
  if (auto prepare = model.module->lookupSymbol<func::FuncOp>("prepare")) {
    model.prepare = PlannedFunction{prepare, passes::planMemory(prepare)};
    if (Result<void> collected = kernels.collect(prepare, &PlannedKernel::prepareUses); !collected)
      return collected.error();
  }
  return model;
}

} // namespace kfuse::tuner
