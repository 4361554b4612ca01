// kfuse bench lengths: one program of any length, run at some of them, beside a program for each of these alone.
#include "tools/kfuse/bench/Bench.h"
#include "tools/kfuse/console/Interruption.h"
#include "tools/kfuse/console/Json.h"
#include "tools/kfuse/console/Table.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/Execution.h"
#include "tuner/api/Handles.h"
#include "tuner/record/Measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

namespace kfuse::tools {
namespace {

using Lengths = std::vector<std::int64_t>;

struct LengthsOptions : ExecutionOptions {
  std::vector<std::string> at; ///< "333", or "8,333" where there are two dims.
  bool alone = false;          ///< Time a program for each of them, too.
};

/// Times of one run of some lengths, and of a program for them alone; 0 where that is not asked for.
struct LengthTimes {
  std::string lengths;
  double us = 0, aloneUs = 0;
  double ratio() const { return us / aloneUs; }
};

Result<Lengths> parseLengths(const std::string &text, const std::vector<Dim> &dims) {
  Lengths lengths;
  for (std::size_t begin = 0; begin <= text.size(); begin = std::min(text.find(',', begin), text.size()) + 1) {
    const std::string number = text.substr(begin, text.find(',', begin) - begin);
    char *end = nullptr;
    lengths.push_back(std::strtoll(number.c_str(), &end, 10));
    if (number.empty() || *end != '\0')
      return Error{ErrorCode::Usage, "--at " + text + " is not of the form 333, or 8,333 for two dims"};
  }
  if (Result<void> inside = runtime::checkLengths(dims, lengths); !inside)
    return inside.error();
  return lengths;
}

/// Median microseconds of a run of these lengths, the last-level cache flushed before each.
Result<double> coldUs(const Executable &program, Execution &execution, const Lengths &lengths) {
  runtime::MeasureOptions options;
  options.repetitions = 1000;
  options.warmupMs = 15;
  options.maxSeconds = 0.06;
  options.cold = true;
  Result<std::vector<double>> samples = program.internals().device->measureRuns(
      [&](Stream stream) { return execution.enqueue(stream, lengths); }, options);
  if (!samples)
    return samples.error();
  return tuner::summarise(std::move(*samples)).medianUs;
}

/// Times it again, interleaved with a program that is compiled for these lengths alone: a card's clock follows what it
/// has just done, by a tenth where kernels are bound by power.
Result<void> timeBeside(const LengthsOptions &options, const Executable &program, Execution &execution,
                        const Lengths &lengths, LengthTimes &times) {
  constexpr int turns = 3;
  ExecutionOptions fixed = options;
  fixed.dims.clear();
  for (std::size_t i = 0; i < lengths.size(); ++i)
    fixed.dims.push_back(fmt::format("{}={}..{}", program.dims()[i].name, lengths[i], lengths[i]));
  Result<OpenedModel> opened = openModel(fixed);
  if (!opened)
    return opened.error();
  Result<Execution> alone = Execution::make(*opened);
  if (!alone)
    return alone.error();
  std::vector<double> us, aloneUs;
  for (int turn = 0; turn < turns; ++turn) {
    Result<double> one = coldUs(opened->program, *alone, lengths);
    if (!one)
      return one.error();
    aloneUs.push_back(*one);
    one = coldUs(program, execution, lengths);
    if (!one)
      return one.error();
    us.push_back(*one);
  }
  times.us = tuner::summarise(std::move(us)).medianUs;
  times.aloneUs = tuner::summarise(std::move(aloneUs)).medianUs;
  return {};
}

/// Each takes seconds to tune: after an error or an interruption `times` are those of the lengths before.
Result<void> timeAlone(const LengthsOptions &options, const Executable &program, Execution &execution,
                       const std::vector<Lengths> &all, std::vector<LengthTimes> &times) {
  for (std::size_t i = 0; options.alone && i < all.size(); ++i)
    if (Result<void> timed = timeBeside(options, program, execution, all[i], times[i]); !timed) {
      times.resize(i);
      return timed;
    }
  return {};
}

/// Median microseconds that the caller's thread takes to enqueue a run of other lengths than the one before, the device
/// being idle.
Result<double> hostUsOfChange(const Executable &program, Execution &execution, const std::vector<Lengths> &all) {
  constexpr std::size_t rounds = 21;
  std::vector<double> us;
  for (std::size_t i = 0; i < rounds * all.size(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (Result<void> ran = execution.enqueue(nullptr, all[i % all.size()]); !ran)
      return ran.error();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (Result<void> ended = program.synchronize(); !ended)
      return ended.error();
    if (i >= all.size()) // Each program's first run captures it.
      us.push_back(took.count());
  }
  return tuner::summarise(std::move(us)).medianUs;
}

void print(const LengthsOptions &options, const Executable &program, double compileSeconds, double hostUs,
           const std::vector<LengthTimes> &times) {
  const std::size_t programs = program.internals().programs.size();
  if (options.json) {
    auto json = nlohmann::json::array();
    for (const LengthTimes &one : times)
      json.push_back({{"lengths", one.lengths}, {"cold_us", one.us}, {"alone_us", one.aloneUs}});
    fmt::print("{}", textOf({{"device", program.internals().device->sku()},
                             {"programs", programs},
                             {"compile_s", compileSeconds},
                             {"host_us", hostUs},
                             {"lengths", json}}));
    return;
  }
  Table table({"lengths", ">cold", ">alone", ">ratio"});
  for (const LengthTimes &one : times)
    table.add({one.lengths, formatTime(one.us), options.alone ? formatTime(one.aloneUs) : "-",
               options.alone ? fmt::format("{:.3f}", one.ratio()) : "-"});
  fmt::print("{}{} programs, {:.1f} s; the host enqueues another length in {}\n", table.str(), programs, compileSeconds,
             formatTime(hostUs));
  if (!options.alone || times.empty())
    return;
  double sum = 0, worst = 0;
  for (const LengthTimes &one : times)
    sum += one.ratio(), worst = std::max(worst, one.ratio());
  fmt::print("of a program for each length alone: mean {:.3f}, worst {:.3f}\n", sum / static_cast<double>(times.size()),
             worst);
}

Result<void> benchLengths(const LengthsOptions &options) {
  Result<OpenedModel> opened = openModel(options);
  if (!opened)
    return opened.error();
  const Executable &program = opened->program;
  if (program.dims().empty())
    return Error{ErrorCode::Usage, "the model has no dims; give their ranges with --dims tokens=1..8192"};
  std::vector<Lengths> all;
  for (const std::string &text : options.at) {
    Result<Lengths> lengths = parseLengths(text, program.dims());
    if (!lengths)
      return lengths.error();
    all.push_back(std::move(*lengths));
  }
  Result<Execution> execution = Execution::make(*opened);
  if (!execution)
    return execution.error();
  std::vector<LengthTimes> times;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Result<double> us = coldUs(program, *execution, all[i]);
    if (!us)
      return us.error();
    times.push_back({options.at[i], *us});
  }
  Result<double> hostUs = hostUsOfChange(program, *execution, all);
  if (!hostUs)
    return hostUs.error();
  Result<void> done = timeAlone(options, program, *execution, all, times);
  print(options, program, opened->compileSeconds, *hostUs, times);
  return done;
}

} // namespace

void addBenchLengths(CLI::App &bench, int &status) {
  CLI::App *command = bench.add_subcommand("lengths", "One program at some of its lengths");
  auto options = std::make_shared<LengthsOptions>();
  options->addTo(*command);
  command->add_option("--at", options->at, "Lengths to run: 7 33 100, or of two dims 1,7 8,333")->required();
  command->add_flag("--alone", options->alone, "Beside a program for each of these lengths alone, tuned as this one");
  command->footer("Medians of 60 ms of runs behind a flush of the last-level cache; with --alone, interleaved.\n"
                  "Example:\n  kfuse bench lengths block.onnx --dims tokens=1..8192 --at 7 333 2050 --alone");
  command->callback([options, &status] {
    status = interruptible([&](const std::stop_token &stop) {
      options->stop = stop;
      Result<void> done = benchLengths(*options);
      return done ? 0 : fail(done.error());
    });
  });
}

} // namespace kfuse::tools
