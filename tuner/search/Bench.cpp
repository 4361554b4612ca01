#include "tuner/search/Bench.h"

#include "tuner/record/Trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
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

ReadOutput readFrom(const HostBuffers &outputs) {
  return [&outputs](std::size_t output, std::size_t offset, std::span<std::byte> into) {
    std::memcpy(into.data(), outputs[output].data() + offset, into.size());
    return Result<void>();
  };
}

Result<Bench> Bench::make(runtime::Device &device, const TuningTask &task, const codegen::KernelPlan &plan) {
  Bench bench(device, task);
  {
    Span span("make operands", task.name);
    bench.inputs = task.oracle->makeInputs();
  }
  for (const codegen::BufferDesc &input : plan.inputs)
    bench.inputBytes.push_back(input.bytes());
  for (const codegen::BufferDesc &output : plan.outputs)
    bench.outputBytes.push_back(output.bytes());
  if (Result<void> built = bench.rebuild(); !built)
    return built.error();
  Span span("evaluate", task.name);
  if (Result<void> expected = task.oracle->expect(bench.inputs); !expected)
    return expected.error();
  return bench;
}

Result<void> Bench::rebuild() {
  inputMemory.clear();
  outputMemory.clear();
  workspace.reset();
  digests.clear();
  pointers.clear();
  forgetReference();
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

/// Where the device has no room for what is made, the reference leaves it, and it is tried once more.
template <class Make> auto Bench::withRoom(const Make &make) -> decltype(make()) {
  auto made = make();
  if (made || made.error().code != ErrorCode::OutOfMemory ||
      std::none_of(reference.begin(), reference.end(), [](const auto &buffer) { return buffer != nullptr; }))
    return made;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (!reference[i])
      continue;
    referenceHere[i].resize(outputBytes[i]);
    if (Result<void> read = device.download(referenceHere[i].data(), reference[i]->data(), outputBytes[i]); !read)
      return read.error();
    reference[i].reset();
  }
  return make();
}

MaybeFailure Bench::check(runtime::LoadedKernel &kernel, const codegen::KernelPlan &plan) {
  if (Result<void> prepared = prepareOutputs(); !prepared)
    return prepared.error();
  if (Result<void> prepared = withRoom([&] { return prepareWorkspace(plan); }); !prepared)
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
  if (MaybeFailure changed = inspectReference(); !changed || *changed)
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

/// Where it lies on the device.
MaybeFailure Bench::inspectReference() {
  for (std::size_t i = 0; i < reference.size(); ++i) {
    if (!reference[i])
      continue;
    Result<std::uint64_t> digest = device.digest(reference[i]->data(), outputBytes[i]);
    if (!digest)
      return digest.error();
    if (*digest != referenceDigests[i])
      return std::optional(
          Failure{FailureKind::Overrun, fmt::format("wrote into what the first right candidate gave as output {}", i)});
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
    Result<std::uint64_t> digest = device.digest(outputAt(i), outputBytes[i]);
    if (!digest)
      return digest.error();
    all.push_back(*digest);
  }
  return all;
}

/// What is bit for bit what the reference wrote is right.
MaybeFailure Bench::inspectOutputs(const codegen::KernelPlan &plan) {
  Result<std::vector<std::uint64_t>> found = digestOutputs();
  if (!found)
    return found.error();
  if (hasReference() && *found == referenceDigests)
    return fine;
  Span span("compare", task.name);
  for (std::size_t i = 0; i < outputBytes.size(); ++i)
    if (!hasReference() || (*found)[i] != referenceDigests[i])
      if (MaybeFailure failure = inspectOutput(plan, i); !failure || *failure)
        return failure;
  if (MaybeFailure failure = judge(reader()); !failure || *failure)
    return failure;
  if (!hasReference())
    if (Result<void> kept = keepReference(std::move(*found)); !kept)
      return kept.error();
  return fine;
}

/// Whether all of it was written, and as the reference did. On the device where that can: an output of half a gigabyte
/// took 0.5 s to fetch and look at.
MaybeFailure Bench::inspectOutput(const codegen::KernelPlan &plan, std::size_t output) {
  const codegen::BufferDesc &desc = plan.outputs[output];
  const double allowed = toleranceOf(plan, output);
  Result<std::optional<Sums>> sums = sumsOnDevice(desc, output);
  if (!sums)
    return sums.error();
  std::optional<Difference> difference;
  if (*sums && !hasReference())
    return fine; // They tell what there was to be told.
  if (*sums) {
    difference = findDifference(outputBytes[output] / byteWidth(desc.type), **sums, allowed);
  } else {
    std::vector<std::byte> bytes(outputBytes[output]), expected;
    if (Result<void> read = reader()(output, 0, bytes); !read)
      return read.error();
    if (stateOf(output) < 0)
      if (std::optional<std::string> unwritten = findPoison(desc, bytes))
        return std::optional(wrong(output, *unwritten));
    if (hasReference()) {
      expected.resize(bytes.size());
      if (Result<void> read = referenceReader()(output, 0, expected); !read)
        return read.error();
      difference = findDifference(desc, bytes, expected, allowed);
    }
  }
  return difference ? resolve(output, *difference) : fine;
}

/// Sums of the differences from the reference, or, before there is one, of the output from itself: those tell that it
/// holds no NaN, which poison is. Nothing where they are not finite, so that one has to look closer, and where the
/// device does not sum.
Result<std::optional<Bench::Sums>> Bench::sumsOnDevice(const codegen::BufferDesc &desc, std::size_t output) {
  const std::optional<Sums> none;
  const std::size_t count = outputBytes[output] / byteWidth(desc.type);
  if (!isFloat(desc.type) || count == 0 || (hasReference() && !reference[output]))
    return none;
  Sums sums((count + runtime::DifferenceSums::elements - 1) / runtime::DifferenceSums::elements);
  const std::size_t bytes = sums.size() * sizeof sums.front();
  Result<std::unique_ptr<runtime::DeviceBuffer>> room = device.allocate(bytes);
  if (!room)
    return none; // It is looked at here.
  Result<bool> summed =
      device.sumDifferences(desc.type, outputAt(output), hasReference() ? reference[output]->data() : outputAt(output),
                            count, (*room)->data());
  if (!summed)
    return summed.error();
  if (!*summed)
    return none;
  if (Result<void> read = device.download(sums.data(), (*room)->data(), bytes); !read)
    return read.error();
  const bool areFinite = std::all_of(sums.begin(), sums.end(), [](const runtime::DifferenceSums &run) {
    return std::isfinite(run.error) && std::isfinite(run.size);
  });
  return areFinite ? std::optional(std::move(sums)) : none;
}

/// Which of the two is wrong, by what the oracle finds where they differ most.
MaybeFailure Bench::resolve(std::size_t output, const Difference &difference) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(difference.count));
  std::iota(elements.begin(), elements.end(), difference.first);
  if (Result<void> looked = task.oracle->checkAlso(inputs, output, std::move(elements)); !looked)
    return looked.error();
  const MaybeFailure expected = judge(referenceReader()), own = judge(reader());
  if (!expected || !own)
    return expected ? own : expected;
  if (*expected) {
    forgetReference();
    ++misled;
  }
  return *own || !*expected ? std::optional(wrong(output, difference.message)) : fine;
}

Result<void> Bench::keepReference(std::vector<std::uint64_t> found) {
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> kept(outputBytes.size());
  referenceHere.assign(outputBytes.size(), {});
  for (std::size_t i = 0; i < outputBytes.size(); ++i) {
    Result<std::unique_ptr<runtime::DeviceBuffer>> room = device.allocate(outputBytes[i]);
    if (!room) { // No room, most likely; whatever else it is shows in what comes next.
      referenceHere[i].resize(outputBytes[i]);
      if (Result<void> read = reader()(i, 0, referenceHere[i]); !read)
        return read;
      continue;
    }
    if (Result<void> copied = device.copy(nullptr, (*room)->data(), outputAt(i), outputBytes[i]); !copied)
      return copied;
    kept[i] = std::move(*room);
  }
  if (Result<void> done = device.synchronize(nullptr); !done)
    return done;
  reference = std::move(kept);
  referenceDigests = std::move(found);
  return {};
}

void Bench::forgetReference() {
  reference.clear();
  referenceHere.clear();
}

ReadOutput Bench::reader() const {
  return [this](std::size_t output, std::size_t offset, std::span<std::byte> into) {
    return device.download(into.data(), static_cast<const std::byte *>(outputAt(output)) + offset, into.size());
  };
}

ReadOutput Bench::referenceReader() const {
  return [this, here = readFrom(referenceHere)](std::size_t output, std::size_t offset, std::span<std::byte> into) {
    if (!reference[output])
      return here(output, offset, into);
    return device.download(into.data(), static_cast<const std::byte *>(reference[output]->data()) + offset,
                           into.size());
  };
}

/// Judges by the oracle's samples.
MaybeFailure Bench::judge(const ReadOutput &read) const {
  Span span("judge", task.name);
  Result<void> right = task.oracle->check(inputs, read);
  if (right)
    return fine;
  if (right.error().code != ErrorCode::WrongResult)
    return right.error();
  return std::optional(Failure{FailureKind::WrongResult, right.error().message});
}

Result<std::vector<double>> Bench::measure(runtime::LoadedKernel &kernel, const codegen::KernelPlan &plan,
                                           PreparedRuns &prepared, const runtime::MeasureOptions &options) {
  if (Result<void> filled = withRoom([&] { return prepareWorkspace(plan); }); !filled)
    return filled.error();
  void *const here = workspace ? workspace->data() : nullptr;
  if (!prepared.runs || prepared.pointers != pointers || prepared.workspace != here) {
    runtime::MeasureOptions asPlanned = options;
    asPlanned.programmaticLaunch = plan.programmaticLaunch;
    Result<std::unique_ptr<runtime::TimedRuns>> runs =
        withRoom([&] { return device.prepareRuns(kernel, pointers, here, asPlanned); });
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
