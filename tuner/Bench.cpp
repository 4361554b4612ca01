#include "tuner/Bench.h"

#include "tuner/OutputCheck.h"
#include "tuner/Trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

namespace kfuse::tuner {
namespace {

using MaybeFailure = Result<std::optional<Failure>>;

const MaybeFailure fine{std::optional<Failure>()};

Failure wrong(std::size_t output, const std::string &reason) {
  return {FailureKind::WrongResult, fmt::format("output {}: {}", output, reason)};
}

MaybeFailure findOverrun(const GuardedBuffer &buffer, const std::string &name) {
  Result<std::optional<std::string>> overrun = buffer.findOverrun();
  if (!overrun)
    return overrun.error();
  return *overrun ? std::optional(Failure{FailureKind::Overrun, fmt::format("{} {}", **overrun, name)}) : fine;
}

} // namespace

Result<Bench> Bench::make(runtime::Device &device, const TuningTask &task, const codegen::KernelPlan &plan) {
  Bench bench(device, task);
  {
    Span span("make operands", task.name);
    bench.inputs = task.makeInputs();
  }
  for (const codegen::BufferDesc &input : plan.inputs)
    bench.inputBytes.push_back(input.bytes());
  for (const codegen::BufferDesc &output : plan.outputs)
    bench.outputBytes.push_back(output.bytes());
  if (Result<void> built = bench.rebuild(); !built)
    return built.error();
  if (task.expect) {
    Span span("evaluate", task.name);
    if (Result<void> expected = task.expect(bench.inputs); !expected)
      return expected.error();
  }
  return bench;
}

Result<void> Bench::rebuild() {
  inputMemory.clear();
  outputMemory.clear();
  workspace.reset();
  digests.clear();
  pointers.clear();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Result<GuardedBuffer> buffer = GuardedBuffer::make(device, inputBytes[i]);
    if (!buffer)
      return buffer.error();
    if (Result<void> uploaded = uploadRepeated(device, buffer->data(), inputBytes[i], inputs[i]); !uploaded)
      return uploaded;
    Result<std::uint64_t> digest = device.digest(buffer->data(), inputBytes[i]);
    if (!digest)
      return digest.error();
    digests.push_back(*digest);
    pointers.push_back(buffer->data());
    inputMemory.push_back(std::move(*buffer));
  }
  for (std::size_t i = 0; i < outputBytes.size(); ++i) {
    if (int state = stateOf(i); state >= 0) {
      outputMemory.emplace_back();
      pointers.push_back(pointers[static_cast<std::size_t>(state)]);
      continue;
    }
    Result<GuardedBuffer> buffer = GuardedBuffer::make(device, outputBytes[i]);
    if (!buffer)
      return buffer.error();
    pointers.push_back(buffer->data());
    outputMemory.emplace_back(std::move(*buffer));
  }
  return {};
}

bool Bench::isState(std::size_t input) const {
  return std::find(task.stateOf.begin(), task.stateOf.end(), static_cast<int>(input)) != task.stateOf.end();
}

MaybeFailure Bench::check(runtime::LoadedKernel &kernel, const codegen::KernelPlan &plan) {
  if (Result<void> prepared = prepareOutputs(); !prepared)
    return prepared.error();
  if (Result<void> prepared = prepareWorkspace(plan); !prepared)
    return prepared.error();
  auto start = std::chrono::steady_clock::now();
  Result<void> ran = run(kernel);
  runSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!ran)
    return ran.error();
  if (MaybeFailure outside = inspectMemory(plan); !outside || *outside)
    return outside;
  return inspectOutputs(plan);
}

/// Poisons the outputs; a state gets its contents back.
Result<void> Bench::prepareOutputs() {
  for (std::size_t i = 0; i < outputBytes.size(); ++i) {
    const int state = stateOf(i);
    Result<void> done = state >= 0 ? uploadRepeated(device, pointers[inputs.size() + i], outputBytes[i],
                                                    inputs[static_cast<std::size_t>(state)])
                                   : outputMemory[i]->poisonAll();
    if (!done)
      return done;
  }
  return {};
}

/// Poisons the workspace, which candidates share, but for its semaphores.
Result<void> Bench::prepareWorkspace(const codegen::KernelPlan &plan) {
  if (plan.workspaceBytes == 0)
    return {};
  if (!workspace) {
    Result<GuardedBuffer> buffer = GuardedBuffer::make(device, plan.workspaceBytes);
    if (!buffer)
      return buffer.error();
    workspace = std::move(*buffer);
  } else if (Result<void> sized = workspace->resize(plan.workspaceBytes); !sized) {
    return sized;
  }
  if (Result<void> filled = workspace->poisonAll(); !filled)
    return filled;
  return device.fill(workspace->data(), 0, plan.zeroedBytes);
}

Result<void> Bench::run(runtime::LoadedKernel &kernel) {
  Result<void> launched = kernel.launch(nullptr, pointers, workspace ? workspace->data() : nullptr);
  return launched ? device.synchronize(nullptr) : launched;
}

/// Whether anything but the outputs and the workspace was written.
MaybeFailure Bench::inspectMemory(const codegen::KernelPlan &plan) {
  for (std::size_t i = 0; i < inputMemory.size(); ++i)
    if (MaybeFailure overrun = findOverrun(inputMemory[i], fmt::format("input {}", i)); !overrun || *overrun)
      return overrun;
  for (std::size_t i = 0; i < outputMemory.size(); ++i)
    if (outputMemory[i])
      if (MaybeFailure overrun = findOverrun(*outputMemory[i], fmt::format("output {}", i)); !overrun || *overrun)
        return overrun;
  if (MaybeFailure changed = inspectInputs(); !changed || *changed)
    return changed;
  return inspectWorkspace(plan);
}

MaybeFailure Bench::inspectInputs() {
  for (std::size_t i = 0; i < inputMemory.size(); ++i) {
    if (isState(i))
      continue;
    Result<std::uint64_t> digest = device.digest(inputMemory[i].data(), inputMemory[i].size());
    if (!digest)
      return digest.error();
    if (*digest != digests[i])
      return std::optional(Failure{FailureKind::Overrun, fmt::format("wrote into input {}", i)});
  }
  return fine;
}

MaybeFailure Bench::inspectWorkspace(const codegen::KernelPlan &plan) {
  if (plan.workspaceBytes == 0)
    return fine;
  std::vector<std::byte> semaphores(plan.zeroedBytes);
  if (Result<void> copied = device.download(semaphores.data(), workspace->data(), semaphores.size()); !copied)
    return copied.error();
  if (!std::all_of(semaphores.begin(), semaphores.end(), [](std::byte byte) { return byte == std::byte{0}; }))
    return std::optional(Failure{FailureKind::Overrun, "left its semaphores set"});
  return findOverrun(*workspace, "its workspace");
}

Result<std::vector<std::uint64_t>> Bench::digestOutputs() {
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < outputBytes.size(); ++i) {
    Result<std::uint64_t> digest = device.digest(pointers[inputs.size() + i], outputBytes[i]);
    if (!digest)
      return digest.error();
    all.push_back(*digest);
  }
  return all;
}

Result<HostBuffers> Bench::downloadOutputs() {
  HostBuffers outputs;
  for (std::size_t i = 0; i < outputBytes.size(); ++i) {
    outputs.emplace_back(outputBytes[i]);
    if (Result<void> copied = device.download(outputs[i].data(), pointers[inputs.size() + i], outputBytes[i]); !copied)
      return copied.error();
  }
  return outputs;
}

/// What is bit for bit what the reference wrote is right: a gigabyte takes a second to fetch and compare.
MaybeFailure Bench::inspectOutputs(const codegen::KernelPlan &plan) {
  Result<std::vector<std::uint64_t>> found = digestOutputs();
  if (!found)
    return found.error();
  if (*found == expectedDigests && !expected.empty())
    return fine;
  Span span("compare", task.name);
  Result<HostBuffers> outputs = downloadOutputs();
  if (!outputs)
    return outputs.error();
  for (std::size_t i = 0; i < outputs->size(); ++i)
    if (stateOf(i) < 0)
      if (std::optional<std::string> unwritten = findPoison(plan.outputs[i], (*outputs)[i]))
        return std::optional(wrong(i, *unwritten));
  if (!expected.empty())
    if (MaybeFailure differs = compareOutputs(plan, *outputs); !differs || *differs)
      return differs;
  if (MaybeFailure failure = judge(*outputs); !failure || *failure)
    return failure;
  if (expected.empty()) {
    expected = std::move(*outputs);
    expectedDigests = std::move(*found);
  }
  return fine;
}

/// With the reference, which is dropped when the oracle finds it wrong where they differ.
MaybeFailure Bench::compareOutputs(const codegen::KernelPlan &plan, const HostBuffers &outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::optional<Difference> difference =
        findDifference(plan.outputs[i], outputs[i], expected[i], toleranceOf(plan, i));
    if (!difference)
      continue;
    if (task.checkAlso) {
      std::vector<std::int64_t> elements(static_cast<std::size_t>(difference->count));
      std::iota(elements.begin(), elements.end(), difference->first);
      if (Result<void> looked = task.checkAlso(inputs, i, std::move(elements)); !looked)
        return looked.error();
    }
    const MaybeFailure reference = judge(expected), own = judge(outputs);
    if (!reference || !own)
      return reference ? own : reference;
    if (*reference) {
      expected.clear();
      ++misled;
    }
    return *own || !*reference ? std::optional(wrong(i, difference->message)) : fine;
  }
  return fine;
}

/// By the oracle's samples.
MaybeFailure Bench::judge(const HostBuffers &outputs) const {
  Span span("judge", task.name);
  Result<void> right = task.check(inputs, outputs);
  if (right)
    return fine;
  if (right.error().code != ErrorCode::WrongResult)
    return right.error();
  return std::optional(Failure{FailureKind::WrongResult, right.error().message});
}

Result<std::vector<double>> Bench::measure(runtime::LoadedKernel &kernel, const codegen::KernelPlan &plan,
                                           PreparedRuns &prepared, const runtime::MeasureOptions &options) {
  if (Result<void> filled = prepareWorkspace(plan); !filled)
    return filled.error();
  void *const here = workspace ? workspace->data() : nullptr;
  if (!prepared.runs || prepared.pointers != pointers || prepared.workspace != here) {
    runtime::MeasureOptions asPlanned = options;
    asPlanned.isBehind = plan.isBehind;
    Result<std::unique_ptr<runtime::TimedRuns>> runs = device.prepareRuns(kernel, pointers, here, asPlanned);
    if (!runs)
      return runs.error();
    prepared = {std::move(*runs), pointers, here};
  }
  return prepared.runs->measure(options);
}

bool Bench::deviceAnswers() {
  std::byte byte{};
  return device.synchronize(nullptr) && (pointers.empty() || device.download(&byte, pointers.front(), 1));
}

} // namespace kfuse::tuner
