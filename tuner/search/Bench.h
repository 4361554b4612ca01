// The bench on which the candidates of one task are checked and timed: inputs, outputs, workspace.
#pragma once

#include "runtime/Device.h"
#include "tuner/check/GuardedBuffer.h"
#include "tuner/check/OutputCheck.h"
#include "tuner/record/Measurement.h"
#include "tuner/search/TuningTask.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace kfuse::tuner {

/// A kernel's runs on a bench, made ready for the first time they are measured and again when the bench's memory has
/// moved since.
struct PreparedRuns {
  std::unique_ptr<runtime::TimedRuns> runs;
  std::vector<void *> pointers; ///< Buffers of the bench they were made for.
  void *workspace = nullptr;    ///< The workspace they were made for.
};

class Bench {
public:
  /// Allocates and uploads what every candidate shares, and has the oracle evaluated. `plan` is any candidate's;
  /// `device` and `task` must outlive the bench. OutOfMemory when the task does not fit on the device.
  static Result<Bench> make(runtime::Device &device, const TuningTask &task, const codegen::KernelPlan &plan);

  /// Does so again, after the device was restarted or its memory overwritten. The reference lay there: the next one
  /// that the oracle finds right takes its place.
  Result<void> rebuild();

  /// One run on poisoned outputs: everything written, nothing around any buffer, inputs left as they were,
  /// agreeing with the oracle and with the reference, which is the first candidate that did. Where one disagrees with
  /// the reference, both are judged by the oracle there, and a wrong one is the reference no more. Nothing when right;
  /// an Error when the device itself is in trouble.
  Result<std::optional<Failure>> check(runtime::LoadedKernel &kernel, const codegen::KernelPlan &plan);
  /// How often the reference turned out to be wrong: who was right by an earlier one must be checked again.
  int timesMisled() const { return misled; }
  /// Wall-clock seconds of the last check's run, launch to end.
  double lastRunSeconds() const { return runSeconds; }

  /// Timed runs, in microseconds. `prepared` is the kernel's, empty at first.
  Result<std::vector<double>> measure(runtime::LoadedKernel &kernel, const codegen::KernelPlan &plan,
                                      PreparedRuns &prepared, const runtime::MeasureOptions &options);

  /// False when a failed launch took the device down with it.
  bool deviceAnswers();

private:
  using Sums = std::vector<runtime::DifferenceSums>;

  Bench(runtime::Device &device, const TuningTask &task) : device(device), task(task) {}

  int stateOf(std::size_t output) const { return task.stateOf.empty() ? -1 : task.stateOf[output]; }
  bool isState(std::size_t input) const;
  Result<void> prepareOutputs();
  Result<void> prepareWorkspace(const codegen::KernelPlan &plan);
  Result<void> run(runtime::LoadedKernel &kernel);
  Result<std::optional<Failure>> inspectMemory(const codegen::KernelPlan &plan);
  Result<std::optional<Failure>> inspectInputs();
  Result<std::optional<Failure>> inspectReference();
  Result<std::optional<Failure>> inspectWorkspace(const codegen::KernelPlan &plan);
  Result<std::optional<Failure>> inspectOutputs(const codegen::KernelPlan &plan);
  Result<std::optional<Failure>> inspectOutput(const codegen::KernelPlan &plan, std::size_t output);
  Result<std::optional<Failure>> resolve(std::size_t output, const Difference &difference);
  Result<std::optional<Failure>> judge(const ReadOutput &read) const;
  Result<std::optional<Sums>> sumsOnDevice(const codegen::BufferDesc &desc, std::size_t output);
  Result<std::vector<std::uint64_t>> digestOutputs();
  Result<void> keepReference(std::vector<std::uint64_t> digests);
  void forgetReference();
  template <class Make> auto withRoom(const Make &make) -> decltype(make());
  bool hasReference() const { return !reference.empty(); }
  void *outputAt(std::size_t output) const { return pointers[inputs.size() + output]; }
  ReadOutput reader() const;
  ReadOutput referenceReader() const;

  runtime::Device &device;
  const TuningTask &task;
  HostBuffers inputs; ///< As uploaded, or what repeats in them.
  std::vector<std::size_t> inputBytes, outputBytes;
  std::vector<GuardedBuffer> inputMemory;
  std::vector<std::optional<GuardedBuffer>> outputMemory; ///< Empty for a state's: it is that input's.
  std::optional<GuardedBuffer> workspace;
  std::vector<std::uint64_t> digests; ///< The inputs' digests.
  /// What the reference wrote, on the device or, where that has no room, here; empty before there is one.
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> reference;
  HostBuffers referenceHere;
  std::vector<std::uint64_t> referenceDigests;
  std::vector<void *> pointers; ///< Inputs, then outputs.
  double runSeconds = 0;
  int misled = 0;
};

} // namespace kfuse::tuner
