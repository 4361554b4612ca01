#include "runtime/CudaTarget.h"
#include "runtime/Program.h"

#include <algorithm>
#include <cstdint>

namespace kfuse::runtime {
namespace {

constexpr std::uintptr_t pointerAlignment = 16; // The widest vector load of a kernel.

/// Enqueues at once, on one stream.
class StreamQueue final : public WorkQueue {
public:
  StreamQueue(Device &device, Stream stream) : device(device), stream(stream) {}

  Result<void> launch(const KernelRun &run) override {
    return run.programmaticLaunch ? run.kernel->launchProgrammatic(stream, run.buffers, run.workspace)
                                  : run.kernel->launch(stream, run.buffers, run.workspace);
  }
  Result<void> copy(const Copy &copy) override { return device.copy(stream, copy.to, copy.from, copy.bytes); }

private:
  Device &device;
  Stream stream;
};

/// A part of memory that somebody else frees.
class BorrowedBuffer final : public DeviceBuffer {
public:
  explicit BorrowedBuffer(std::span<std::byte> memory) : memory(memory) {}
  void *data() const override { return memory.data(); }
  std::size_t size() const override { return memory.size(); }

private:
  std::span<std::byte> memory;
};

/// What a part of a context's memory takes of memory that is given.
std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + contextAlignment - 1) / contextAlignment * contextAlignment;
}

/// Launches the steps one by one, or records them once and replays them where the device can.
class StepContext final : public Context {
public:
  StepContext(const Program &program, Device &device) : program(program), device(device), scratch(program) {}

  Result<void> prepare(const ContextOptions &options);
  Result<void> run(Stream stream, std::span<void *const> arguments, std::span<void *const> results) override;
  std::uint64_t memoryBytes() const override {
    return program.constants.size() + (sharesArena ? 0 : program.arenaBytes) + (sharesWorkspace ? 0 : scratch.bytes());
  }
  ReplayCounts replayCounts() const override { return replay ? replay->counts() : ReplayCounts(); }

private:
  Result<void> loadKernels();
  Result<void> allocateMemory(std::span<std::byte> given);
  Result<void> bind(std::span<void *const> arguments, std::span<void *const> results);
  Result<void> bindResult(std::size_t index, void *pointer, std::span<void *const> arguments);
  Result<void> enqueue(WorkQueue &queue);
  Result<void> copyThrough(WorkQueue &queue, bool intoStates);
  Result<void> launch(WorkQueue &queue, const Step &step, bool isFirst);
  void *address(const BufferRef &ref) const;

  const Program &program;
  Device &device;
  Workspace scratch;
  std::vector<std::unique_ptr<LoadedKernel>> kernels;
  std::unique_ptr<DeviceBuffer> constants, arena, workspace; // Null where empty.
  bool sharesArena = false, sharesWorkspace = false;         // They are others', too.
  std::unique_ptr<Replay> replay;                            // Null: launch step by step.
  std::vector<void *> bound;       // Caller's pointers of the current run: arguments, then results.
  std::vector<void *> stepBuffers; // Those of the step being launched.
};

Result<void> StepContext::prepare(const ContextOptions &options) {
  if (!runsOn(program.target, device.target()))
    return Error{ErrorCode::Usage, "program '" + program.name + "' is compiled for " + program.target + ", " +
                                       device.sku() + " is " + device.target() + "; compile it for that target"};
  sharesArena = options.arena.data() != nullptr;
  if (sharesArena && options.arena.size() < program.arenaBytes)
    return Error{ErrorCode::Usage, "the arena given has " + std::to_string(options.arena.size()) + " bytes, expected " +
                                       std::to_string(program.arenaBytes)};
  if (sharesArena)
    arena = std::make_unique<BorrowedBuffer>(options.arena);
  sharesWorkspace = options.shared.has_value();
  if (sharesWorkspace) {
    scratch = *options.shared;
    workspace = std::make_unique<BorrowedBuffer>(options.workspace);
  }
  if (Result<void> loaded = loadKernels(); !loaded)
    return loaded;
  if (Result<void> allocated = allocateMemory(options.memory); !allocated)
    return allocated;
  if (!options.replay)
    return {};
  Result<std::unique_ptr<Replay>> made = device.makeReplay();
  if (!made)
    return made.error();
  replay = std::move(*made);
  return {};
}

Result<void> StepContext::loadKernels() {
  for (const ProgramKernel &kernel : program.kernels) {
    Result<std::unique_ptr<LoadedKernel>> loaded = device.load(kernel.plan, kernel.binary);
    if (!loaded)
      return loaded.error();
    kernels.push_back(std::move(*loaded));
  }
  return {};
}

Result<void> StepContext::allocateMemory(std::span<std::byte> given) {
  if (const std::uint64_t needed = contextBytes(program, sharesWorkspace); given.data() && given.size() < needed)
    return Error{ErrorCode::Usage,
                 "the memory given has " + std::to_string(given.size()) + " bytes, expected " + std::to_string(needed)};
  if (reinterpret_cast<std::uintptr_t>(given.data()) % contextAlignment != 0)
    return Error{ErrorCode::Usage, "the memory given is not aligned to 256 bytes"};
  auto allocate = [&](std::unique_ptr<DeviceBuffer> &buffer, std::uint64_t bytes) -> Result<void> {
    if (bytes == 0)
      return {};
    if (given.data()) {
      buffer = std::make_unique<BorrowedBuffer>(given.first(bytes));
      given = given.subspan(std::min<std::size_t>(rounded(bytes), given.size()));
      return {};
    }
    Result<std::unique_ptr<DeviceBuffer>> made = device.allocate(bytes);
    if (!made)
      return made.error();
    buffer = std::move(*made);
    return {};
  };
  if (Result<void> made = allocate(constants, program.constants.size()); !made)
    return made;
  if (!sharesArena)
    if (Result<void> made = allocate(arena, program.arenaBytes); !made)
      return made;
  if (!sharesWorkspace) {
    if (Result<void> made = allocate(workspace, scratch.bytes()); !made)
      return made;
    if (Result<void> filled = scratch.zeroed > 0 ? device.fill(workspace->data(), 0, scratch.zeroed) : Result<void>();
        !filled)
      return filled;
  }
  return constants ? device.upload(constants->data(), program.constants.data(), program.constants.size())
                   : Result<void>();
}

Result<void> StepContext::run(Stream stream, std::span<void *const> arguments, std::span<void *const> results) {
  if (Result<void> valid = bind(arguments, results); !valid)
    return valid;
  StreamQueue queue(device, stream);
  if (!replay)
    return enqueue(queue);
  Result<bool> capturing = replay->isCapturing(stream);
  if (!capturing)
    return capturing.error();
  if (*capturing)
    return enqueue(queue);
  return replay->launch(stream, bound, [this](WorkQueue &recording) { return enqueue(recording); });
}

Result<void> checkPointer(const std::string &what, const TensorDesc &tensor, const void *pointer) {
  if (pointer == nullptr && tensor.bytes() > 0)
    return Error{ErrorCode::Usage, what + " '" + tensor.name + "' is null; expected " + std::to_string(tensor.bytes()) +
                                       " bytes of " + std::string(toString(tensor.type)) + " " +
                                       toString(tensor.shape)};
  if (reinterpret_cast<std::uintptr_t>(pointer) % pointerAlignment != 0)
    return Error{ErrorCode::Usage, what + " '" + tensor.name + "' is not 16-byte aligned; copy it to memory that is"};
  return {};
}

Error wrongCount(const char *what, std::size_t given, std::size_t expected) {
  return Error{ErrorCode::Usage, std::to_string(given) + " " + what + " given, expected " + std::to_string(expected)};
}

Result<void> StepContext::bind(std::span<void *const> arguments, std::span<void *const> results) {
  if (arguments.size() != program.arguments.size())
    return wrongCount("arguments", arguments.size(), program.arguments.size());
  if (results.size() != program.results.size())
    return wrongCount("results", results.size(), program.results.size());
  bound.assign(arguments.begin(), arguments.end());
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (Result<void> valid = checkPointer("argument", program.arguments[i], arguments[i]); !valid)
      return valid;
  for (std::size_t i = 0; i < results.size(); ++i)
    if (Result<void> valid = bindResult(i, results[i], arguments); !valid)
      return valid;
  return {};
}

Result<void> StepContext::bindResult(std::size_t index, void *pointer, std::span<void *const> arguments) {
  const TensorDesc &result = program.results[index];
  int state = program.resultState[index];
  if (state >= 0) {
    if (pointer != nullptr && pointer != arguments[state])
      return Error{ErrorCode::Usage, "result '" + result.name +
                                         "' is updated in place; pass null or the pointer of argument '" +
                                         program.arguments[state].name + "'"};
    pointer = arguments[state];
  }
  bound.push_back(pointer);
  return checkPointer("result", result, pointer);
}

/// Results first take what is handed through, while states still hold their old values; a state
/// that takes another argument's value does so once every step has read it.
Result<void> StepContext::enqueue(WorkQueue &queue) {
  if (Result<void> copied = copyThrough(queue, false); !copied)
    return copied;
  for (const Step &step : program.steps)
    if (Result<void> launched = launch(queue, step, /*isFirst=*/&step == program.steps.data()); !launched)
      return launched;
  return copyThrough(queue, true);
}

Result<void> StepContext::copyThrough(WorkQueue &queue, bool intoStates) {
  for (const PassThrough &pass : program.passThroughs) {
    if ((program.resultState[pass.result] >= 0) != intoStates)
      continue;
    void *to = address({BufferRef::Space::Result, pass.result, 0});
    void *from = address(pass.source);
    std::size_t bytes = program.results[pass.result].bytes();
    if (to == from || bytes == 0)
      continue;
    if (Result<void> copied = queue.copy({to, from, bytes}); !copied)
      return copied;
  }
  return {};
}

/// The first step may follow anything, what wrote the parameters too; the others follow a step.
Result<void> StepContext::launch(WorkQueue &queue, const Step &step, bool isFirst) {
  stepBuffers.clear();
  for (const BufferRef &ref : step.buffers)
    stepBuffers.push_back(address(ref));
  const codegen::KernelPlan &plan = program.kernels[step.kernel].plan;
  void *own = workspace ? static_cast<std::byte *>(workspace->data()) + scratch.offset(plan) : nullptr;
  return queue.launch({kernels[step.kernel].get(), stepBuffers, own, /*programmaticLaunch=*/!isFirst});
}

void *StepContext::address(const BufferRef &ref) const {
  auto at = [&](const DeviceBuffer *buffer) -> void * {
    return buffer ? static_cast<std::byte *>(buffer->data()) + ref.offset : nullptr;
  };
  switch (ref.space) {
  case BufferRef::Space::Argument:
    return static_cast<std::byte *>(bound[ref.index]) + ref.offset;
  case BufferRef::Space::Result:
    return static_cast<std::byte *>(bound[program.arguments.size() + ref.index]) + ref.offset;
  case BufferRef::Space::Constant:
    return at(constants.get());
  case BufferRef::Space::Arena:
    return at(arena.get());
  }
  return nullptr; // validate() saw every space.
}

} // namespace

std::uint64_t contextBytes(const Program &program, bool isShared) {
  const std::uint64_t ofRun = isShared ? 0 : rounded(program.arenaBytes) + rounded(Workspace(program).bytes());
  return rounded(program.constants.size()) + ofRun;
}

Result<std::unique_ptr<Context>> makeContext(const Program &program, Device &device, const ContextOptions &options) {
  if (Result<void> valid = program.validate(); !valid)
    return valid.error();
  auto context = std::make_unique<StepContext>(program, device);
  if (Result<void> prepared = context->prepare(options); !prepared)
    return prepared.error();
  return std::unique_ptr<Context>(std::move(context));
}

} // namespace kfuse::runtime
