#include "ir/reference/Evaluator.h"
#include "ir/reference/Policy.h"
#include "tools/kfuse/Commands.h"
#include "tools/kfuse/console/Interruption.h"
#include "tools/kfuse/console/Json.h"
#include "tools/kfuse/console/Table.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/Execution.h"
#include "tools/kfuse/model/Npy.h"
#include "tools/kfuse/model/OutputNames.h"
#include "tuner/api/Handles.h"
#include "tuner/model/ProgramBuilder.h"
#include "tuner/record/Measurement.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>

namespace kfuse::tools {
namespace {

using reference::HostTensor;

struct RunOptions : ExecutionOptions {
  std::string output;
  bool check = false;
  int iterations = 1;
};

struct RunResult {
  std::vector<HostTensor> outputs;
  tuner::Timing timing; ///< The runs after the first.
};

/// Results are those of the first run, for later ones update states again.
Result<RunResult> execute(const OpenedModel &opened, const RunOptions &options) {
  Result<Execution> execution = Execution::make(opened);
  if (!execution)
    return execution.error();
  RunResult result;
  std::vector<double> times;
  for (int i = 0; i < options.iterations; ++i) {
    if (options.stop.stop_requested())
      return Error{ErrorCode::Cancelled, "cancelled between two runs"};
    auto start = std::chrono::steady_clock::now();
    if (Result<void> ran = execution->enqueue(nullptr); !ran)
      return ran.error();
    if (Result<void> done = opened.program.synchronize(); !done)
      return done.error();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    if (i > 0)
      continue;
    Result<std::vector<HostTensor>> outputs = execution->download();
    if (!outputs)
      return outputs.error();
    result.outputs = std::move(*outputs);
  }
  if (times.size() > 1)
    times.erase(times.begin());
  result.timing = tuner::summarise(std::move(times));
  return result;
}

/// The reference evaluator on the graph as written, and the numerics policy's verdict on every output.
Result<std::vector<reference::Verdict>> checkOutputs(const Model &model, const Arguments &arguments,
                                                     const std::vector<HostTensor> &outputs) {
  mlir::ModuleOp module = *model.internals().model.module;
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<HostTensor> ordered;
  ordered.reserve(main.getNumArguments());
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    ordered.push_back(arguments[tuner::describeArgument(main, i).name]);
  return reference::checkOutputs(main.getBody().front(), ordered, outputs);
}

Result<void> writeOutputs(const std::string &folder, const std::vector<std::string> &names,
                          const std::vector<HostTensor> &outputs) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Error{ErrorCode::Io, "cannot make the folder " + folder + ": " + error.message()};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::filesystem::path path = std::filesystem::path(folder) / names[i];
    if (Result<void> written = tools::writeNpy(path, {outputs[i].type, outputs[i].shape, outputs[i].bytes}); !written)
      return written;
  }
  return {};
}

int report(const RunOptions &options, const Model &model, const RunResult &result,
           const std::vector<std::string> &files, const std::vector<reference::Verdict> &verdicts) {
  Json json{{"time_us", result.timing.medianUs}, {"iterations", options.iterations}, {"outputs", Json::array()}};
  Table table({"output", "type", "shape", ">error", ">allowed", "verdict"});
  bool allRight = true;
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    const TensorDesc &desc = model.outputs()[i];
    Json row{{"name", desc.name}, {"type", toString(desc.type)}, {"shape", desc.shape}};
    if (!options.output.empty())
      row["file"] = files[i];
    std::vector<std::string> cells{desc.name,    std::string(toString(desc.type)), toString(desc.shape), "-", "-",
                                   "not checked"};
    if (!verdicts.empty()) {
      const reference::Verdict &verdict = verdicts[i];
      allRight &= verdict.right;
      row["error"] = verdict.error;
      row["limit"] = verdict.limit;
      row["right"] = verdict.right;
      cells = {desc.name,
               cells[1],
               cells[2],
               fmt::format("{:.2e}", verdict.error),
               fmt::format("{:.2e}", verdict.limit),
               verdict.right ? "right" : verdict.message};
    }
    json["outputs"].push_back(std::move(row));
    table.add(std::move(cells));
  }
  if (options.json)
    fmt::print("{}", textOf(json));
  else
    fmt::print("{}{} a run (median of {}, host clock)\n", table.str(), formatTime(result.timing.medianUs),
               result.timing.samples);
  return allRight ? 0
                  : fail({ErrorCode::WrongResult,
                          "outputs differ from the reference evaluator's beyond the numerics policy"});
}

int run(const RunOptions &options) {
  if (options.check && options.isPack())
    return fail({ErrorCode::Usage, "--check compares with the model's graph, which is not in a pack; run the model"});
  Result<OpenedModel> opened = openModel(options);
  if (!opened)
    return fail(opened.error());
  Result<RunResult> result = execute(*opened, options);
  if (!result)
    return fail(result.error());
  const std::vector<std::string> files = outputFileNames(opened->model.outputs());
  if (!options.output.empty())
    if (Result<void> written = writeOutputs(options.output, files, result->outputs); !written)
      return fail(written.error());
  std::vector<reference::Verdict> verdicts;
  if (options.check) {
    Result<std::vector<reference::Verdict>> checked = checkOutputs(opened->model, opened->arguments, result->outputs);
    if (!checked)
      return fail(checked.error());
    verdicts = std::move(*checked);
  }
  return report(options, opened->model, *result, files, verdicts);
}

} // namespace

void addRun(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand("run", "Run a model, with kernels from the store or tuned now");
  auto options = std::make_shared<RunOptions>();
  options->addTo(*command);
  command->add_option("--output", options->output, "Folder for NAME.npy of each output, / as _");
  command->add_flag("--check", options->check, "Compare with the reference evaluator; exit status 5 when wrong");
  command->add_option("--iterations", options->iterations, "Runs; the first is not timed")
      ->check(CLI::Range(1, 1000000000))
      ->capture_default_str();
  command->footer("Examples:\n  kfuse run block.onnx --check\n  kfuse run block.onnx --input x=x.npy --output out "
                  "--iterations 100");
  command->callback([options, &status] {
    status = interruptible([&](const std::stop_token &stop) {
      options->stop = stop;
      return run(*options);
    });
  });
}

} // namespace kfuse::tools
