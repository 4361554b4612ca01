// kfuse bench timeline: when the blocks of each launch of a run start, may go on, multiply and end, by marks that they
// write themselves (codegen/cuda/device/base/marks.cuh).
#include "codegen/cuda/text/DeviceLibrary.h"
#include "tools/kfuse/bench/Bench.h"
#include "tools/kfuse/bench/BlockTimes.h"
#include "tools/kfuse/console/Interruption.h"
#include "tools/kfuse/console/Table.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/Execution.h"
#include "tuner/api/Handles.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>

namespace kfuse::tools {
namespace {

constexpr std::size_t mostSlots = 256;          // Slots of 2 us: kernels that a run launches often.
constexpr std::size_t mostBytes = 32 << 20;     // A kernel's marks take no more.
constexpr std::size_t flushedBytes = 256 << 20; // Several times the L2 of any GPU of today.
constexpr int warmUps = 200, runs = 9;

/// Where the blocks of one kernel write; no memory for one that does not mark.
struct KernelMarks {
  std::size_t blocks = 0, slots = 0;
  std::unique_ptr<runtime::DeviceBuffer> memory;
};

/// A program whose kernels mark what they do.
class MarkedProgram {
public:
  static Result<MarkedProgram> of(const Executable &program);
  const Executable &executable() const { return *marked; }
  Result<void> clear();
  /// What all blocks have marked since.
  Result<std::vector<BlockTimes>> read() const;

private:
  const runtime::Program &program() const { return marked->internals().compiled().main; }
  runtime::Device &device() const { return *marked->internals().device; }
  Result<void> readKernel(std::size_t kernel, std::vector<BlockTimes> &all) const;

  std::optional<Executable> marked;
  std::vector<KernelMarks> marks; ///< One for each kernel.
};

Result<MarkedProgram> MarkedProgram::of(const Executable &program) {
  Result<std::unique_ptr<runtime::KernelCompiler>> compiler = runtime::makeCudaCompiler(codegen::cuda::deviceHeaders());
  if (!compiler)
    return compiler.error();
  auto impl = std::make_shared<Executable::Impl>(program.internals());
  MarkedProgram made;
  for (runtime::ProgramKernel &kernel : impl->programs.front().compiled.main.kernels) {
    KernelMarks &marks = made.marks.emplace_back();
    if (kernel.plan.launches.size() != 1) { // Marks of a second launch would lie among those of the first.
      warn(
          fmt::format("{} is not in the time line: it has {} launches", kernel.plan.name, kernel.plan.launches.size()));
      continue;
    }
    const codegen::Launch &launch = kernel.plan.launches.front();
    marks.blocks = std::size_t(launch.grid[0]) * launch.grid[1] * launch.grid[2];
    const std::size_t bytesOfSlot = marks.blocks * momentRoom * sizeof(Mark);
    marks.slots = std::clamp<std::size_t>(std::bit_floor(mostBytes / bytesOfSlot), 1, mostSlots);
    Result<std::unique_ptr<runtime::DeviceBuffer>> memory = impl->device->allocate(marks.slots * bytesOfSlot);
    if (!memory)
      return memory.error();
    marks.memory = std::move(*memory);
    const auto address = reinterpret_cast<std::uintptr_t>(marks.memory->data());
    kernel.plan.options.push_back(fmt::format("--define-macro=KFUSE_MARKS={}ull", address));
    kernel.plan.options.push_back(fmt::format("--define-macro=KFUSE_MARK_SLOTS={}u", marks.slots));
    Result<runtime::CompiledKernel> compiled = (*compiler)->compile(kernel.plan);
    if (!compiled)
      return compiled.error();
    kernel.binary = std::move(*compiled);
  }
  made.marked = Executable(std::move(impl));
  return made;
}

Result<void> MarkedProgram::clear() {
  Result<void> zeroed;
  for (KernelMarks &kernel : marks)
    if (kernel.memory && zeroed)
      zeroed = device().fill(kernel.memory->data(), 0, kernel.memory->size());
  return zeroed;
}

Result<std::vector<BlockTimes>> MarkedProgram::read() const {
  std::vector<BlockTimes> all;
  for (std::size_t kernel = 0; kernel < marks.size(); ++kernel)
    if (Result<void> done = readKernel(kernel, all); !done)
      return done.error();
  return all;
}

Result<void> MarkedProgram::readKernel(std::size_t kernel, std::vector<BlockTimes> &all) const {
  const KernelMarks &from = marks[kernel];
  if (!from.memory)
    return {};
  std::vector<Mark> raw(from.blocks * momentRoom * from.slots);
  if (Result<void> read = device().download(raw.data(), from.memory->data(), from.memory->size()); !read)
    return read;
  std::vector<std::size_t> steps;
  for (std::size_t step = 0; step < program().steps.size(); ++step)
    if (program().steps[step].kernel == kernel)
      steps.push_back(step);
  const std::size_t ofBlock = momentRoom * from.slots;
  for (std::size_t block = 0; block < from.blocks; ++block) {
    std::vector<BlockTimes> times = timesOfLaunches(std::span(raw).subspan(block * ofBlock, ofBlock), block, steps);
    all.insert(all.end(), times.begin(), times.end());
  }
  return {};
}

/// One run and its first and last mark, which are the same where there is none.
struct Timeline {
  std::vector<BlockTimes> blocks;
  std::uint64_t begin = UINT64_MAX, end = 0;

  explicit Timeline(std::vector<BlockTimes> all) : blocks(std::move(all)) {
    for (const BlockTimes &block : blocks)
      for (std::uint64_t at : block.at)
        if (at != 0)
          begin = std::min(begin, at), end = std::max(end, at);
    begin = std::min(begin, end);
  }
  double us() const { return usOf(end); }
  double usOf(std::uint64_t at) const { return static_cast<double>(at - begin) / 1000; }
};

/// The run of median length, each behind a flush of the last-level cache.
Result<Timeline> medianRun(MarkedProgram &program, Execution &execution) {
  runtime::Device &device = *program.executable().internals().device;
  Result<std::unique_ptr<runtime::DeviceBuffer>> large = device.allocate(flushedBytes);
  if (!large)
    return large.error();
  auto run = [&](int times) -> Result<void> {
    Result<void> done;
    for (int i = 0; i < times && done; ++i)
      done = execution.enqueue(nullptr);
    return done ? device.synchronize(nullptr) : done;
  };
  std::vector<Timeline> all;
  while (all.size() < runs) {
    for (const std::function<Result<void>()> &step : {std::function<Result<void>()>([&] { return run(warmUps); }),
                                                      {[&] { return program.clear(); }},
                                                      {[&] { return device.fill((*large)->data(), 0, flushedBytes); }},
                                                      {[&] { return run(1); }}})
      if (Result<void> done = step(); !done)
        return done.error();
    Result<std::vector<BlockTimes>> blocks = program.read();
    if (!blocks)
      return blocks.error();
    all.emplace_back(std::move(*blocks));
  }
  std::nth_element(all.begin(), all.begin() + runs / 2, all.end(),
                   [](const Timeline &a, const Timeline &b) { return a.us() < b.us(); });
  return all[runs / 2];
}

void printJson(const Timeline &timeline) {
  nlohmann::ordered_json json{{"us", timeline.us()}, {"blocks", nlohmann::ordered_json::array()}};
  for (const BlockTimes &block : timeline.blocks) {
    nlohmann::ordered_json row{{"launch", block.step}, {"block", block.block}, {"sm", block.multiprocessor}};
    for (std::size_t moment = 0; moment < momentNames.size(); ++moment)
      if (block.at[moment] != 0)
        row[momentNames[moment]] = timeline.usOf(block.at[moment]);
    json["blocks"].push_back(std::move(row));
  }
  fmt::print("{}\n", json.dump());
}

void printTable(const Timeline &timeline, const runtime::Program &program) {
  std::map<std::size_t, std::array<std::vector<double>, momentNames.size()>> launches;
  for (const BlockTimes &block : timeline.blocks)
    for (std::size_t moment = 0; moment < momentNames.size(); ++moment)
      if (block.at[moment] != 0)
        launches[block.step][moment].push_back(timeline.usOf(block.at[moment]));
  Table table(
      {">launch", ">starts", ">waits", ">goes on", ">has tile", ">has accumulators", ">ends", ">last ends", "kernel"});
  for (auto &[step, times] : launches) {
    std::vector<std::string> row{std::to_string(step)};
    for (std::vector<double> &of : times) {
      std::sort(of.begin(), of.end());
      row.push_back(of.empty() ? "" : fmt::format("{:.2f}", of[of.size() / 2]));
    }
    row.push_back(times.back().empty() ? "" : fmt::format("{:.2f}", times.back().back()));
    row.push_back(program.kernels[program.steps[step].kernel].plan.name);
    table.add(std::move(row));
  }
  fmt::print("{}", table.str());
}

int benchTimeline(const ExecutionOptions &options) {
  if (!options.dims.empty())
    return fail({ErrorCode::Usage, "--dims is for programs of any length; give the sizes to time with --shape"});
  Result<OpenedModel> opened = openModel(options);
  if (!opened)
    return fail(opened.error());
  const Executable &program = opened->program;
  if (program.internals().compiled().main.target == "cpu")
    return fail({ErrorCode::Usage, "time lines are of kernels on a GPU, this program is for the cpu; give --target"});
  Result<MarkedProgram> marked = MarkedProgram::of(program);
  if (!marked)
    return fail(marked.error());
  Result<Execution> execution = Execution::make({opened->model, {}, opened->arguments, marked->executable(), 0});
  if (!execution)
    return fail(execution.error());
  Result<Timeline> timeline = medianRun(*marked, *execution);
  if (!timeline)
    return fail(timeline.error());
  if (options.json)
    printJson(*timeline);
  else
    printTable(*timeline, program.internals().compiled().main);
  return 0;
}

} // namespace

void addBenchTimeline(CLI::App &bench, int &status) {
  CLI::App *timeline =
      bench.add_subcommand("timeline", "When blocks of a model's kernels start, go on, multiply and end, on a GPU");
  auto options = std::make_shared<ExecutionOptions>();
  options->addTo(*timeline);
  timeline->footer("Microseconds since a run's first block started, medians of each launch's blocks, and when the\n"
                   "last one ended, in the run of median length of nine, each behind a flush of the last-level\n"
                   "cache. Blocks write these times themselves: kernels of thousands of short blocks take up to a\n"
                   "tenth longer for it. --json: every block.\n"
                   "Examples:\n  kfuse bench timeline block.onnx --params '*weight*'\n"
                   "  kfuse bench timeline decode.mlir --input position=4095 --json");
  timeline->callback([options, &status] {
    status = interruptible([&](const std::stop_token &stop) {
      options->stop = stop;
      return benchTimeline(*options);
    });
  });
}

} // namespace kfuse::tools
