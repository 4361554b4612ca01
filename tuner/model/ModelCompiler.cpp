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

namespace kfuse::tuner {
namespace {

TuningTask makeTask(const PlannedKernel &kernel, const ir::Target &target) {
  const codegen::Region &region = kernel.region;
  TuningTask task;
  task.name = region.name;
  task.ops = region.ops;
  task.templateName = kernel.kernelTemplate->name();
  task.signature = region.text + (region.programmaticLaunch ? "\nbehind another kernel" : "");
  task.uses = kernel.uses;
  task.work = workOf(region);
  task.space = std::make_shared<RegionConfigs>(region, *kernel.kernelTemplate, target);
  task.oracle = std::make_shared<RegionOracle>(*kernel.body);
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

/// For as long as the effort, or what is left of the time that was given, allows. What keeps whole runs from being
/// timed is no reason to go without the kernels that there are.
Result<std::optional<EndToEndReport>> chooseInTime(const TuningContext &context, std::span<const TuningTask> tasks,
                                                   std::vector<TunedKernel> &kernels, const WholeRun &run,
                                                   double secondsSpent) {
  double seconds = context.measures() ? budgetOf(context).endToEndSeconds : 0;
  if (context.options.seconds > 0)
    seconds = std::min(seconds, context.options.seconds - secondsSpent);
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

Result<CompiledModel> compileModel(const PlannedModel &model, const TuningContext &context) {
  const auto start = std::chrono::steady_clock::now();
  auto secondsSpent = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<TuningTask> tasks;
  for (const PlannedKernel &kernel : model.kernels)
    tasks.push_back(makeTask(kernel, context.target));
  Result<std::vector<TunedKernel>> tuned = tune(context, tasks);
  if (!tuned)
    return tuned.error();
  auto build = [&](const PlannedFunction &planned, std::span<const TunedKernel> tunedKernels) {
    std::vector<runtime::ProgramKernel> kernels;
    for (const TunedKernel &kernel : tunedKernels)
      kernels.push_back({kernel.plan, kernel.binary});
    return buildProgram(planned.function, planned.memory, model.kernelOf, kernels, context.target.name);
  };
  const WholeRun run{[&](std::span<const TunedKernel> kernels) { return build(model.main, kernels); },
                     [&](std::size_t argument) { return makeArgument(model.main.function, argument); }};
  Result<std::optional<EndToEndReport>> endToEnd = chooseInTime(context, tasks, *tuned, run, secondsSpent());
  if (!endToEnd)
    return endToEnd.error();

  CompiledModel compiled;
  compiled.report = makeReport(model, context, *tuned);
  compiled.report.endToEnd = *endToEnd;
  Result<runtime::Program> main = build(model.main, *tuned);
  if (!main)
    return main.error();
  compiled.main = std::move(*main);
  if (model.prepare) {
    Result<runtime::Program> prepare = build(*model.prepare, *tuned);
    if (!prepare)
      return prepare.error();
    compiled.prepare = std::move(*prepare);
    compiled.preparedKeys = preparedKeys(model.prepare->function);
  }
  compiled.compiler = context.compiler.version();
  compiled.multiprocessors = context.target.multiprocessors;
  compiled.report.seconds = secondsSpent();
  return compiled;
}

} // namespace kfuse::tuner
