#include "tools/kfuse/model/Execution.h"

#include "kfuse/pack.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/Npy.h"
#include "tuner/api/Handles.h"
#include "tuner/api/Packs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

namespace kfuse::tools {
namespace {

using reference::HostTensor;

/// Seeded noise of a size that deep blocks survive; indices small, to be valid positions in any table.
HostTensor randomTensor(const TensorDesc &desc, Role role, std::uint64_t seed) {
  if (const std::optional<SmallInteger> range = smallInteger(desc.type))
    return reference::integers(desc.type, desc.shape, seed, range->lowest, range->largest + 1);
  if (!isFloat(desc.type))
    return reference::integers(desc.type, desc.shape, seed, 0, desc.type == DType::Bool ? 2 : 8);
  if (role != Role::Parameter || desc.shape.size() < 2)
    return reference::uniform(desc.type, desc.shape, seed);
  return reference::normal(desc.type, desc.shape, seed, reference::weightDeviation(desc.shape));
}

Result<HostTensor> readTensor(const TensorDesc &desc, const std::string &file) {
  Result<tools::NpyArray> array = tools::readNpy(file);
  if (!array)
    return array.error();
  // NumPy has no type below a byte: the bytes are given.
  const bool areBytes = isPacked(desc.type) && array->type == DType::U8 && array->shape == packedShape(desc.shape);
  if (array->shape != desc.shape && !areBytes)
    return Error{ErrorCode::Usage, fmt::format("{} holds {}, input '{}' takes {}", file, toString(array->shape),
                                               desc.name, toString(desc.shape))};
  if (areBytes)
    return HostTensor{desc.type, desc.shape, std::move(array->data)};
  Result<tools::NpyArray> converted = tools::convert(std::move(*array), desc.type);
  if (!converted)
    return Error{converted.error().code, file + ": " + converted.error().message};
  return HostTensor{desc.type, desc.shape, std::move(converted->data)};
}

/// The number that all of `text` is; infinity for one that is beyond all, which no type but a float's holds.
std::optional<double> parseNumber(const std::string &text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size())
    return std::nullopt;
  return error == std::errc() ? value : INFINITY;
}

/// What an element of `type` may be, for people.
std::string rangeOf(DType type) {
  if (const std::optional<SmallInteger> range = smallInteger(type))
    return fmt::format("whole numbers from {} to {}", range->lowest, range->largest);
  return type == DType::Bool ? "0 or 1" : type == DType::I32 ? "whole numbers below 2^31" : "whole numbers below 2^63";
}

Result<HostTensor> filled(const TensorDesc &desc, double value) {
  if (!holds(desc.type, value))
    return Error{ErrorCode::Usage, fmt::format("--input {}={}: the input is of {}, which holds {}", desc.name, value,
                                               toString(desc.type), rangeOf(desc.type))};
  return reference::tensorOf(desc.type, desc.shape,
                             std::vector<double>(static_cast<std::size_t>(elementCount(desc.shape)), value));
}

/// The tensor that `bound` asks for: a number, the word "random", or a file.
Result<HostTensor> tensorFor(const TensorDesc &desc, Role role, std::uint64_t seed, const std::string &bound) {
  if (bound == "random")
    return randomTensor(desc, role, seed);
  if (std::optional<double> value = parseNumber(bound))
    return filled(desc, *value);
  return readTensor(desc, bound);
}

} // namespace

void ExecutionOptions::addTo(CLI::App &command) {
  ModelOptions::addTo(command);
  addTuningTo(command);
  command.add_option("--input", inputs, "name=file.npy, name=NUMBER or name=random; what is not given is random");
}

Result<std::vector<std::int64_t>> Arguments::lengthsOf(const Model &model, const std::vector<std::string> &given) {
  std::map<std::string, std::pair<std::int64_t, std::string>> known; // By name: the size and which input has it.
  for (const std::string &binding : given) {
    const std::size_t equals = std::min(binding.find('='), binding.size());
    auto desc = std::ranges::find(model.inputs(), binding.substr(0, equals), &TensorDesc::name);
    const std::string value = binding.substr(std::min(equals + 1, binding.size()));
    if (desc == model.inputs().end() || desc->dims.empty() || value == "random" || parseNumber(value))
      continue;
    Result<tools::NpyArray> array = tools::readNpy(value);
    if (!array)
      return array.error();
    for (std::size_t i = 0; i < desc->dims.size() && array->shape.size() == desc->dims.size(); ++i) {
      auto [found, isNew] = known.try_emplace(desc->dims[i].name, array->shape[i], desc->name);
      if (!isNew && !desc->dims[i].name.empty() && found->second.first != array->shape[i])
        return Error{ErrorCode::Usage,
                     fmt::format("'{}' is {} in '{}' but {} in '{}'", desc->dims[i].name, found->second.first,
                                 found->second.second, array->shape[i], desc->name)};
    }
  }
  std::vector<std::int64_t> lengths;
  for (const Dim &dim : model.dims()) {
    auto found = known.find(dim.name);
    lengths.push_back(found == known.end() ? dim.high : found->second.first);
  }
  return lengths;
}

Result<void> Arguments::gather(const Model &model, const std::vector<std::string> &given,
                               const std::optional<runtime::Safetensors> &weights) {
  for (const std::string &binding : given) {
    std::size_t equals = binding.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == binding.size())
      return Error{ErrorCode::Usage,
                   "--input " + binding + " is not of the form name=file.npy, name=NUMBER or name=random"};
    if (!bindings.try_emplace(binding.substr(0, equals), binding.substr(equals + 1)).second)
      return Error{ErrorCode::Usage, "--input " + binding + " is the second value of that input; give one"};
  }
  for (auto [list, role] : {std::pair(&model.inputs(), Role::Input),
                            {&model.parameters(), Role::Parameter},
                            {&model.states(), Role::State}})
    for (const TensorDesc &desc : *list)
      if (Result<void> made = make(model, desc, role, weights); !made)
        return made;
  if (!bindings.empty())
    return Error{ErrorCode::Usage, "--input names '" + bindings.begin()->first + "', which the model does not take"};
  return {};
}

Result<void> Arguments::make(const Model &model, const TensorDesc &desc, Role role,
                             const std::optional<runtime::Safetensors> &weights) {
  auto bound = bindings.extract(desc.name);
  std::span<const std::byte> stored = model.parameterData(desc.name);
  if (role == Role::Parameter && weights && weights->holds(desc.name)) {
    Result<std::span<const std::byte>> found = weights->find(desc);
    if (!found)
      return found.error();
    stored = *found;
  }
  if (bound.empty() && !stored.empty()) {
    tensors[desc.name] = {desc.type, desc.shape, {stored.begin(), stored.end()}};
    return {};
  }
  Result<HostTensor> tensor = tensorFor(desc, role, tensors.size() + 1, bound.empty() ? "random" : bound.mapped());
  if (!tensor)
    return tensor.error();
  if (const std::optional<ir::PastLength> &past = model.internals().model.pastLength;
      past && past->input == desc.name) {
    if (bound.empty() || bound.mapped() == "random")
      tensor = filled(desc, static_cast<double>(past->most / 2));
    const auto length = static_cast<std::int64_t>(reference::toDoubles(*tensor).front());
    if (length < 0 || length > past->most)
      return Error{ErrorCode::Usage, fmt::format("--input {}={}: 0 to {} rows leave room for what is new; give --state "
                                                 "a larger capacity for more",
                                                 desc.name, length, past->most)};
  }
  tensors[desc.name] = std::move(*tensor);
  return {};
}

Result<void> DeviceTensors::upload(const Executable &program, const std::vector<TensorDesc> &descs,
                                   const Arguments &arguments) {
  for (const TensorDesc &desc : descs) {
    Result<void *> pointer = add(program, desc);
    if (!pointer)
      return pointer.error();
    const std::vector<std::byte> *bytes = &arguments[desc.name].bytes;
    std::vector<std::byte> whole;
    if (bytes->size() < desc.bytes()) { // A state of fewer sequences than a run may have.
      whole = *bytes;
      whole.resize(desc.bytes());
      bytes = &whole;
    }
    if (Result<void> copied = buffers.back().upload(bytes->data()); !copied)
      return copied;
  }
  return {};
}

Result<void> DeviceTensors::poisonOutputs(const Executable &program, const Model &model, const DeviceTensors &inputs) {
  for (std::size_t i = 0; i < model.outputs().size(); ++i) {
    if (int state = program.updatedStates()[i]; state >= 0) {
      share(inputs.buffers[program.inputs().size() + static_cast<std::size_t>(state)]);
      continue;
    }
    const TensorDesc &desc = model.outputs()[i];
    Result<void *> pointer = add(program, desc);
    if (!pointer)
      return pointer.error();
    std::vector<std::byte> ones(desc.bytes(), std::byte{0xff});
    if (Result<void> copied = buffers.back().upload(ones.data()); !copied)
      return copied;
  }
  return {};
}

Result<HostTensor> DeviceTensors::download(std::size_t i, const TensorDesc &desc) const {
  HostTensor tensor{desc.type, desc.shape, std::vector<std::byte>(buffers[i].size())};
  if (Result<void> copied = buffers[i].download(tensor.bytes.data()); !copied)
    return copied.error();
  tensor.bytes.resize(desc.bytes());
  return tensor;
}

Result<void *> DeviceTensors::add(const Executable &program, const TensorDesc &desc) {
  Result<Buffer> buffer = program.allocate(desc.bytes());
  if (!buffer)
    return buffer.error();
  share(*buffer);
  return pointers.back();
}

void DeviceTensors::share(const Buffer &buffer) {
  pointers.push_back(buffer.data());
  buffers.push_back(buffer);
}

namespace {

/// A program from a pack, where --target names what it was compiled for.
Result<OpenedModel> openPack(const ExecutionOptions &options) {
  Result<Model> model = tuner::modelOfPack(options.model, {.file = options.weights});
  if (!model)
    return model.error();
  PackOptions pack{.target = "gpu", .device = 0, .threads = options.threads, .variant = options.target};
  if (options.target == "auto" || options.target == "cpu")
    pack.target = options.target, pack.variant = "";
  Result<Executable> program = loadPack(options.model, pack);
  if (!program)
    return program.error();
  Result<std::vector<std::int64_t>> lengths = Arguments::lengthsOf(*model, options.inputs);
  if (!lengths)
    return lengths.error();
  Result<Model> exact = tuner::modelOfRun(*model, *program, *lengths);
  if (!exact)
    return exact.error();
  Arguments arguments;
  if (Result<void> gathered = arguments.gather(*exact, options.inputs, std::nullopt); !gathered)
    return gathered.error();
  return OpenedModel{std::move(*exact), std::move(*lengths), std::move(arguments), std::move(*program), 0};
}

} // namespace

Result<OpenedModel> openModel(const ExecutionOptions &options) {
  if (options.isPack())
    return openPack(options);
  Result<Model> model = options.load();
  if (!model)
    return model.error();
  Result<std::vector<std::int64_t>> lengths = Arguments::lengthsOf(*model, options.inputs);
  if (!lengths)
    return lengths.error();
  Result<Model> exact = model->at(*lengths);
  if (!exact)
    return exact.error();
  Result<std::optional<runtime::Safetensors>> weights = options.openWeights(*exact);
  if (!weights)
    return weights.error();
  Arguments arguments;
  if (Result<void> gathered = arguments.gather(*exact, options.inputs, *weights); !gathered)
    return gathered.error();
  CompileOptions compilation = options.compilation();
  Result<std::vector<LengthCount>> histogram = options.lengthCounts(*model);
  if (!histogram)
    return histogram.error();
  compilation.histogram = std::move(*histogram);
  const auto start = std::chrono::steady_clock::now();
  Result<Executable> program = compile(*model, compilation);
  clearProgress();
  if (!program)
    return program.error();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return OpenedModel{std::move(*exact), std::move(*lengths), std::move(arguments), std::move(*program),
                     seconds.count()};
}

Result<Execution> Execution::make(const OpenedModel &opened) {
  const auto &[model, lengths, arguments, program, seconds] = opened;
  DeviceTensors parameters, inputs, outputs;
  for (auto [tensors, descs] :
       {std::pair(&parameters, &program.parameters()), {&inputs, &model.inputs()}, {&inputs, &program.states()}})
    if (Result<void> done = tensors->upload(program, *descs, arguments); !done)
      return done.error();
  if (Result<void> done = outputs.poisonOutputs(program, model, inputs); !done)
    return done.error();
  Result<Weights> weights = program.prepare(parameters.pointers);
  if (!weights)
    return weights.error();
  Result<Session> session = program.newSession(*weights);
  if (!session)
    return session.error();
  Execution execution(opened, std::move(*weights), std::move(*session));
  execution.parameters = std::move(parameters);
  execution.inputs = std::move(inputs);
  execution.outputs = std::move(outputs);
  return execution;
}

Result<DeviceTensors> Execution::makeOutputs() const {
  DeviceTensors made;
  if (Result<void> poisoned = made.poisonOutputs(program, model, inputs); !poisoned)
    return poisoned.error();
  return made;
}

Result<std::vector<HostTensor>> Execution::download() const {
  std::vector<HostTensor> tensors;
  for (std::size_t i = 0; i < model.outputs().size(); ++i) {
    Result<HostTensor> output = outputs.download(i, model.outputs()[i]);
    if (!output)
      return output.error();
    tensors.push_back(std::move(*output));
  }
  return tensors;
}

} // namespace kfuse::tools
