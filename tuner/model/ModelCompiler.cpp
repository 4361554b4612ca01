#include "tuner/model/ModelCompiler.h"

#include "ir/reference/Tensor.h"
#include "tuner/model/Noise.h"
#include "tuner/model/PreparedKeys.h"
#include "tuner/model/ProgramBuilder.h"
#include "tuner/model/RegionConfigs.h"
#include "tuner/model/RegionOracle.h"
#include "tuner/search/EndToEnd.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace kfuse::tuner {
namespace {

TuningTask makeTask(const PlannedKernel &kernel, const ir::Target &target, std::size_t program,
                    const std::shared_ptr<LargeNoise> &noise) {
  const codegen::Region &region = kernel.region;
  TuningTask task;
  task.name = region.name;
  task.ops = region.ops;
  task.templateName = kernel.kernelTemplate->name();
  task.signature = region.text + (region.programmaticLaunch ? "\nbehind another kernel" : "");
  task.uses = kernel.uses;
  task.program = program;
  task.work = workOf(region);
  task.space = std::make_shared<RegionConfigs>(region, *kernel.kernelTemplate, target);
  task.oracle = std::make_shared<RegionOracle>(*kernel.body, noise);
  for (const ir::ScalarOutput &output : region.graph.outputs)
    task.stateOf.push_back(output.inPlace);
  return task;
}

/// Contents of one of @main's arguments.
std::vector<std::byte> makeArgument(mlir::func::FuncOp main, unsigned index) {
  const TensorDesc argument = describeArgument(main, index);
  const double deviation = roleOf(main, index) == Role::Parameter ? reference::weightDeviation(argument.shape) : 1;
  return argumentNoise(main.getArgument(index), indexRange(main.getBody().front()), index + 1, deviation);
}

/// Names a target whose device is not here: "sm_90a (not present)", "H20 (sm_90a, not present)".
std::string absent(const ir::Target &target) {
  return target.card.empty() ? target.name + " (not present)" : target.card + " (" + target.name + ", not present)";
}

TuneReport makeReport(const PlannedModel &model, const TuningContext &context, std::span<const TunedKernel> kernels) {
  TuneReport report;
  report.device = context.device ? context.device->sku() : absent(context.target);
  report.isDeviceHere = context.device != nullptr;
  report.arenaBytes = model.main.memory.arenaBytes;
  report.arenaLowerBoundBytes = model.main.memory.lowerBoundBytes;
  for (const TunedKernel &kernel : kernels)
    report.kernels.push_back(kernel.report);
  report.peaks = context.peaks;
  mlir::func::FuncOp main = model.main.function;
  main.walk([&](mlir::Operation *op) {
    if (auto kernel = model.kernelOf.find(op); kernel != model.kernelOf.end())
      report.launches.push_back(kernel->second);
  });
  return report;
}

/// How long a program's whole runs may be timed: as the effort allows, or its part of what is left of the time that was
/// given.
double secondsForRuns(const TuningContext &context, double secondsSpent, std::size_t programsLeft) {
  const double seconds = context.measures() ? budgetOf(context).endToEndSeconds : 0;
  const double left = (context.options.seconds - secondsSpent) / static_cast<double>(programsLeft);
  return context.options.seconds > 0 ? std::min(seconds, left) : seconds;
}

/// What keeps whole runs from being timed is no reason to go without the kernels that there are.
Result<std::optional<EndToEndReport>> chooseInTime(const TuningContext &context, std::span<const TuningTask> tasks,
                                                   std::vector<TunedKernel> &kernels, const WholeRun &run,
                                                   double seconds) {
  if (seconds <= 0 || std::ranges::none_of(kernels, &TunedKernel::isNew))
    return std::optional<EndToEndReport>();
  Result<std::optional<EndToEndReport>> report = chooseEndToEnd(context, tasks, kernels, run, seconds);
  if (report || report.error().code == ErrorCode::Cancelled)
    return report;
  context.warn("each kernel is chosen by its own time alone, as no whole run could be timed: " +
               report.error().message);
  return std::optional<EndToEndReport>();
}

} // namespace

Work workOf(const codegen::Region &region) {
  return {.flops = region.flops,
          .bytesRead = region.bytesRead,
          .bytesWritten = region.bytesWritten,
          .mathType = region.mathType,
          .tf32 = region.tf32,
          .isProduct =
              std::any_of(region.graph.nodes.begin(), region.graph.nodes.end(),
                          [](const ir::ScalarNode &node) { return node.kind == ir::ScalarNode::Kind::Contract; })};
}

namespace {

/// Builds a program of kernels that are tuned; `seconds` are for choosing by whole runs.
Result<CompiledModel> buildModel(const PlannedModel &model, const TuningContext &context,
                                 std::span<const TuningTask> tasks, std::vector<TunedKernel> tuned, double seconds) {
  auto build = [&](const PlannedFunction &planned, std::span<const TunedKernel> tunedKernels) {
    std::vector<runtime::ProgramKernel> kernels;
    for (const TunedKernel &kernel : tunedKernels)
      kernels.push_back({kernel.plan, kernel.binary});
    return buildProgram(planned.function, planned.memory, model.kernelOf, kernels, context.target.name);
  };
  const WholeRun run{[&](std::span<const TunedKernel> kernels) { return build(model.main, kernels); },
                     [&](std::size_t argument) { return makeArgument(model.main.function, argument); }};
  Result<std::optional<EndToEndReport>> endToEnd = chooseInTime(context, tasks, tuned, run, seconds);
  if (!endToEnd)
    return endToEnd.error();

  CompiledModel compiled;
  compiled.report = makeReport(model, context, tuned);
  compiled.report.endToEnd = *endToEnd;
  Result<runtime::Program> main = build(model.main, tuned);
  if (!main)
    return main.error();
  compiled.main = std::move(*main);
  if (model.prepare) {
    Result<runtime::Program> prepare = build(*model.prepare, tuned);
    if (!prepare)
      return prepare.error();
    compiled.prepare = std::move(*prepare);
    compiled.preparedKeys = preparedKeys(model.prepare->function);
  }
  compiled.compiler = context.compiler.version();
  return compiled;
}

} // namespace

Result<std::vector<CompiledModel>> compileModels(std::span<const PlannedModel> models, const TuningContext &context) {
  const auto start = std::chrono::steady_clock::now();
  auto secondsSpent = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const auto noise = std::make_shared<LargeNoise>();
  std::vector<TuningTask> distinct;
  std::map<std::string, std::size_t> known;        // By what tells kernels apart.
  std::vector<std::vector<std::size_t>> kernelsOf; // Each program's, among the distinct ones.
  for (const PlannedModel &model : models) {
    std::vector<std::size_t> &own = kernelsOf.emplace_back();
    for (const PlannedKernel &kernel : model.kernels) {
      TuningTask task = makeTask(kernel, context.target, kernelsOf.size() - 1, noise);
      const auto [found, isNew] = known.try_emplace(task.templateName + "\n" + task.signature, distinct.size());
      if (isNew)
        distinct.push_back(std::move(task));
      own.push_back(found->second);
    }
  }
  Result<std::vector<TunedKernel>> tuned = tune(context, distinct);
  if (!tuned)
    return tuned.error();
  std::vector<CompiledModel> compiled;
  for (std::size_t program = 0; program < models.size(); ++program) {
    std::vector<TuningTask> tasks;
    std::vector<TunedKernel> kernels;
    for (std::size_t i = 0; i < kernelsOf[program].size(); ++i) {
      tasks.push_back(distinct[kernelsOf[program][i]]);
      kernels.push_back((*tuned)[kernelsOf[program][i]]);
      tasks.back().uses = kernels.back().report.uses = models[program].kernels[i].uses;
    }
    Result<CompiledModel> built = buildModel(models[program], context, tasks, std::move(kernels),
                                             secondsForRuns(context, secondsSpent(), models.size() - program));
    if (!built)
      return built.error();
    compiled.push_back(std::move(*built));
  }
  for (CompiledModel &model : compiled)
    model.report.seconds = secondsSpent();
  return compiled;
}

Result<CompiledModel> compileModel(const PlannedModel &model, const TuningContext &context) {
  Result<std::vector<CompiledModel>> compiled = compileModels(std::span(&model, 1), context);
  if (!compiled)
    return compiled.error();
  return std::move(compiled->front());
}

} // namespace kfuse::tuner
