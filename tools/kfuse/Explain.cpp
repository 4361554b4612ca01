#include "ir/Printable.h"
#include "ir/dialect/Kfuse.h"
#include "tools/kfuse/Commands.h"
#include "tools/kfuse/console/Json.h"
#include "tools/kfuse/console/Table.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/ModelOptions.h"
#include "tuner/api/Explanation.h"
#include "tuner/api/Handles.h"
#include "tuner/api/Lengths.h"
#include "tuner/model/Workbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

namespace kfuse::tools {
namespace {

using tuner::ExplainedKernel;

void printKernels(const std::vector<ExplainedKernel> &rows, const ir::Target &target) {
  std::map<std::string, int> remarks;
  Table table({">runs", ">FLOPs", ">bytes", ">FLOP/B", "regime", ">bound", "template", "fused ops"});
  double total = 0;
  for (const ExplainedKernel &row : rows) {
    const tuner::PlannedKernel &kernel = row.kernel;
    std::string note = kernel.attention ? fmt::format(" [attention {}]", *kernel.attention) : "";
    note += kernel.uses == 0 ? " [prepare]" : "";
    table.add({std::to_string(kernel.uses), formatFlops(kernel.region.flops), formatBytes(row.bytes()),
               fmt::format("{:.1f}", row.intensity()), std::string(tuner::toString(row.bound.regime)),
               formatTime(row.bound.boundUs), std::string(kernel.kernelTemplate->name()), kernel.region.ops + note});
    total += row.bound.boundUs * kernel.uses;
    ++remarks[fmt::format("bound by {}: {} would help", tuner::toString(row.bound.regime), row.advice())];
    if (std::string remark = kernel.kernelTemplate->remark(kernel.region, target); !remark.empty())
      ++remarks[remark];
  }
  fmt::print("{}sum of bounds: {}\n", table.str(), formatTime(total));
  Table notes({">kernels", "remark"});
  for (const auto &[remark, count] : remarks)
    notes.add({std::to_string(count), remark});
  fmt::print("\n{}", notes.str());
}

/// "rms_norm 'node_mul_2'" -> "rms_norm".
std::string opOf(const std::string &op) { return op.substr(0, op.find(' ')); }

/// Alike refusals of many layers on one line; --json lists every one with its nodes.
void printRefusals(const std::vector<passes::FusionRefusal> &refusals) {
  std::map<std::tuple<std::string, std::string, std::string>, int> counts;
  for (const passes::FusionRefusal &refusal : refusals)
    ++counts[{opOf(refusal.producer), opOf(refusal.consumer), refusal.reason}];
  if (counts.empty())
    return;
  Table table({">times", "producer", "consumer", "not fused because"});
  for (const auto &[refusal, count] : counts)
    table.add({std::to_string(count), std::get<0>(refusal), std::get<1>(refusal), std::get<2>(refusal)});
  fmt::print("\n{}", table.str());
}

/// What simplification and fusion save, beside the graph as it is written and each op by itself.
void printSavings(const tuner::PlannedModel &model, double writtenFlops) {
  double flops = tuner::plannedFlops(model);
  if (flops > 0 && writtenFlops > 1.01 * flops)
    fmt::print("simplified: {} as written, {} planned (1/{:.1f})\n", formatFlops(writtenFlops), formatFlops(flops),
               writtenFlops / flops);
  auto [unfused, fused] = passes::fusionSavings(model.main.function);
  fmt::print("fused: {} launches and {} become {} and {}; estimated {} becomes {}\n", unfused.launches,
             formatBytes(unfused.bytes), fused.launches, formatBytes(fused.bytes), formatTime(unfused.us),
             formatTime(fused.us));
}

/// Alike caches of many layers on one line; --json lists every one.
void printStates(const std::vector<ir::StateNote> &states) {
  struct Alike {
    const ir::StateNote *first = nullptr;
    int count = 0;
  };
  std::map<std::pair<bool, std::string>, Alike> alike;
  for (const ir::StateNote &state : states) {
    // What names itself differs from layer to layer.
    std::string how = state.how;
    for (const std::string &name : {state.input, state.output})
      for (std::size_t at = how.find(name); at != std::string::npos; at = how.find(name))
        how.replace(at, name.size(), "");
    Alike &same = alike[{state.isInPlace, how}];
    same.first = same.first ? same.first : &state;
    ++same.count;
  }
  if (alike.empty())
    return;
  fmt::print("\n");
  for (const auto &[key, same] : alike)
    fmt::print("{}: {} -> {}{}: {}\n", key.first ? "in place" : "not in place", ir::printable(same.first->input),
               ir::printable(same.first->output),
               same.count > 1 ? fmt::format(" and {} more", same.count - 1) : std::string(),
               ir::printable(same.first->how));
}

void printMemory(const tuner::PlannedModel &model) {
  auto line = [](std::string_view name, const passes::MemoryPlan &plan) {
    double bound = static_cast<double>(plan.lowerBoundBytes), arena = static_cast<double>(plan.arenaBytes);
    fmt::print("{}: arena {}, lower bound {} ({:.1f} % over)\n", name, formatBytes(arena), formatBytes(bound),
               bound > 0 ? 100 * (arena / bound - 1) : 0.0);
  };
  fmt::print("\n");
  line("memory", model.main.memory);
  if (model.prepare)
    line("memory of the preparation", model.prepare->memory);
}

int explainOne(const ModelOptions &options, const ir::Target *target, const Model &model);

/// The buckets, and the program of the largest.
int explainBuckets(const ModelOptions &options, const ir::Target *target, const Model &model) {
  Result<std::vector<LengthCount>> histogram = options.lengthCounts(model);
  if (!histogram)
    return fail(histogram.error());
  Result<tuner::LengthBuckets> made = tuner::bucketsOf(model, *target, !options.noSimplify, *histogram);
  if (!made)
    return fail(made.error());
  Json json{{"target", target->name}, {"buckets", Json::array()}};
  Table table({"lengths", ">launches", ">estimate", ">arena"});
  std::vector<mlir::ModuleOp> modules;
  for (std::size_t i : made->order)
    modules.push_back(*made->buckets[i].model.internals().model.module);
  Result<std::vector<tuner::PlannedModel>> programs = tuner::planModels(modules, *target, !options.noSimplify);
  if (!programs)
    return fail(programs.error());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto place = std::ranges::find(made->order, i) - made->order.begin();
    const tuner::PlannedModel &planned = (*programs)[static_cast<std::size_t>(place)];
    const passes::FusionTotals fused = passes::fusionSavings(mlir::func::FuncOp(planned.main.function)).fused;
    const std::string lengths = runtime::rangesOf(made->buckets[i].lengths);
    table.add({lengths, std::to_string(fused.launches), formatTime(fused.us),
               formatBytes(static_cast<double>(planned.main.memory.arenaBytes))});
    json["buckets"].push_back({{"lengths", lengths},
                               {"launches", fused.launches},
                               {"estimate_us", fused.us},
                               {"arena_bytes", planned.main.memory.arenaBytes}});
  }
  if (options.json) {
    fmt::print("{}", textOf(json));
    return 0;
  }
  fmt::print("{} programs on {}, each for lengths up to its largest:\n{}\nthe largest of them:\n", made->buckets.size(),
             target->title(), table.str());
  return explainOne(options, target, made->buckets.back().model);
}

int explain(const ModelOptions &options) {
  Result<const ir::Target *> target = tuner::resolveTarget(options.target);
  if (!target)
    return fail(target.error());
  Result<Model> model = options.load();
  if (!model)
    return fail(model.error());
  return model->dims().empty() ? explainOne(options, *target, *model) : explainBuckets(options, *target, *model);
}

int explainOne(const ModelOptions &options, const ir::Target *target, const Model &model) {
  mlir::ModuleOp module = *model.internals().model.module;
  double writtenFlops = tuner::flopsAsWritten(module);
  Result<tuner::PlannedModel> planned = tuner::planModel(module, *target, !options.noSimplify);
  if (!planned)
    return fail(planned.error());
  if (options.json) {
    fmt::print("{}", tuner::toJson(*planned, model.internals().model.states, writtenFlops));
    return 0;
  }
  std::size_t launches = 0;
  for (const tuner::PlannedKernel &kernel : planned->kernels)
    launches += static_cast<std::size_t>(kernel.uses);
  fmt::print("{} on {}:\n{} launches of {} distinct kernels; bounds from datasheet rates\n\n",
             ir::printable(options.model.substr(options.model.rfind('/') + 1)), target->title(), launches,
             planned->kernels.size());
  printKernels(tuner::explainedKernels(*planned), *planned->target);
  printSavings(*planned, writtenFlops);
  printRefusals(planned->refusals);
  printStates(model.internals().model.states);
  printMemory(*planned);
  return 0;
}

} // namespace

void addExplain(CLI::App &app, int &status) {
  CLI::App *command =
      app.add_subcommand("explain", "What fuses, what it saves, why not more; bounds and memory; no device");
  auto options = std::make_shared<ModelOptions>();
  options->addTo(*command);
  command->footer(
      "Examples:\n  kfuse explain block.onnx --target sm_90a\n  kfuse explain block.onnx --json | jq '.kernels[].ops'");
  command->callback([options, &status] { status = explain(*options); });
}

} // namespace kfuse::tools
