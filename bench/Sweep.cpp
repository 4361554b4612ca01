#include "bench/Sweep.h"

#include "bench/Bench.h"
#include "ir/dialect/Kfuse.h"
#include "ir/reference/Tensor.h"
#include "runtime/worker/RemoteCompiler.h"
#include "tools/kfuse/bench/CublasLt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <set>

namespace kfuse::bench {
namespace {

using codegen::Region;
using codegen::TileConfig;

/// Calls of a kernel on the same buffers, each of which may start before the one ahead has ended.
class ChainedCalls : public runtime::LoadedKernel {
public:
  ChainedCalls(runtime::LoadedKernel &kernel, int calls) : kernel(kernel), calls(calls) {}
  Result<void> launch(runtime::Stream stream, std::span<void *const> buffers, void *workspace) override {
    Result<void> launched = kernel.launch(stream, buffers, workspace);
    for (int i = 1; i < calls && launched; ++i)
      launched = kernel.launchProgrammatic(stream, buffers, workspace);
    return launched;
  }

private:
  runtime::LoadedKernel &kernel;
  int calls;
};

/// Indices of the `count` fastest of the first `picks`.
std::vector<std::size_t> fastestOf(const std::vector<SweptConfig> &all, std::size_t picks, std::size_t count) {
  std::vector<std::size_t> order(std::min(picks, all.size()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return all[a].us < all[b].us; });
  order.resize(std::min(count, order.size()));
  return order;
}

/// Those whose measurements are interleaved.
double bestOfFirst(const std::vector<SweptConfig> &all, std::size_t picks) {
  double us = INFINITY;
  for (std::size_t i = 0; i < std::min(picks, all.size()); ++i)
    us = all[i].isFinal ? std::min(us, all[i].us) : us;
  return us;
}

/// Those measured interleaved first.
bool isFaster(const SweptConfig &a, const SweptConfig &b) {
  return std::pair(!a.isFinal, a.us) < std::pair(!b.isFinal, b.us);
}

} // namespace

std::vector<double> mediansInterleaved(int rounds, const std::vector<std::function<double()>> &measure) {
  std::vector<std::vector<double>> us(measure.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t turn = 0; turn < measure.size(); ++turn) {
      const std::size_t which = round % 2 ? measure.size() - 1 - turn : turn;
      us[which].push_back(measure[which]());
    }
  std::vector<double> medians;
  for (std::vector<double> &samples : us)
    medians.push_back(median(std::move(samples)));
  return medians;
}

std::vector<void *> Buffers::pointers() const {
  std::vector<void *> all;
  for (const auto &tensor : tensors)
    all.push_back(tensor->data());
  return all;
}

Sweep::Sweep(SweepOptions options)
    : settings(std::move(options)), gpu(take(runtime::openCuda())),
      compiler(runtime::makeRemoteCompiler(take(runtime::makeCudaCompiler(codegen::cuda::deviceHeaders())),
                                           codegen::cuda::deviceHeaders())),
      target(*ir::findTarget(gpu->target())) {
  context.loadDialect<ir::KfuseDialect, mlir::func::FuncDialect>();
}

StartedSweep Sweep::start(const Region &region) {
  StartedSweep started;
  std::vector<codegen::KernelPlan> plans;
  for (tuner::Candidate &candidate :
       candidatesOf(region, target, compiler->version(), gpu->sku(), settings.candidates)) {
    plans.push_back(candidate.plan);
    SweptConfig &config = started.configs.emplace_back();
    config.config = std::move(candidate.config);
    config.plan = std::move(candidate.plan);
    config.modelled = candidate.estimateUs;
  }
  started.compiled =
      std::async(std::launch::async, [this, plans = std::move(plans)] { return compileAll(*compiler, plans); });
  return started;
}

Swept Sweep::finish(const Region &region, StartedSweep started) {
  Swept swept{std::move(started.configs), {}, {}};
  std::vector<SweptConfig> &all = swept.configs;
  swept.buffers = allocate(region, all);
  std::vector<Result<runtime::CompiledKernel>> compiled = started.compiled.get();
  for (std::size_t i = 0; i < all.size(); ++i) {
    what = all[i].config.str();
    runtime::CompiledKernel binary = take(std::move(compiled[i]));
    all[i].compileMs = binary.compileMs;
    all[i].loaded = take(gpu->load(all[i].plan, binary));
  }
  measureEach(all, swept.buffers);
  if (settings.chained > 0)
    for (SweptConfig &candidate : all) {
      what = candidate.config.str();
      ChainedCalls calls(*candidate.loaded, settings.chained);
      candidate.chainedUs = measure(calls, swept.buffers, 5, /*cold=*/false) / settings.chained;
    }
  measureInterleaved(all, swept.buffers);
  const double best = bestOfFirst(all, all.size());
  swept.ranking = {best / bestOfFirst(all, 1), best / bestOfFirst(all, 8), best / bestOfFirst(all, 40)};
  std::sort(all.begin(), all.end(), isFaster);
  return swept;
}

/// At the clocks of the whole series: they fall by a tenth and more while it lasts, which the first candidate, measured
/// again before and after every eight, tells.
void Sweep::measureEach(std::vector<SweptConfig> &all, const Buffers &buffers) {
  constexpr std::size_t between = 8;
  std::vector<double> levels; // Those of the first candidate.
  auto measureFirst = [&] {
    what = all.front().config.str();
    levels.push_back(measure(*all.front().loaded, buffers, 5));
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % between == 0)
      measureFirst();
    what = all[i].config.str();
    all[i].us = measure(*all[i].loaded, buffers, 5);
  }
  measureFirst();
  const double level = median(levels);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].us *= 2 * level / (levels[i / between] + levels[i / between + 1]);
}

double Sweep::measure(runtime::LoadedKernel &kernel, const Buffers &buffers, int repetitions, bool cold) {
  runtime::MeasureOptions options;
  options.cold = cold;
  options.repetitions = repetitions;
  options.maxSeconds = 0.3;
  void *workspace = buffers.workspace ? buffers.workspace->data() : nullptr;
  if (workspace) // Who ran before may have left anything where this one keeps flags.
    succeed(gpu->fill(workspace, 0, buffers.workspace->size()));
  Result<std::vector<double>> samples = gpu->measure(kernel, buffers.pointers(), workspace, options);
  if (!samples)
    std::fprintf(stderr, "%s: ", what.c_str());
  return median(take(std::move(samples)));
}

/// Uniform floats, small integers; outputs uninitialised.
Buffers Sweep::allocate(const Region &region, const std::vector<SweptConfig> &all) {
  Buffers buffers;
  std::uint64_t seed = 0;
  for (const ir::ScalarInput &input : region.graph.inputs) {
    // Random numbers for 2^24 elements, again and again: making them takes longer than measuring.
    std::int64_t elements = elementCount(input.shape);
    Shape piece{std::min<std::int64_t>(elements, 1 << 24)};
    auto tensor = isFloat(input.type) ? reference::uniform(input.type, piece, ++seed)
                                      : reference::integers(input.type, piece, ++seed, 0, 65536);
    std::size_t size = static_cast<std::size_t>(elements) * byteWidth(input.type);
    auto &buffer = buffers.tensors.emplace_back(take(gpu->allocate(size)));
    for (std::size_t at = 0; at < size; at += tensor.bytes.size())
      succeed(gpu->upload(static_cast<std::byte *>(buffer->data()) + at, tensor.bytes.data(),
                          std::min(tensor.bytes.size(), size - at)));
  }
  for (const ir::ScalarOutput &output : region.graph.outputs)
    buffers.tensors.push_back(
        take(gpu->allocate(static_cast<std::size_t>(elementCount(output.shape)) * byteWidth(output.type))));
  std::size_t workspaceBytes = tools::cublasWorkspaceBytes;
  for (const SweptConfig &candidate : all)
    workspaceBytes = std::max<std::size_t>(workspaceBytes, candidate.plan.workspaceBytes);
  buffers.workspace = take(gpu->allocate(workspaceBytes));
  succeed(gpu->fill(buffers.workspace->data(), 0, workspaceBytes));
  return buffers;
}

void Sweep::measureInterleaved(std::vector<SweptConfig> &all, const Buffers &buffers) {
  std::set<std::size_t> again{0};
  for (std::size_t picks : {std::size_t(8), std::size_t(40), all.size()})
    for (std::size_t i : fastestOf(all, picks, picks == all.size() ? settings.finalists : 2))
      again.insert(i);
  std::vector<std::function<double()>> turns;
  for (std::size_t i : again)
    turns.emplace_back([&, i] { return measure(*all[i].loaded, buffers, 3); });
  const std::vector<double> medians = mediansInterleaved(6, turns);
  for (SweptConfig &candidate : all)
    candidate.isFinal = false;
  for (auto us = medians.begin(); std::size_t i : again)
    all[i].us = *us++, all[i].isFinal = true;
}

} // namespace kfuse::bench
