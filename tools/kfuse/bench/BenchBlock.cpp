// kfuse bench block: a whole model, from events before and after each run, weights cold and warm.
#include "tools/kfuse/bench/Bench.h"
#include "tools/kfuse/console/Interruption.h"
#include "tools/kfuse/console/Json.h"
#include "tools/kfuse/console/Table.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/Execution.h"
#include "tuner/api/Handles.h"
#include "tuner/record/Measurement.h"
#include "tuner/report/Report.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <span>

namespace kfuse::tools {
namespace {

struct BlockTimes {
  tuner::Timing cold, warm; ///< The last-level cache flushed before each run; another run before it.
  /// The caller's thread takes this to enqueue a run: into the same outputs each time, and into two sets of them in
  /// turn. 0 on the CPU, where that thread computes.
  double hostUs = 0, hostInTurnUs = 0;
};

/// Median microseconds that the caller's thread spends in a run into each of `outputs` in turn, the device being idle.
Result<double> hostUsOf(const Executable &program, Execution &execution, std::span<const DeviceTensors> outputs) {
  constexpr std::size_t runs = 101, warmUp = 10;
  std::vector<double> us;
  for (std::size_t i = 0; i < warmUp + runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (Result<void> ran = execution.enqueue(nullptr, outputs[i % outputs.size()]); !ran)
      return ran.error();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (Result<void> ended = program.synchronize(); !ended)
      return ended.error();
    if (i >= warmUp)
      us.push_back(took.count());
  }
  return tuner::summarise(std::move(us)).medianUs;
}

Result<void> measureHost(const Executable &program, Execution &execution, BlockTimes &times) {
  std::vector<DeviceTensors> outputs;
  for (auto [sets, us] : {std::pair(1, &times.hostUs), {2, &times.hostInTurnUs}}) {
    while (outputs.size() < static_cast<std::size_t>(sets)) {
      Result<DeviceTensors> made = execution.makeOutputs();
      if (!made)
        return made.error();
      outputs.push_back(std::move(*made));
    }
    Result<double> median = hostUsOf(program, execution, outputs);
    if (!median)
      return median.error();
    *us = *median;
  }
  return {};
}

Result<BlockTimes> measure(const Executable &program, Execution &execution) {
  const bool isCpu = program.internals().compiled().main.target == "cpu";
  BlockTimes times;
  for (auto [isCold, timing] : {std::pair(true, &times.cold), {false, &times.warm}}) {
    runtime::MeasureOptions options;
    // On a GPU as triton's do_bench(warmup=30, rep=120), with which the peers are timed: for so long, however short the
    // run, because a card at its power limit changes its clocks meanwhile.
    options.repetitions = isCpu ? 100 : 1000;
    options.warmupMs = 30;
    options.maxSeconds = isCpu ? 5 : 0.12;
    options.cold = isCold;
    Result<std::vector<double>> samples =
        program.internals().device->measureRuns([&](Stream stream) { return execution.enqueue(stream); }, options);
    if (!samples)
      return samples.error();
    *timing = tuner::summarise(std::move(*samples));
  }
  if (Result<void> measured = isCpu ? Result<void>() : measureHost(program, execution, times); !measured)
    return measured.error();
  return times;
}

std::size_t bytesOf(const std::vector<TensorDesc> &descs) {
  std::size_t bytes = 0;
  for (const TensorDesc &desc : descs)
    bytes += desc.bytes();
  return bytes;
}

/// The least time of the whole: the FLOPs of its kernels at the device's rate, or every argument and result moved once.
/// 0 for a program from a pack, which says nothing of its kernels' work.
double floorUs(const Executable &program) {
  const tuner::TuneReport &report = program.internals().compiled().report;
  if (report.kernels.empty())
    return 0;
  tuner::Work work;
  work.launches = 1;
  work.bytesRead =
      static_cast<double>(bytesOf(program.inputs()) + bytesOf(program.parameters()) + bytesOf(program.states()));
  for (std::size_t i = 0; i < program.outputs().size(); ++i)
    if (program.updatedStates()[i] < 0)
      work.bytesWritten += static_cast<double>(program.outputs()[i].bytes());
  double mostFlops = 0;
  for (const tuner::KernelReport &kernel : report.kernels) {
    const double flops = kernel.work.flops * kernel.uses;
    work.flops += flops;
    if (flops > mostFlops) {
      mostFlops = flops;
      work.mathType = kernel.work.mathType;
      work.tf32 = kernel.work.tf32;
    }
  }
  return tuner::roofline(work, report.peaks).boundUs;
}

std::string hostText(double us) { return us == 0 ? "-" : formatTime(us); }

int benchBlock(const ExecutionOptions &options) {
  if (!options.dims.empty())
    return fail({ErrorCode::Usage, "kfuse bench lengths times programs of --dims; this one takes sizes, with --shape"});
  Result<OpenedModel> opened = openModel(options);
  if (!opened)
    return fail(opened.error());
  const Executable &program = opened->program;
  Result<Execution> execution = Execution::make(*opened);
  if (!execution)
    return fail(execution.error());
  Result<BlockTimes> times = measure(program, *execution);
  if (!times)
    return fail(times.error());

  const std::string name = std::filesystem::path(options.model).stem().string();
  const std::size_t launches = program.internals().compiled().main.steps.size();
  const double floor = floorUs(program);
  if (options.json) {
    nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
    for (const tuner::KernelReport &kernel : program.internals().compiled().report.kernels)
      kernels.push_back({{"name", kernel.name}, {"config", kernel.config}, {"uses", kernel.uses}});
    fmt::print("{}", textOf({{"block", name},
                             {"device", program.internals().device->sku()},
                             {"driver", program.internals().device->driver()},
                             {"launches", launches},
                             {"cold_us", times->cold.medianUs},
                             {"cold_spread", times->cold.spread},
                             {"warm_us", times->warm.medianUs},
                             {"warm_spread", times->warm.spread},
                             {"floor_us", floor},
                             {"host_us", times->hostUs},
                             {"host_in_turn_us", times->hostInTurnUs},
                             {"compile_s", opened->compileSeconds},
                             {"kernels", std::move(kernels)}}));
    return 0;
  }
  Table table(
      {"block", ">launches", ">cold", ">spread", ">warm", ">spread", ">floor", ">of cold", ">host", ">2 outputs"});
  table.add({name, std::to_string(launches), formatTime(times->cold.medianUs),
             fmt::format("{:.1f} %", 100 * times->cold.spread), formatTime(times->warm.medianUs),
             fmt::format("{:.1f} %", 100 * times->warm.spread), formatTime(floor),
             fmt::format("{:.0f} %", 100 * floor / times->cold.medianUs), hostText(times->hostUs),
             hostText(times->hostInTurnUs)});
  fmt::print("{}", table.str());
  return 0;
}

} // namespace

void addBenchBlock(CLI::App &bench, int &status) {
  CLI::App *block = bench.add_subcommand("block", "A whole model, its weights cold and warm");
  auto options = std::make_shared<ExecutionOptions>();
  options->addTo(*block);
  block->footer("Medians of 120 ms of runs (CPU: of 100), from events right before and after each; cold: behind a\n"
                "flush of the last-level cache, warm: behind another run. Floor: the model's FLOPs, or all its\n"
                "arguments and results moved once. Host: what enqueuing a run takes, and what it takes with two sets\n"
                "of outputs in turn.\n"
                "Examples:\n  kfuse bench block block.onnx --params '*weight*'\n"
                "  kfuse bench block decode.mlir --input position=4095 --json");
  block->callback([options, &status] {
    status = interruptible([&](const std::stop_token &stop) {
      options->stop = stop;
      return benchBlock(*options);
    });
  });
}

} // namespace kfuse::tools
