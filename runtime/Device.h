// The two places kfuse runs kernels on, behind one interface: the CPU and a CUDA device.
#pragma once

#include "codegen/DeviceHeader.h"
#include "codegen/KernelPlan.h"
#include "kfuse/error.h"
#include "runtime/Replay.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::runtime {

/// What the compiler said of one kernel. Zero where it says nothing (the CPU).
struct ResourceFacts {
  int registers = 0;  ///< Per thread.
  int spillBytes = 0; ///< Stores plus loads.
  int stackBytes = 0;
  int staticSharedBytes = 0;
  friend bool operator==(const ResourceFacts &, const ResourceFacts &) = default;
};

/// Machine code of one KernelPlan: a cubin, or a relocatable object for the CPU.
struct CompiledKernel {
  std::vector<std::byte> image;
  ResourceFacts facts;
  double compileMs = 0;
  std::string log;
  std::string assembly; ///< PTX, for people; only as compiled, never stored.
  friend bool operator==(const CompiledKernel &, const CompiledKernel &) = default;
};

/// Turns a plan's source into machine code. Thread-safe; needs no device.
class KernelCompiler {
public:
  virtual ~KernelCompiler() = default;
  /// Name and version for cache keys: "nvrtc 13.0", "llvm 19.1.7".
  virtual std::string version() const = 0;
  virtual Result<CompiledKernel> compile(const codegen::KernelPlan &plan) = 0;
};

struct Program;

/// A kernel ready to run on one device. Launching is thread-safe.
class LoadedKernel {
public:
  virtual ~LoadedKernel() = default;
  /// Enqueues every launch of the plan. `buffers` holds the plan's inputs, then its outputs.
  virtual Result<void> launch(Stream stream, std::span<void *const> buffers, void *workspace) = 0;
  /// The same behind another kernel of the same run: it may start before that one ends (Launch::programmaticLaunch),
  /// since nothing that the kernel takes for fixed was written by that one.
  virtual Result<void> launchProgrammatic(Stream stream, std::span<void *const> buffers, void *workspace) {
    return launch(stream, buffers, workspace);
  }
};

/// Memory on a device; freed with its handle.
class DeviceBuffer {
public:
  virtual ~DeviceBuffer() = default;
  virtual void *data() const = 0;
  virtual std::size_t size() const = 0;
};

/// Bytes of the host on their way to the device's memory.
struct Transfer {
  void *device = nullptr;
  std::span<const std::byte> host;
};

struct MeasureOptions {
  int repetitions = 10;            ///< Timed samples.
  double warmupMs = 5;             ///< At least this long untimed before the first sample.
  double maxSeconds = 2;           ///< Stop sampling early once spent (at least one sample is taken).
  bool cold = true;                ///< No run finds its operands in the last-level cache.
  bool programmaticLaunch = false; ///< Each run starts as behind another kernel of a model's run (launchProgrammatic).
};

/// Runs of one kernel or one program on the same buffers, to be timed again and again: what that takes, copies of the
/// buffers and recordings of many runs, is made once. The device, the kernel, the buffers and the workspace must
/// outlive them.
class TimedRuns {
public:
  virtual ~TimedRuns() = default;
  /// Microseconds of each timed run.
  virtual Result<std::vector<double>> measure(const MeasureOptions &options) = 0;
};

/// What a device is known by.
struct DeviceFacts {
  std::string sku;    ///< What results are keyed by: "NVIDIA H200", or the CPU's model, features and thread count.
  std::string driver; ///< Driver version, recorded beside results; "" on the CPU.
  std::string target; ///< ir::Target name of this device: "cpu", "sm_90a".
  std::string id;     ///< What tells it from every other device of the host.
};

/// A run of elements: the squares of their differences from others, and those others' squares.
struct DifferenceSums {
  static constexpr std::size_t elements = 256; ///< In a run; the last may have fewer.
  double error = 0;
  double size = 0;
};

/// What a device was like while it measured; 0 for what it does not tell.
struct Conditions {
  double smMhz = 0;
  double memoryMhz = 0;
  double watts = 0;
  double celsius = 0;
};

/// One device. Thread-safe but for measuring, digest(), sumDifferences() and conditions(), which callers serialise.
class Device {
public:
  virtual ~Device() = default;
  // DeviceFacts of this device.
  virtual std::string sku() const = 0;
  virtual std::string driver() const = 0;
  virtual std::string target() const = 0;
  virtual std::string id() const { return target(); }

  /// At least 256-byte aligned, contents undefined; OutOfMemory names the bytes. Zero bytes are fine.
  virtual Result<std::unique_ptr<DeviceBuffer>> allocate(std::size_t bytes) = 0;
  /// upload, download and fill are complete when they return.
  virtual Result<void> upload(void *device, const void *host, std::size_t bytes) = 0;
  /// The same of many, which may lie in a mapped file: a GPU takes them faster than one by one.
  virtual Result<void> uploadAll(std::span<const Transfer> transfers);
  virtual Result<void> download(void *host, const void *device, std::size_t bytes) = 0;
  /// Fills with one byte value (0xff poisons floats with NaN).
  virtual Result<void> fill(void *device, unsigned char value, std::size_t bytes) = 0;
  /// A checksum of what lies there, to see whether it has changed: the same bytes give the same digest on
  /// this device.
  virtual Result<std::uint64_t> digest(const void *device, std::size_t bytes);
  /// Writes DifferenceSums of each run of the `count` elements at `found` and at `expected` to `sums`, all on the
  /// device; false where it does not do that for this type. Sums over what is not finite are not finite.
  virtual Result<bool> sumDifferences(DType /*type*/, const void * /*found*/, const void * /*expected*/,
                                      std::size_t /*count*/, void * /*sums*/) {
    return false;
  }
  /// Enqueues a copy from device memory to device memory; the two do not overlap.
  virtual Result<void> copy(Stream stream, void *to, const void *from, std::size_t bytes) = 0;
  /// Enqueues a write of one 32-bit word to device memory; inside a capture of the stream it is recorded with it.
  virtual Result<void> writeWord(Stream stream, void *to, std::uint32_t word);
  virtual Result<void> synchronize(Stream stream) = 0;
  virtual Result<std::unique_ptr<LoadedKernel>> load(const codegen::KernelPlan &plan, const CompiledKernel &kernel) = 0;
  /// Makes what the first measurement would wait for, whatever the kernel: touching memory of twice the last-level
  /// cache takes a CPU seconds where the cache is large. Errors show again there.
  virtual Result<void> prepareMeasuring() { return {}; }
  /// What measure() times, to be timed again and again; `options` say how the runs follow each other (cold,
  /// programmaticLaunch).
  virtual Result<std::unique_ptr<TimedRuns>> prepareRuns(LoadedKernel &kernel, std::span<void *const> buffers,
                                                         void *workspace, const MeasureOptions &options);
  /// Microseconds of each timed run of `kernel`.
  virtual Result<std::vector<double>> measure(LoadedKernel &kernel, std::span<void *const> buffers, void *workspace,
                                              const MeasureOptions &options) = 0;
  /// Runs of a whole program, in a context of their own, as measureRuns() times them. `arguments` and `results` are
  /// those of Context::run(), whose errors come with the first measurement; makeContext()'s come at once.
  virtual Result<std::unique_ptr<TimedRuns>>
  prepareProgramRuns(const Program &program, std::span<void *const> arguments, std::span<void *const> results);
  /// Microseconds of each run of what `run` enqueues on the stream it is given, as a caller sees them: from events (the
  /// CPU: a clock) right before and after it, launch and all. Cold: the last-level cache is flushed before each.
  virtual Result<std::vector<double>> measureRuns(const Enqueue & /*run*/, const MeasureOptions & /*options*/) {
    return Error{ErrorCode::Usage, "runs are timed by the device of the process that enqueues them"};
  }
  /// A Replay where recording pays; null where launches are cheap (the CPU).
  virtual Result<std::unique_ptr<Replay>> makeReplay() { return std::unique_ptr<Replay>(); }

  /// Clocks, power and temperature at this moment; nothing where they cannot be had.
  virtual std::optional<Conditions> conditions() { return std::nullopt; }

  /// From now on a run that takes longer ends with Timeout where it can be ended: in a worker process.
  virtual void limitRuns(double /*seconds*/) {}
  /// Begins anew after a kernel took the device down: what was allocated and loaded is gone, its handles may
  /// only be freed. NoDevice where that is not possible, as in this process.
  virtual Result<void> restart() {
    return Error{ErrorCode::NoDevice, "a device of this process cannot be opened again"};
  }
};

/// The CPU with `threads` workers (0: all cores).
std::unique_ptr<Device> openCpu(int threads = 0);
/// The facts of openCpu(threads), without its threads.
DeviceFacts cpuFacts(int threads = 0);
std::unique_ptr<KernelCompiler> makeCpuCompiler();

/// CUDA device `ordinal` in its primary context; NoDevice with the reason when there is none.
Result<std::unique_ptr<Device>> openCuda(int ordinal = 0);

/// One CUDA device as found on this machine.
struct GpuFacts {
  int ordinal = 0;
  std::string name;   ///< Device::sku().
  std::string target; ///< Device::target().
  std::string driver; ///< Device::driver().
  std::string id;     ///< Device::id(): where it sits on the PCI bus.
  int capability = 0; ///< Times ten: 90.
  int multiprocessors = 0;
  std::size_t memoryBytes = 0;
  std::size_t l2Bytes = 0;
  std::size_t sharedBytesPerBlock = 0; ///< Opt-in maximum.
  int clockKhz = 0;                    ///< Boost clock of the SMs.

  DeviceFacts device() const { return {name, driver, target, id}; }
};
/// Whether an NVIDIA driver is installed. Does not start it, which takes 0.15 to 0.4 s.
bool hasCudaDriver();
/// Every CUDA device, without making a context; NoDevice with the reason when there is none.
Result<std::vector<GpuFacts>> listGpus();

/// NVRTC, opened with dlopen on first use; NoDevice with what to install when it is missing. Kernels
/// may include `headers` (which are copied) and the CUDA headers beside NVRTC.
Result<std::unique_ptr<KernelCompiler>> makeCudaCompiler(std::span<const codegen::DeviceHeader> headers = {});

} // namespace kfuse::runtime
