#include "tuner/Bench.h"

#include "tuner/OutputCheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace kfuse::tuner {
namespace {

/// Poisoned bytes behind each output and workspace that must survive a run.
constexpr std::size_t guardBytes = 256;

bool allAre(std::span<const std::byte> bytes, unsigned char value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte byte) { return byte == std::byte{value}; });
}

Failure wrong(std::size_t output, const std::string &reason) {
  return {FailureKind::WrongResult, fmt::format("output {}: {}", output, reason)};
}

} // namespace

Result<Bench> Bench::make(runtime::Device &device, const TuningTask &task, const codegen::KernelPlan &plan) {
  Bench bench(device, task);
  bench.inputs = task.makeInputs();
  auto place = [&](std::size_t bytes) -> Result<void *> {
    Result<std::unique_ptr<runtime::DeviceBuffer>> buffer = device.allocate(bytes);
    if (!buffer)
      return buffer.error();
    bench.memory.push_back(std::move(*buffer));
    return bench.memory.back()->data();
  };
  for (const std::vector<std::byte> &input : bench.inputs) {
    Result<void *> pointer = place(input.size());
    if (!pointer)
      return pointer.error();
    if (Result<void> copied = device.upload(*pointer, input.data(), input.size()); !copied)
      return copied.error();
    bench.pointers.push_back(*pointer);
  }
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    int state = bench.stateOf(i);
    Result<void *> pointer =
        state >= 0 ? bench.pointers[static_cast<std::size_t>(state)] : place(plan.outputs[i].bytes() + guardBytes);
    if (!pointer)
      return pointer.error();
    bench.pointers.push_back(*pointer);
    bench.outputs.emplace_back(plan.outputs[i].bytes());
  }
  return bench;
}

Result<std::optional<Failure>> Bench::check(runtime::LoadedKernel &kernel, const codegen::KernelPlan &plan) {
  if (Result<void> prepared = prepareOutputs(); !prepared)
    return prepared.error();
  if (Result<void> prepared = prepareWorkspace(plan); !prepared)
    return prepared.error();
  auto start = std::chrono::steady_clock::now();
  Result<void> ran = run(kernel);
  runSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!ran)
    return std::optional(Failure{FailureKind::Launch, ran.error().message});
  return inspect(plan);
}

/// Poisons the outputs; a state gets its contents back.
Result<void> Bench::prepareOutputs() {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    void *output = pointers[inputs.size() + i];
    int state = stateOf(i);
    Result<void> done = state >= 0 ? device.upload(output, inputs[static_cast<std::size_t>(state)].data(),
                                                   inputs[static_cast<std::size_t>(state)].size())
                                   : device.fill(output, poison, outputs[i].size() + guardBytes);
    if (!done)
      return done;
  }
  return {};
}

/// Poisons the workspace, which candidates share, but for its semaphores.
Result<void> Bench::prepareWorkspace(const codegen::KernelPlan &plan) {
  if (plan.workspaceBytes == 0)
    return {};
  if (!workspace || workspace->size() < plan.workspaceBytes + guardBytes) {
    Result<std::unique_ptr<runtime::DeviceBuffer>> buffer = device.allocate(plan.workspaceBytes + guardBytes);
    if (!buffer)
      return buffer.error();
    workspace = std::move(*buffer);
  }
  if (Result<void> filled = device.fill(workspace->data(), poison, plan.workspaceBytes + guardBytes); !filled)
    return filled;
  return device.fill(workspace->data(), 0, plan.zeroedBytes);
}

Result<void> Bench::run(runtime::LoadedKernel &kernel) {
  Result<void> launched = kernel.launch(nullptr, pointers, workspace ? workspace->data() : nullptr);
  return launched ? device.synchronize(nullptr) : launched;
}

Result<std::optional<Failure>> Bench::inspect(const codegen::KernelPlan &plan) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    auto *output = static_cast<std::byte *>(pointers[inputs.size() + i]);
    if (Result<void> copied = device.download(outputs[i].data(), output, outputs[i].size()); !copied)
      return copied.error();
    if (stateOf(i) < 0) {
      Result<std::optional<Failure>> overrun = inspectGuard(output + outputs[i].size(), "an output");
      if (!overrun || *overrun)
        return overrun;
      if (std::optional<std::string> unwritten = findPoison(plan.outputs[i], outputs[i]))
        return std::optional(wrong(i, *unwritten));
    }
    std::optional<std::string> difference =
        expected.empty() ? std::nullopt
                         : findDifference(plan.outputs[i], outputs[i], expected[i], toleranceOf(plan, i));
    if (difference)
      return std::optional(wrong(i, *difference));
  }
  Result<std::optional<Failure>> workspaceFault = inspectWorkspace(plan);
  if (!workspaceFault || *workspaceFault)
    return workspaceFault;
  if (Result<void> right = task.check(inputs, outputs); !right) {
    if (right.error().code != ErrorCode::WrongResult)
      return right.error();
    return std::optional(Failure{FailureKind::WrongResult, right.error().message});
  }
  if (expected.empty())
    expected = outputs;
  return std::optional<Failure>();
}

Result<std::optional<Failure>> Bench::inspectWorkspace(const codegen::KernelPlan &plan) {
  if (plan.workspaceBytes == 0)
    return std::optional<Failure>();
  std::vector<std::byte> semaphores(plan.zeroedBytes);
  if (Result<void> copied = device.download(semaphores.data(), workspace->data(), semaphores.size()); !copied)
    return copied.error();
  if (!allAre(semaphores, 0))
    return std::optional(Failure{FailureKind::Overrun, "left its semaphores set"});
  return inspectGuard(static_cast<const std::byte *>(workspace->data()) + plan.workspaceBytes, "its workspace");
}

Result<std::optional<Failure>> Bench::inspectGuard(const std::byte *guard, const char *what) {
  std::array<std::byte, guardBytes> bytes{};
  if (Result<void> copied = device.download(bytes.data(), guard, bytes.size()); !copied)
    return copied.error();
  if (allAre(bytes, poison))
    return std::optional<Failure>();
  return std::optional(Failure{FailureKind::Overrun, fmt::format("wrote behind the end of {}", what)});
}

Result<std::vector<double>> Bench::measure(runtime::LoadedKernel &kernel, const codegen::KernelPlan &plan,
                                           const runtime::MeasureOptions &options) {
  if (Result<void> prepared = prepareWorkspace(plan); !prepared)
    return prepared.error();
  return device.measure(kernel, pointers, workspace ? workspace->data() : nullptr, options);
}

bool Bench::deviceAnswers() {
  std::byte byte{};
  return memory.empty() || (device.download(&byte, memory.front()->data(), 1) && device.synchronize(nullptr));
}

} // namespace kfuse::tuner
