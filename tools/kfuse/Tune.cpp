#include "Commands.h"
#include "ModelOptions.h"
#include "Terminal.h"
#include "tuner/api/Handles.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

namespace kfuse::tools {
namespace {

/// Whether the next run will find every kernel in the store. If not, a warning has said why.
bool isKept(const tuner::Store &store, const tuner::TuneReport &report) {
  return !store.problem() || std::all_of(report.kernels.begin(), report.kernels.end(),
                                         [](const tuner::KernelReport &kernel) { return kernel.fromCache; });
}

int tune(const ModelOptions &options) {
  auto start = std::chrono::steady_clock::now();
  Result<Model> model = options.load();
  if (!model)
    return fail(model.error());
  Result<tuner::Workbench> bench = tuner::openWorkbench(options.workbench());
  if (!bench)
    return fail(bench.error());
  Result<tuner::PlannedModel> planned = tuner::planModel(*model->internals().model.module, *bench->target);
  if (!planned)
    return fail(planned.error());
  Result<tuner::CompiledModel> compiled = tuner::compileModel(*planned, bench->workshop(options.tuning()));
  if (!compiled)
    return fail(compiled.error());
  tuner::TuneReport &report = compiled->report;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}", options.json ? tuner::toJson(report) + "\n" : tuner::toTable(report, wantsColour()));
  return isKept(*bench->store, report) ? 0 : static_cast<int>(ErrorCode::Io);
}

} // namespace

void addTune(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand("tune", "Choose the best kernels for a model and store them");
  auto options = std::make_shared<ModelOptions>();
  options->addTo(*command);
  options->addTuningTo(*command);
  command->footer("Examples:\n  kfuse tune block.onnx --params '*weight*' --effort full\n"
                  "  kfuse tune block.onnx --shape ids=1x128 --target cpu --json");
  command->callback([options, &status] { status = tune(*options); });
}

} // namespace kfuse::tools
