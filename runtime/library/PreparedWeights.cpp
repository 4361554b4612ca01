#include "runtime/library/PreparedWeights.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kfuse::runtime {
namespace {

Error notGiven(const TensorDesc &parameter) {
  return {ErrorCode::Usage, "parameter '" + parameter.name + "' is not given, and the pack does not hold it"};
}

} // namespace

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
      return notGiven(argument);
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
      return notGiven(argument);
  }
  return {};
}

} // namespace kfuse::runtime
