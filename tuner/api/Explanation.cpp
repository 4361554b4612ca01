#include "tuner/api/Explanation.h"

#include "ir/dialect/Kfuse.h"
#include "kfuse/inspect.h"
#include "tuner/api/Handles.h"
#include "tuner/api/NoThrow.h"
#include "tuner/model/Workbench.h"
#include "tuner/record/Json.h"

#include <mutex>

namespace kfuse {
namespace tuner {

std::string_view ExplainedKernel::advice() const { return whatWouldHelp(workOf(kernel.region), bound.regime); }

std::vector<ExplainedKernel> explainedKernels(const PlannedModel &model) {
  Peaks peaks = nominalPeaks(*model.target);
  std::vector<ExplainedKernel> rows;
  rows.reserve(model.kernels.size());
  for (const PlannedKernel &kernel : model.kernels)
    rows.push_back({kernel, roofline(workOf(kernel.region), peaks)});
  return rows;
}

double flopsAsWritten(mlir::ModuleOp module) {
  double flops = 0;
  module.walk([&](ir::FusableOpInterface op) { flops += static_cast<double>(op.getFlops()); });
  return flops;
}

double plannedFlops(const PlannedModel &model) {
  double flops = 0;
  for (const PlannedKernel &kernel : model.kernels)
    flops += kernel.region.flops * kernel.uses;
  return flops;
}

namespace {

Json totalsJson(const passes::FusionTotals &totals) {
  return {{"launches", totals.launches}, {"bytes", totals.bytes}, {"estimate_us", totals.us}};
}

Json memoryJson(const PlannedFunction &planned) {
  return {{"arena_bytes", planned.memory.arenaBytes}, {"arena_lower_bound_bytes", planned.memory.lowerBoundBytes}};
}

} // namespace

std::string toJson(const PlannedModel &model, const std::vector<ir::StateNote> &states, double writtenFlops) {
  Json json{{"target", model.target->name},
            {"card", model.target->card.empty() ? Json() : Json(model.target->card)},
            {"kernels", Json::array()},
            {"not_fused", Json::array()},
            {"states", Json::array()}};
  for (const ir::StateNote &state : states)
    json["states"].push_back(
        {{"input", state.input}, {"output", state.output}, {"in_place", state.isInPlace}, {"how", state.how}});
  for (const ExplainedKernel &row : explainedKernels(model)) {
    const codegen::Region &region = row.kernel.region;
    Json kernel{{"name", region.name},
                {"ops", region.ops},
                {"template", row.kernel.kernelTemplate->name()},
                {"uses", row.kernel.uses},
                {"prepare_uses", row.kernel.prepareUses},
                {"flops", region.flops},
                {"bytes_read", region.bytesRead},
                {"bytes_written", region.bytesWritten},
                {"intensity", row.intensity()},
                {"regime", toString(row.bound.regime)},
                {"bound_us", row.bound.boundUs},
                {"advice", row.advice()}};
    std::string remark = row.kernel.kernelTemplate->remark(region, *model.target);
    kernel["remark"] = remark.empty() ? Json(nullptr) : Json(remark);
    kernel["attention"] = row.kernel.attention ? Json(*row.kernel.attention) : Json(nullptr);
    json["kernels"].push_back(std::move(kernel));
  }
  for (const passes::FusionRefusal &refusal : model.refusals)
    json["not_fused"].push_back(
        {{"producer", refusal.producer}, {"consumer", refusal.consumer}, {"reason", refusal.reason}});
  passes::FusionSavings savings = passes::fusionSavings(model.main.function);
  json["flops"] = {{"as_written", writtenFlops}, {"planned", plannedFlops(model)}};
  json["unfused"] = totalsJson(savings.unfused);
  json["fused"] = totalsJson(savings.fused);
  json["memory"] = memoryJson(model.main);
  json["prepare_memory"] = model.prepare ? memoryJson(*model.prepare) : Json(nullptr);
  return textOf(json);
}

} // namespace tuner

Result<std::string> explain(const Model &model, const std::string &target, bool simplify) {
  return withoutThrowing([&]() -> Result<std::string> {
    if (!model)
      return Error{ErrorCode::Usage, movedFrom("Model")};
    Result<const ir::Target *> found = tuner::resolveTarget(target);
    if (!found)
      return found.error();
    const Model::Impl &internals = model.internals();
    std::scoped_lock lock(internals.mutex);
    mlir::ModuleOp module = *internals.model.module;
    Result<tuner::PlannedModel> planned = tuner::planModel(module, **found, simplify);
    if (!planned)
      return planned.error();
    return tuner::toJson(*planned, internals.model.states, tuner::flopsAsWritten(module));
  });
}

} // namespace kfuse
