#include "runtime/library/LoadedProgram.h"

#include "runtime/host/HostDevice.h"

#include <algorithm>
#include <thread>

namespace kfuse::runtime {
namespace {

Error usage(std::string message) { return {ErrorCode::Usage, std::move(message)}; }

Result<void> checkSize(const TensorDesc &tensor, std::size_t bytes) {
  if (bytes != tensor.bytes())
    return usage("'" + tensor.name + "' is given " + std::to_string(bytes) + " bytes, expected " +
                 std::to_string(tensor.bytes()) + " of " + std::string(toString(tensor.type)) + " " +
                 toString(tensor.shape));
  return {};
}

/// Which of main's arguments is number `index` of those with `role`.
std::size_t argumentAt(const Program &main, Role role, std::size_t index) {
  std::size_t argument = 0;
  for (;; ++argument)
    if (main.roles[argument] == role && index-- == 0)
      return argument;
}

} // namespace

//===- Memory --------------------------------------------------------------------------------===//

void *GivenMemory::keep(std::unique_ptr<DeviceBuffer> buffer) {
  std::scoped_lock lock(mutex);
  return buffers.emplace_back(std::move(buffer))->data();
}

void GivenMemory::free(const void *memory) {
  std::scoped_lock lock(mutex);
  std::erase_if(buffers, [&](const auto &buffer) { return buffer->data() == memory; });
}

//===- Program -------------------------------------------------------------------------------===//

Result<std::shared_ptr<const LoadedProgram>> LoadedProgram::load(std::shared_ptr<const Pack> pack,
                                                                 const VariantWish &wish, int threads) {
  Result<VariantChoice> chosen = chooseVariant(pack->manifest(), wish);
  if (!chosen)
    return chosen.error();
  Result<VariantPrograms> programs = pack->load(chosen->variant);
  if (!programs)
    return programs.error();
  auto loaded = std::make_shared<LoadedProgram>();
  loaded->given = std::make_unique<GivenMemory>();
  if (chosen->isCpu) {
    const int all = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    loaded->device = std::make_unique<HostDevice>(threads > 0 ? threads : all);
  } else {
    Result<std::unique_ptr<Device>> gpu = openCuda(wish.device);
    if (!gpu)
      return gpu.error();
    loaded->device = std::move(*gpu);
    loaded->ordinal = wish.device;
  }
  loaded->title = pack->manifest().variants[chosen->variant].title();
  loaded->programs = std::move(*programs);
  loaded->pack = std::move(pack);
  return std::shared_ptr<const LoadedProgram>(std::move(loaded));
}

//===- Weights -------------------------------------------------------------------------------===//

Result<std::shared_ptr<const PreparedWeights>> PreparedWeights::make(std::shared_ptr<const LoadedProgram> program,
                                                                     Parameters parameters) {
  std::shared_ptr<PreparedWeights> weights(new PreparedWeights(std::move(program)));
  if (Result<void> taken = weights->takeFromPack(parameters); !taken)
    return taken.error();
  if (Result<void> prepared = weights->prepare(parameters); !prepared)
    return prepared.error();
  if (Result<void> fixed = weights->fixArguments(parameters); !fixed)
    return fixed.error();
  std::erase_if(weights->uploaded, [&](const std::unique_ptr<DeviceBuffer> &buffer) { // What was only prepared from.
    return std::ranges::find(weights->pointers, buffer->data()) == weights->pointers.end();
  });
  return std::shared_ptr<const PreparedWeights>(std::move(weights));
}

Result<void *> PreparedWeights::allocate(std::size_t bytes) {
  Result<std::unique_ptr<DeviceBuffer>> buffer = program->device->allocate(bytes);
  if (!buffer)
    return buffer.error();
  return memory.emplace_back(std::move(*buffer))->data();
}

bool PreparedWeights::isRead(std::string_view parameter) const {
  auto reads = [&](const Program &from) {
    return std::ranges::find(from.arguments, parameter, &TensorDesc::name) != from.arguments.end();
  };
  return reads(program->programs.main) || (program->programs.prepare && reads(*program->programs.prepare));
}

Result<void> PreparedWeights::takeFromPack(Parameters &parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i])
      continue;
    Result<std::span<const std::byte>> bytes = program->pack->weights(i);
    if (!bytes)
      return bytes.error();
    if (bytes->empty() || !isRead(program->manifest().parameters[i].name))
      continue;
    Result<std::unique_ptr<DeviceBuffer>> buffer = program->device->allocate(bytes->size());
    if (!buffer)
      return buffer.error();
    if (Result<void> copied = program->device->upload((*buffer)->data(), bytes->data(), bytes->size()); !copied)
      return copied;
    parameters[i] = (*buffer)->data();
    uploaded.push_back(std::move(*buffer));
  }
  return {};
}

void *PreparedWeights::pointerOf(std::string_view name, const Parameters &parameters) const {
  const std::vector<TensorDesc> &described = program->manifest().parameters;
  auto found = std::ranges::find(described, name, &TensorDesc::name);
  return found == described.end() ? nullptr : const_cast<void *>(parameters[std::size_t(found - described.begin())]);
}

Result<void> PreparedWeights::prepare(const Parameters &parameters) {
  if (!program->programs.prepare)
    return {};
  const Program &prepare = *program->programs.prepare;
  std::vector<void *> arguments;
  for (const TensorDesc &argument : prepare.arguments) {
    arguments.push_back(pointerOf(argument.name, parameters));
    if (!arguments.back() && argument.bytes() > 0)
      return usage("parameter '" + argument.name + "' is not given, and the pack does not hold it");
  }
  for (const TensorDesc &result : prepare.results) {
    Result<void *> here = allocate(result.bytes());
    if (!here)
      return here.error();
    prepared.push_back(*here);
  }
  Result<std::unique_ptr<Context>> context = makeContext(prepare, *program->device, {.replay = false});
  if (!context)
    return context.error();
  if (Result<void> ran = (*context)->run(nullptr, arguments, prepared); !ran)
    return ran;
  return program->device->synchronize(nullptr);
}

Result<void> PreparedWeights::fixArguments(const Parameters &parameters) {
  const Program &main = program->programs.main;
  for (std::size_t i = 0; i < main.arguments.size(); ++i) {
    void *&pointer = pointers.emplace_back(nullptr);
    const TensorDesc &argument = main.arguments[i];
    if (main.roles[i] != Role::Parameter)
      continue;
    pointer = pointerOf(argument.name, parameters);
    for (std::size_t j = 0; !pointer && j < prepared.size(); ++j)
      if (program->programs.prepare->results[j].name == argument.name)
        pointer = prepared[j];
    if (!pointer && argument.bytes() > 0)
      return usage("parameter '" + argument.name + "' is not given, and the pack does not hold it");
  }
  return {};
}

//===- Session -------------------------------------------------------------------------------===//

Result<std::unique_ptr<BoundSession>> BoundSession::make(std::shared_ptr<const PreparedWeights> weights,
                                                         std::span<std::byte> memory) {
  const LoadedProgram &program = *weights->program;
  Result<std::unique_ptr<Context>> context = makeContext(program.programs.main, *program.device, {.memory = memory});
  if (!context)
    return context.error();
  std::unique_ptr<BoundSession> session(new BoundSession(std::move(weights)));
  session->context = std::move(*context);
  session->arguments = session->weights->fixed();
  session->results.resize(program.programs.main.results.size());
  return session;
}

Result<void> BoundSession::bindInput(std::size_t index, void *pointer, std::size_t bytes) {
  return bindArgument(Role::Input, index, pointer, bytes);
}

Result<void> BoundSession::bindState(std::size_t index, void *pointer, std::size_t bytes) {
  return bindArgument(Role::State, index, pointer, bytes);
}

Result<void> BoundSession::bindArgument(Role role, std::size_t index, void *pointer, std::size_t bytes) {
  const Program &main = program().programs.main;
  const std::size_t argument = argumentAt(main, role, index);
  Result<void> fits = checkSize(main.arguments[argument], bytes);
  if (fits)
    arguments[argument] = pointer;
  return fits;
}

Result<void> BoundSession::bindOutput(std::size_t index, void *pointer, std::size_t bytes) {
  Result<void> fits = checkSize(program().programs.main.results[index], bytes);
  if (fits)
    results[index] = pointer;
  return fits;
}

Result<void> BoundSession::run(Stream stream) {
  if (isRunning.test_and_set(std::memory_order_acquire))
    return usage("this session is in kfr_run() on another thread; make one for each");
  struct Ending {
    std::atomic_flag &flag;
    ~Ending() { flag.clear(std::memory_order_release); }
  } ending{isRunning};
  return context->run(stream, arguments, results);
}

} // namespace kfuse::runtime
