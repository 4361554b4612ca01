#include "tuner/model/PlannedModel.h"

#include "codegen/CostModel.h"
#include "codegen/MakeRegion.h"
#include "ir/FirstError.h"
#include "ir/dialect/Kfuse.h"
#include "tuner/model/AllCores.h"
#include "tuner/model/Dump.h"
#include "tuner/record/Trace.h"

#include "mlir/Pass/PassManager.h"

#include <map>
#include <mutex>
#include <set>

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

/// Whether the model has a parameter that none has had before; from now on these are known.
bool hasNewParameters(ModuleOp module, std::set<StringRef> &known) {
  bool hasNew = false;
  auto main = module.lookupSymbol<func::FuncOp>("main");
  for (unsigned i = 0; main && i < main.getNumArguments(); ++i) {
    auto role = main.getArgAttrOfType<StringAttr>(i, ir::roleAttrName);
    auto name = main.getArgAttrOfType<StringAttr>(i, ir::nameAttrName);
    if (role && name && role.getValue() == "parameter")
      hasNew |= known.insert(name.getValue()).second;
  }
  return hasNew;
}

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

Result<std::vector<PlannedModel>> planModels(std::span<const ModuleOp> modules, const ir::Target &target,
                                             bool simplify) {
  passes::WeightForms forms;
  std::vector<std::optional<Result<PlannedModel>>> planned(modules.size());
  auto plan = [&](std::size_t i, passes::WeightForms *added) {
    planned[i] = planModel(modules[i], *codegen::makeCostModel(target),
                           {.simplify = simplify, .forms = {.known = &forms, .added = added}});
  };
  std::set<StringRef> parameters;
  std::vector<std::size_t> followers;
  for (std::size_t i = 0; i < modules.size(); ++i)
    if (hasNewParameters(modules[i], parameters))
      plan(i, &forms);
    else
      followers.push_back(i);
  std::map<MLIRContext *, std::mutex> contexts; // Each is for one thread at a time.
  for (ModuleOp module : modules)
    contexts[module->getContext()];
  onAllCores(followers.size(), [&](std::size_t i) {
    ModuleOp module = modules[followers[i]];
    std::scoped_lock lock(contexts.at(module->getContext()));
    plan(followers[i], nullptr);
  });
  std::vector<PlannedModel> models;
  for (std::optional<Result<PlannedModel>> &one : planned) {
    if (!*one)
      return one->error();
    models.push_back(std::move(**one));
  }
  return models;
}

} // namespace kfuse::tuner
