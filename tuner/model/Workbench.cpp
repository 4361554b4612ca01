#include "tuner/model/Workbench.h"

#include "codegen/cuda/text/DeviceLibrary.h"
#include "runtime/worker/RemoteCompiler.h"
#include "runtime/worker/RemoteDevice.h"
#include "tuner/model/Dump.h"

#include <mutex>
#include <set>
#include <span>
#include <utility>

namespace kfuse::tuner {
namespace {

/// More than any machine has cores; a hundred thousand would take the machine down.
constexpr int mostThreads = 1024;

/// The CUDA device in a worker, if it is the target's; null where it is another or there is none. NoDevice when one
/// beyond the first was asked for and is not there.
Result<std::unique_ptr<runtime::Device>> remoteIfPresent(const ir::Target &target, int ordinal,
                                                         const std::function<int()> &measureOn,
                                                         const std::stop_token &stop) {
  Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus();
  const std::size_t count = gpus ? gpus->size() : 0;
  if (ordinal > 0 && static_cast<std::size_t>(ordinal) >= count)
    return Error{ErrorCode::NoDevice, "there is no CUDA device " + std::to_string(ordinal) + ": " +
                                          std::to_string(count) + " found, counted from 0; see kfuse targets"};
  if (count == 0)
    return std::unique_ptr<runtime::Device>();
  const runtime::GpuFacts &gpu = (*gpus)[static_cast<std::size_t>(ordinal)];
  if (ir::findTarget(gpu.target) != &target)
    return std::unique_ptr<runtime::Device>();
  return runtime::makeRemoteDevice(
      gpu.device(),
      [gpus = *gpus, ordinal, measureOn] {
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
  return {ErrorCode::Usage, "unknown target '" + name + "'; known are auto, " + known};
}

} // namespace

Result<const ir::Target *> resolveTarget(const std::string &name) {
  if (name != "auto") {
    const ir::Target *target = ir::findTarget(name);
    return target ? Result<const ir::Target *>(target) : unknownTarget(name);
  }
  if (Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus(); gpus && !gpus->empty())
    if (const ir::Target *target = ir::findTarget(gpus->front().target))
      return target;
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
    Result<std::unique_ptr<runtime::Device>> device =
        remoteIfPresent(*bench.target, options.device, options.measureOn, options.stop);
    if (!device)
      return device.error();
    bench.device = std::move(*device);
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
