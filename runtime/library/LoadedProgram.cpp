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
                                                                 const LoadWish &wish) {
  Result<VariantChoice> chosen = chooseVariant(pack->manifest(), wish.variant);
  if (!chosen)
    return chosen.error();
  Result<BucketTable> table = pack->table(chosen->variant);
  if (!table)
    return table.error();
  Result<std::vector<VariantPrograms>> programs = pack->loadAll(chosen->variant);
  if (!programs)
    return programs.error();
  auto loaded = std::make_shared<LoadedProgram>();
  loaded->given = std::make_unique<GivenMemory>();
  if (chosen->isCpu) {
    const int all = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    loaded->device = std::make_unique<HostDevice>(wish.threads > 0 ? wish.threads : all);
  } else {
    Result<std::unique_ptr<Device>> gpu = openCuda(wish.variant.device);
    if (!gpu)
      return gpu.error();
    loaded->device = std::move(*gpu);
    loaded->ordinal = wish.variant.device;
  }
  loaded->title = pack->manifest().variants[chosen->variant].title();
  loaded->programs = std::move(*programs);
  loaded->table = std::move(*table);
  loaded->weights = wish.weights;
  loaded->pack = std::move(pack);
  return std::shared_ptr<const LoadedProgram>(std::move(loaded));
}

Result<const LengthEdges *> LoadedProgram::edgesFor(std::span<const std::int64_t> lengths) const {
  if (Result<void> inside = checkLengths(manifest().dims, lengths); !inside)
    return inside.error();
  if (manifest().dims.empty())
    return nullptr;
  Result<std::size_t> bucket = table.find(lengths);
  return bucket ? Result(&programs[*bucket].edges) : bucket.error();
}

//===- Weights -------------------------------------------------------------------------------===//

Result<std::shared_ptr<const PreparedWeights>> PreparedWeights::make(std::shared_ptr<const LoadedProgram> program,
                                                                     Parameters parameters) {
  std::shared_ptr<PreparedWeights> weights(new PreparedWeights(std::move(program)));
  if (Result<void> taken = weights->takeFromPack(parameters); !taken)
    return taken.error();
  for (const VariantPrograms &bucket : weights->program->programs) {
    if (Result<void> prepared = weights->prepare(bucket, parameters); !prepared)
      return prepared.error();
    if (Result<void> fixed = weights->fixArguments(bucket, parameters); !fixed)
      return fixed.error();
  }
  std::erase_if(weights->uploaded, [&](const std::unique_ptr<DeviceBuffer> &buffer) { // What was only prepared from.
    return std::ranges::none_of(weights->pointers, [&](const std::vector<void *> &fixed) {
      return std::ranges::find(fixed, buffer->data()) != fixed.end();
    });
  });
  return std::shared_ptr<const PreparedWeights>(std::move(weights));
}

bool PreparedWeights::isRead(std::string_view parameter) const {
  auto reads = [&](const Program &from) {
    return std::ranges::find(from.arguments, parameter, &TensorDesc::name) != from.arguments.end();
  };
  return std::ranges::any_of(program->programs, [&](const VariantPrograms &bucket) {
    return reads(bucket.main) || (bucket.prepare && reads(*bucket.prepare));
  });
}

/// The file of weights is opened where one is missing, and what nothing reads is not looked for.
Result<void> PreparedWeights::takeFromPack(Parameters &parameters) {
  std::optional<PackWeights> source;
  std::vector<Transfer> transfers;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i] || !isRead(program->manifest().parameters[i].name))
      continue;
    if (!source) {
      Result<PackWeights> opened = PackWeights::open(program->pack, program->weights);
      if (!opened)
        return opened.error();
      source = std::move(*opened);
    }
    Result<std::span<const std::byte>> bytes = source->find(i);
    if (!bytes)
      return bytes.error();
    if (bytes->empty())
      continue;
    Result<std::unique_ptr<DeviceBuffer>> buffer = program->device->allocate(bytes->size());
    if (!buffer)
      return buffer.error();
    parameters[i] = (*buffer)->data();
    transfers.push_back({(*buffer)->data(), *bytes});
    uploaded.push_back(std::move(*buffer));
  }
  return program->device->uploadAll(transfers);
}

void *PreparedWeights::pointerOf(std::string_view name, const Parameters &parameters) const {
  const std::vector<TensorDesc> &described = program->manifest().parameters;
  auto found = std::ranges::find(described, name, &TensorDesc::name);
  return found == described.end() ? nullptr : const_cast<void *>(parameters[std::size_t(found - described.begin())]);
}

/// Memory for what a preparation makes; whether some of it is new.
Result<bool> PreparedWeights::allocatePrepared(const VariantPrograms &programs, std::vector<void *> &results) {
  bool hasNew = false;
  for (std::size_t i = 0; i < programs.prepare->results.size(); ++i) {
    const std::size_t bytes = programs.prepare->results[i].bytes();
    auto [known, isNew] = prepared.try_emplace(programs.preparedKeys[i]);
    if (isNew) {
      Result<std::unique_ptr<DeviceBuffer>> buffer = program->device->allocate(bytes);
      if (!buffer)
        return buffer.error();
      known->second = std::move(*buffer);
    }
    if (known->second->size() < bytes)
      return program->pack->file().damaged("two programs prepare the same in different sizes");
    results.push_back(known->second->data());
    hasNew |= isNew;
  }
  return hasNew;
}

Result<void> PreparedWeights::prepare(const VariantPrograms &programs, const Parameters &parameters) {
  if (!programs.prepare)
    return {};
  const Program &prepare = *programs.prepare;
  std::vector<void *> arguments, results;
  for (const TensorDesc &argument : prepare.arguments) {
    arguments.push_back(pointerOf(argument.name, parameters));
    if (!arguments.back() && argument.bytes() > 0)
      return usage("parameter '" + argument.name + "' is not given, and the pack does not hold it");
  }
  Result<bool> hasNew = allocatePrepared(programs, results);
  if (!hasNew || !*hasNew)
    return hasNew ? Result<void>() : hasNew.error();
  Result<std::unique_ptr<Context>> context = makeContext(prepare, *program->device, {.replay = false});
  if (!context)
    return context.error();
  if (Result<void> ran = (*context)->run(nullptr, arguments, results); !ran)
    return ran;
  return program->device->synchronize(nullptr);
}

Result<void> PreparedWeights::fixArguments(const VariantPrograms &programs, const Parameters &parameters) {
  const Program &main = programs.main;
  std::vector<void *> &fixed = pointers.emplace_back(main.arguments.size());
  for (std::size_t i = 0; i < main.arguments.size(); ++i) {
    const TensorDesc &argument = main.arguments[i];
    if (main.roles[i] != Role::Parameter)
      continue;
    fixed[i] = pointerOf(argument.name, parameters);
    for (std::size_t j = 0; !fixed[i] && programs.prepare && j < programs.prepare->results.size(); ++j)
      if (programs.prepare->results[j].name == argument.name)
        fixed[i] = prepared.at(programs.preparedKeys[j])->data();
    if (!fixed[i] && argument.bytes() > 0)
      return usage("parameter '" + argument.name + "' is not given, and the pack does not hold it");
  }
  return {};
}

//===- Session -------------------------------------------------------------------------------===//

namespace {

std::vector<void *> pointersOf(const std::vector<BoundTensor> &tensors) {
  std::vector<void *> pointers;
  for (const BoundTensor &tensor : tensors)
    pointers.push_back(tensor.memory);
  return pointers;
}

} // namespace

Result<std::unique_ptr<BoundSession>> BoundSession::make(std::shared_ptr<const PreparedWeights> weights,
                                                         std::span<std::byte> memory) {
  const LoadedProgram &program = *weights->program;
  Result<BucketContexts> contexts =
      BucketContexts::make(*program.device, mainsOf(program.programs), program.manifest().dims.size(), memory);
  if (!contexts)
    return contexts.error();
  std::unique_ptr<BoundSession> session(new BoundSession(std::move(weights), std::move(*contexts)));
  session->inputs.resize(program.manifest().inputs.size());
  session->states.resize(program.manifest().states.size());
  session->outputs.resize(program.manifest().outputs.size());
  return session;
}

Result<void> BoundSession::bindInput(std::size_t index, BoundTensor tensor) {
  Result<void> fits =
      program().manifest().dims.empty() ? checkSize(program().manifest().inputs[index], tensor.bytes) : Result<void>();
  if (fits)
    inputs[index] = tensor;
  return fits;
}

Result<void> BoundSession::bindState(std::size_t index, BoundTensor tensor) {
  Result<void> fits = checkSize(program().manifest().states[index], tensor.bytes);
  if (fits)
    states[index] = tensor;
  return fits;
}

Result<void> BoundSession::bindOutput(std::size_t index, BoundTensor tensor) {
  Result<void> fits =
      program().manifest().dims.empty() ? checkSize(program().manifest().outputs[index], tensor.bytes) : Result<void>();
  if (fits)
    outputs[index] = tensor;
  return fits;
}

Result<void> BoundSession::checkSizes(const LengthEdges &edges, std::span<const std::int64_t> given) const {
  auto check = [&](const std::vector<TensorDesc> &descs, const std::vector<LengthAxes> &axes,
                   const std::vector<BoundTensor> &bound) -> Result<void> {
    for (std::size_t i = 0; i < descs.size(); ++i) {
      const Shape shape = shapeAt(axes[i], given);
      const std::size_t needed = byteSize(descs[i].type, shape);
      if (bound[i].memory && bound[i].bytes < needed)
        return usage("'" + descs[i].name + "' is given " + std::to_string(bound[i].bytes) + " bytes, this run needs " +
                     std::to_string(needed) + " of " + std::string(toString(descs[i].type)) + " " + toString(shape));
    }
    return {};
  };
  Result<void> fits = check(program().manifest().inputs, edges.inputs, inputs);
  return fits ? check(program().manifest().outputs, edges.results, outputs) : fits;
}

Result<void> BoundSession::run(Stream stream, std::span<const std::int64_t> given) {
  const bool hasLengths = !program().manifest().dims.empty();
  if (Result<void> inside = checkLengths(program().manifest().dims, given); !inside)
    return inside;
  if (isRunning.test_and_set(std::memory_order_acquire))
    return usage("this session is in a run on another thread; make one for each");
  struct Ending {
    std::atomic_flag &flag;
    ~Ending() { flag.clear(std::memory_order_release); }
  } ending{isRunning};
  Result<std::size_t> bucket = hasLengths ? program().table.find(given) : std::size_t(0);
  if (!bucket)
    return bucket.error();
  const VariantPrograms &programs = program().programs[*bucket];
  if (Result<void> fits = hasLengths ? checkSizes(programs.edges, given) : Result<void>(); !fits)
    return fits;
  arguments = weights->fixed(*bucket);
  results = pointersOf(outputs);
  placeArguments(programs.main, programs.edges, pointersOf(inputs), pointersOf(states), results, contexts.lengths(),
                 arguments);
  if (programs.edges.readsLengths)
    if (Result<void> written = writeLengths(*program().device, stream, given, contexts.lengths()); !written)
      return written;
  return contexts[*bucket].run(stream, arguments, results);
}

} // namespace kfuse::runtime
