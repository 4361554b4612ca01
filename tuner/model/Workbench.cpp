#include "tuner/model/Workbench.h"

#include "codegen/cuda/text/DeviceLibrary.h"
#include "runtime/worker/RemoteCompiler.h"
#include "runtime/worker/RemoteDevice.h"
#include "tuner/model/Dump.h"

#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace kfuse::tuner {
namespace {

/// More than any machine has cores; a hundred thousand would take the machine down.
constexpr int mostThreads = 1024;

/// The CUDA device of that number; none where there is no GPU. NoDevice when one beyond the first was asked for and is
/// not there.
Result<std::optional<runtime::GpuFacts>> findGpu(int ordinal) {
  Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus();
  const std::size_t count = gpus ? gpus->size() : 0;
  if (ordinal > 0 && static_cast<std::size_t>(ordinal) >= count)
    return Error{ErrorCode::NoDevice, "there is no CUDA device " + std::to_string(ordinal) + ": " +
                                          std::to_string(count) + " found, counted from 0; see kfuse targets"};
  if (count == 0)
    return std::optional<runtime::GpuFacts>();
  return std::optional((*gpus)[static_cast<std::size_t>(ordinal)]);
}

/// The facts of the GPU, where it is what `asked` names: a device of that architecture, or that very card. As many
/// multiprocessors as it has, so that no grid or bound is sized from another card's.
std::optional<ir::Target> targetOfGpu(const ir::Target &asked, const runtime::GpuFacts &gpu) {
  const ir::Target *architecture = ir::findTarget(gpu.target);
  if (!architecture || architecture->name != asked.name)
    return std::nullopt;
  const ir::Target &card = ir::targetOfDevice(*architecture, gpu.name);
  if (!asked.card.empty() && asked.card != card.card)
    return std::nullopt;
  return gpu.multiprocessors > 0 && gpu.multiprocessors != card.multiprocessors
             ? ir::withMultiprocessors(card, gpu.multiprocessors)
             : card;
}

/// The device in a worker. `measureOn` may choose another GPU than the first one.
std::unique_ptr<runtime::Device> remoteGpu(const runtime::GpuFacts &gpu, const std::function<int()> &measureOn,
                                           const std::stop_token &stop) {
  const Result<std::vector<runtime::GpuFacts>> all = runtime::listGpus();
  return runtime::makeRemoteDevice(
      gpu.device(),
      [gpus = all ? *all : std::vector{gpu}, ordinal = gpu.ordinal, measureOn] {
        const int chosen = measureOn ? measureOn() : ordinal;
        return runtime::WorkerPlace{gpus.at(static_cast<std::size_t>(chosen)).id, {"cuda", std::to_string(chosen)}};
      },
      stop);
}

/// Lets each line pass once: what is said of a context is said of each.
Store::Warn once(Store::Warn warn) {
  if (!warn)
    return warn;
  struct Said {
    std::mutex mutex;
    std::set<std::string> lines;
  };
  return [warn = std::move(warn), said = std::make_shared<Said>()](const std::string &line) {
    std::scoped_lock lock(said->mutex);
    if (said->lines.insert(line).second)
      warn(line);
  };
}

Error unknownTarget(const std::string &name) {
  std::string known;
  for (const ir::Target &target : ir::knownTargets())
    known += (known.empty() ? "" : ", ") + target.name;
  for (const ir::Target &card : ir::knownCards())
    known += ", '" + card.card + "'";
  return {ErrorCode::Usage, "unknown target '" + name + "'; known are auto, " + known};
}

} // namespace

Result<const ir::Target *> resolveTarget(const std::string &name) {
  if (name != "auto") {
    const ir::Target *target = ir::findTarget(name);
    return target ? Result<const ir::Target *>(target) : unknownTarget(name);
  }
  if (Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus(); gpus && !gpus->empty())
    if (const ir::Target *architecture = ir::findTarget(gpus->front().target))
      return &ir::targetOfDevice(*architecture, gpus->front().name);
  return ir::findTarget("cpu");
}

Result<std::unique_ptr<runtime::Device>> Workbench::openHere() const {
  if (!device)
    return Error{ErrorCode::NoDevice,
                 "no " + target->name + " device is here to run on; choose another target, or tune offline"};
  return target->isCpu() ? runtime::openCpu(threads) : runtime::openCuda(ordinal);
}

TuningContext Workbench::context(TuneOptions options) {
  patience->limit(options.seconds);
  if (!peaks.measured && options.effort != Effort::None && !options.requireTuned)
    peaks = findPeaks(*store, *target, device.get(), *compiler, threads, warn, *patience);
  options.warn = warn;
  options.stop = stop;
  if (!target->isCpu())
    options.compileThreads = static_cast<unsigned>(threads);
  return {*target, *compiler, device.get(), *store, peaks, std::move(options), patience};
}

Result<Workbench> openWorkbench(const WorkbenchOptions &options) {
  if (options.threads < 0 || options.threads > mostThreads)
    return Error{ErrorCode::Usage, "threads are 0 (all cores) to " + std::to_string(mostThreads) + ", not " +
                                       std::to_string(options.threads)};
  if (options.device < 0)
    return Error{ErrorCode::Usage,
                 "CUDA devices are counted from 0, there is no device " + std::to_string(options.device)};
  Workbench bench;
  bench.warn = once(options.warn);
  bench.threads = options.threads;
  bench.ordinal = options.device;
  bench.stop = options.stop;
  bench.patience = std::make_shared<LockPatience>(bench.warn, options.stop);
  Result<const ir::Target *> target = resolveTarget(options.target);
  if (!target)
    return target.error();
  bench.target = *target;
  if (bench.target->isCpu()) {
    bench.device = runtime::makeRemoteDevice(runtime::cpuFacts(options.threads),
                                             {"cpu", std::to_string(options.threads)}, options.stop);
    bench.compiler = runtime::makeCpuCompiler();
  } else {
    Result<std::optional<runtime::GpuFacts>> gpu = findGpu(options.device);
    if (!gpu)
      return gpu.error();
    if (std::optional<ir::Target> own = *gpu ? targetOfGpu(*bench.target, **gpu) : std::nullopt) {
      bench.ownTarget = std::make_shared<const ir::Target>(std::move(*own));
      bench.target = bench.ownTarget.get();
      bench.device = remoteGpu(**gpu, options.measureOn, options.stop);
    }
    Result<std::unique_ptr<runtime::KernelCompiler>> compiler =
        runtime::makeCudaCompiler(codegen::cuda::deviceHeaders());
    if (!compiler)
      return compiler.error();
    bench.compiler = runtime::makeRemoteCompiler(std::move(*compiler), codegen::cuda::deviceHeaders(),
                                                 std::chrono::seconds(60), options.stop);
  }
  bench.compiler = dumping(std::move(bench.compiler));
  Result<std::unique_ptr<Store>> store = options.requireTuned
                                             ? Store::openToRead(options.store, bench.warn, options.trust)
                                             : Store::open(options.store, bench.warn, options.trust);
  if (!store)
    return store.error();
  bench.store = std::move(*store);
  bench.peaks = knownPeaks(*bench.store, *bench.target, bench.device.get());
  return bench;
}

} // namespace kfuse::tuner
