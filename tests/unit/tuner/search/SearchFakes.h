// A compiler and a device that play back how each candidate is to behave, for tests of the tuner.
#pragma once

#include "TaskFunctions.h"

#include "runtime/Device.h"
#include "tuner/search/Tuner.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>

namespace kfuse::tuner::test {

enum class Fault {
  None,
  CompileError,
  LoadError,
  LaunchError,
  DeviceLost,
  AllWrong,
  OneWrong, ///< A single element, which the sampling oracle overlooks.
  Unwritten,
  Overrun,
  ReferenceWrite, ///< Into the last copy that was made on the device.
  SemaphoresLeftSet
};

/// What candidate `id` does.
struct Behaviour {
  double us = 10;
  Fault fault = Fault::None;
  int registers = 32;
  int spillBytes = 0;
  double runSeconds = 0; ///< Really slept at each run and sample.
};
using Script = std::map<int, Behaviour>;

constexpr std::size_t elements = 4096;

/// The source is "id=N ...".
inline Behaviour behaviourOf(const Script &script, const codegen::KernelPlan &plan) {
  return script.at(std::stoi(plan.source.substr(3)));
}

class FakeCompiler : public runtime::KernelCompiler {
public:
  explicit FakeCompiler(const Script &script) : script(script) {}
  std::string version() const override { return "fake 1"; }
  Result<runtime::CompiledKernel> compile(const codegen::KernelPlan &plan) override {
    if (beforeCompile)
      beforeCompile(std::stoi(plan.source.substr(3)));
    ++compiled;
    Behaviour behaviour = behaviourOf(script, plan);
    if (behaviour.fault == Fault::CompileError)
      return Error{ErrorCode::Compile, "line 1: no"};
    runtime::CompiledKernel kernel;
    kernel.image.assign(reinterpret_cast<const std::byte *>(plan.source.data()),
                        reinterpret_cast<const std::byte *>(plan.source.data()) + plan.source.size());
    kernel.facts.registers = behaviour.registers;
    kernel.facts.spillBytes = behaviour.spillBytes;
    return kernel;
  }

  const Script &script;
  std::function<void(int id)> beforeCompile;
  std::atomic<int> compiled = 0;
};

/// Each output is 2 x, or the last of them whatever else the behaviour asks for.
class FakeKernel : public runtime::LoadedKernel {
public:
  FakeKernel(Behaviour behaviour, double slowness, bool hasWorkspace, bool &isLost, std::vector<double> &launched,
             void *const &lastCopy)
      : behaviour(behaviour), slowness(slowness), hasWorkspace(hasWorkspace), isLost(isLost), launched(launched),
        lastCopy(lastCopy) {}

  Result<void> launch(runtime::Stream, std::span<void *const> buffers, void *workspace) override {
    launched.push_back(behaviour.us);
    std::this_thread::sleep_for(std::chrono::duration<double>(behaviour.runSeconds));
    isLost = isLost || behaviour.fault == Fault::DeviceLost;
    if (behaviour.fault == Fault::LaunchError || isLost)
      return Error{ErrorCode::NoDevice, "illegal address"};
    const auto *x = static_cast<const float *>(buffers[0]);
    for (std::size_t other = 1; other + 1 < buffers.size(); ++other)
      for (std::size_t i = 0; i < elements; ++i)
        static_cast<float *>(buffers[other])[i] = 2 * x[i];
    auto *y = static_cast<float *>(buffers.back());
    if (behaviour.fault == Fault::ReferenceWrite)
      *static_cast<float *>(lastCopy) = 0;
    std::size_t end = behaviour.fault == Fault::Overrun     ? elements + 1
                      : behaviour.fault == Fault::Unwritten ? elements - 1
                                                            : elements;
    for (std::size_t i = 0; i < end; ++i)
      y[i] = (behaviour.fault == Fault::AllWrong ? 3 : 2) * x[i % elements];
    if (behaviour.fault == Fault::OneWrong)
      y[777] *= 1.01F;
    if (hasWorkspace && behaviour.fault == Fault::SemaphoresLeftSet)
      static_cast<unsigned char *>(workspace)[3] = 1;
    return {};
  }

  Behaviour behaviour;
  double slowness;
  bool hasWorkspace;
  bool &isLost;
  std::vector<double> &launched;
  void *const &lastCopy;
};

struct HostBuffer : runtime::DeviceBuffer {
  explicit HostBuffer(std::size_t bytes) : bytes(bytes) {}
  void *data() const override { return const_cast<std::byte *>(bytes.data()); }
  std::size_t size() const override { return bytes.size(); }
  std::vector<std::byte> bytes;
};

/// Takes of a device's room.
struct DeviceShare : HostBuffer {
  DeviceShare(std::size_t bytes, std::size_t &roomBytes) : HostBuffer(bytes), roomBytes(roomBytes) {
    roomBytes -= bytes;
  }
  ~DeviceShare() override { roomBytes += bytes.size(); }
  std::size_t &roomBytes;
};

class FakeDevice : public runtime::Device {
public:
  explicit FakeDevice(const Script &script) : script(script) {}
  std::string sku() const override { return "Fake GPU"; }
  std::string driver() const override { return driverVersion; }
  std::string target() const override { return "sm_80"; }

  Result<std::unique_ptr<runtime::DeviceBuffer>> allocate(std::size_t bytes) override {
    if (bytes > roomBytes)
      return Error{ErrorCode::OutOfMemory, "no room for " + std::to_string(bytes) + " bytes"};
    return std::unique_ptr<runtime::DeviceBuffer>(std::make_unique<DeviceShare>(bytes, roomBytes));
  }
  Result<void> upload(void *device, const void *host, std::size_t bytes) override {
    return copied(device, host, bytes);
  }
  Result<void> download(void *host, const void *device, std::size_t bytes) override {
    mostDownloaded = std::max(mostDownloaded, bytes);
    return copied(host, device, bytes);
  }
  Result<void> fill(void *device, unsigned char value, std::size_t bytes) override {
    std::memset(device, value, bytes);
    return {};
  }
  Result<std::uint64_t> digest(const void *device, std::size_t bytes) override {
    if (isLost)
      return Error{ErrorCode::NoDevice, "context is destroyed"};
    return std::hash<std::string_view>()({static_cast<const char *>(device), bytes});
  }
  Result<bool> sumDifferences(DType, const void *found, const void *expected, std::size_t count, void *sums) override {
    if (!sumsDifferences)
      return false;
    const auto *a = static_cast<const float *>(found), *b = static_cast<const float *>(expected);
    auto *runs = static_cast<runtime::DifferenceSums *>(sums);
    for (std::size_t i = 0; i < count; ++i) {
      runtime::DifferenceSums &run = runs[i / runtime::DifferenceSums::elements];
      run = i % runtime::DifferenceSums::elements == 0 ? runtime::DifferenceSums{} : run;
      run.error += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
      run.size += double(b[i]) * b[i];
    }
    return true;
  }
  Result<void> copy(runtime::Stream, void *to, const void *from, std::size_t bytes) override {
    lastCopy = to;
    return copied(to, from, bytes);
  }
  Result<void> synchronize(runtime::Stream) override { return {}; }
  Result<std::unique_ptr<runtime::LoadedKernel>> load(const codegen::KernelPlan &plan,
                                                      const runtime::CompiledKernel &) override {
    Behaviour behaviour = behaviourOf(script, plan);
    if (behaviour.fault == Fault::LoadError)
      return Error{ErrorCode::NoDevice, "invalid image"};
    const double slowness = slownessOfLoad ? slownessOfLoad(loads) : 1;
    ++loads;
    return std::unique_ptr<runtime::LoadedKernel>(
        std::make_unique<FakeKernel>(behaviour, slowness, plan.workspaceBytes > 0, isLost, launched, lastCopy));
  }
  Result<void> prepareMeasuring() override {
    ++prepared;
    std::this_thread::sleep_for(std::chrono::duration<double>(prepareSeconds));
    return {};
  }
  Result<void> restart() override {
    if (!canRestart)
      return Device::restart();
    isLost = false;
    return {};
  }
  Result<std::vector<double>> measure(runtime::LoadedKernel &kernel, std::span<void *const>, void *,
                                      const runtime::MeasureOptions &options) override {
    const double slowness =
        (slownessOfVisit ? slownessOfVisit(measured) : 1) * static_cast<FakeKernel &>(kernel).slowness;
    const bool fails = failsAtVisit && failsAtVisit(measured);
    ++measured;
    Behaviour behaviour = static_cast<FakeKernel &>(kernel).behaviour;
    order.push_back(behaviour.us);
    asked.push_back(options);
    if (fails)
      return Error{ErrorCode::NoDevice, "illegal address"};
    std::this_thread::sleep_for(std::chrono::duration<double>(behaviour.runSeconds));
    return std::vector<double>(static_cast<std::size_t>(options.repetitions), slowness * behaviour.us);
  }

  const Script &script;
  std::string driverVersion = "1.0";
  std::atomic<int> measured = 0;
  std::atomic<int> prepared = 0; ///< Times that prepareMeasuring() was called.
  double prepareSeconds = 0;     ///< So long it sleeps each time.
  bool isLost = false;
  bool canRestart = false;
  bool sumsDifferences = true;
  std::size_t roomBytes = std::size_t{1} << 30;     ///< That is left.
  void *lastCopy = nullptr;                         ///< Where it went.
  std::size_t mostDownloaded = 0;                   ///< Bytes at once.
  std::vector<double> order;                        ///< Microseconds of each kernel measured.
  std::vector<double> launched;                     ///< The same of each run that is not timed: of a check.
  std::vector<runtime::MeasureOptions> asked;       ///< For each of these.
  std::function<double(int visit)> slownessOfVisit; ///< As clocks rise and fall; visits count from 0.
  std::function<bool(int visit)> failsAtVisit;
  int loads = 0;
  std::function<double(int load)> slownessOfLoad; ///< As its code lies elsewhere; loads count from 0.

private:
  Result<void> copied(void *to, const void *from, std::size_t bytes) {
    if (isLost)
      return Error{ErrorCode::NoDevice, "context is destroyed"};
    std::memcpy(to, from, bytes);
    return {};
  }
};

/// A task whose candidates are the script's, ranked by id. The oracle looks at the first element.
inline TuningTask makeTask(const Script &script, const std::string &sourceSuffix = "") {
  TuningTask task = taskOfFunctions();
  task.name = "double";
  task.ops = "mul";
  task.templateName = "fake.pointwise";
  task.signature = "mul f32 4096";
  task.work = {.flops = elements, .bytesRead = 4 * elements, .bytesWritten = 4 * elements};
  std::vector<codegen::EstimatedConfig> candidates;
  for (const auto &[id, behaviour] : script)
    candidates.push_back({static_cast<double>(id), {{"id", id}}});
  functionsOf(task).onCandidates = [candidates] { return candidates; };
  functionsOf(task).onEmit = [sourceSuffix](const codegen::TileConfig &config) -> Result<codegen::KernelPlan> {
    codegen::KernelPlan plan;
    plan.name = "double";
    plan.target = "sm_80";
    plan.source = "id=" + std::to_string(config["id"]) + " " + sourceSuffix;
    plan.inputs = plan.outputs = {{DType::F32, {static_cast<std::int64_t>(elements)}}};
    plan.inPlace = {-1};
    plan.launches = {{}};
    plan.workspaceBytes = 64;
    plan.zeroedBytes = 16;
    return plan;
  };
  functionsOf(task).onMakeInputs = [] {
    std::vector<float> values(elements);
    for (std::size_t i = 0; i < elements; ++i)
      values[i] = 1 + static_cast<float>(i % 7);
    HostBuffers inputs(1, std::vector<std::byte>(4 * elements));
    std::memcpy(inputs[0].data(), values.data(), inputs[0].size());
    return inputs;
  };
  auto sampled = std::make_shared<std::vector<std::int64_t>>(1, 0);
  functionsOf(task).onCheck = [sampled](const HostBuffers &inputs, const ReadOutput &read) -> Result<void> {
    for (std::int64_t element : *sampled) {
      const std::size_t offset = static_cast<std::size_t>(element) * sizeof(float);
      float x = 0, y = 0;
      std::memcpy(&x, &inputs[0][offset], sizeof x);
      if (Result<void> done = read(0, offset, std::as_writable_bytes(std::span(&y, 1))); !done)
        return done;
      if (y != 2 * x)
        return Error{ErrorCode::WrongResult, "element " + std::to_string(element) + " is off"};
    }
    return {};
  };
  functionsOf(task).onCheckAlso = [sampled](const HostBuffers &, std::size_t,
                                            const std::vector<std::int64_t> &elements) {
    sampled->insert(sampled->end(), elements.begin(), elements.end());
    return Result<void>();
  };
  return task;
}

} // namespace kfuse::tuner::test
