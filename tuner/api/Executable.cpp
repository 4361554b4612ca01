#include "kfuse/compiler.h"

#include "tuner/api/Handles.h"

namespace kfuse {

//===- Buffer --------------------------------------------------------------------------------===//

void *Buffer::data() const { return impl->memory->data(); }
std::size_t Buffer::size() const { return impl->memory->size(); }
Result<void> Buffer::upload(const void *host) const { return impl->device->upload(data(), host, size()); }
Result<void> Buffer::download(void *host) const { return impl->device->download(host, data(), size()); }

//===- Executable ----------------------------------------------------------------------------===//

const std::vector<TensorDesc> &Executable::inputs() const { return impl->edges.inputs; }
const std::vector<TensorDesc> &Executable::parameters() const { return impl->edges.parameters; }
const std::vector<TensorDesc> &Executable::states() const { return impl->edges.states; }
const std::vector<TensorDesc> &Executable::outputs() const { return impl->edges.outputs; }

const std::vector<int> &Executable::updatedStates() const { return impl->updatedStates; }

Result<Buffer> Executable::allocate(std::size_t bytes) const {
  Result<std::unique_ptr<runtime::DeviceBuffer>> memory = impl->device->allocate(bytes);
  if (!memory)
    return memory.error();
  return Buffer(std::make_shared<Buffer::Impl>(Buffer::Impl{impl->device, std::move(*memory)}));
}

Result<void> Executable::synchronize(Stream stream) const { return impl->device->synchronize(stream); }

namespace {

Error wrongCount(std::string_view what, std::size_t given, std::size_t expected) {
  return {ErrorCode::Usage,
          "got " + std::to_string(given) + " " + std::string(what) + ", expected " + std::to_string(expected)};
}

/// Runs @prepare once and waits: parameters in, one new buffer per prepared value out.
Result<std::vector<Buffer>> runPreparation(const Executable &executable, const runtime::Program &prepare,
                                           std::span<void *const> parameters) {
  runtime::Device &device = *executable.internals().device;
  std::vector<void *> arguments, results;
  for (const TensorDesc &argument : prepare.arguments)
    arguments.push_back(parameters[*executable.internals().parameterIndex(argument.name)]);
  std::vector<Buffer> prepared;
  for (const TensorDesc &result : prepare.results) {
    Result<Buffer> buffer = executable.allocate(result.bytes());
    if (!buffer)
      return buffer.error();
    results.push_back(buffer->data());
    prepared.push_back(std::move(*buffer));
  }
  Result<std::unique_ptr<runtime::Context>> context = runtime::makeContext(prepare, device, {.replay = false});
  if (!context)
    return context.error();
  if (Result<void> ran = (*context)->run(nullptr, arguments, results); !ran)
    return ran.error();
  if (Result<void> done = device.synchronize(nullptr); !done)
    return done.error();
  return prepared;
}

} // namespace

std::optional<std::size_t> Executable::Impl::parameterIndex(std::string_view name) const {
  for (std::size_t i = 0; i < edges.parameters.size(); ++i)
    if (edges.parameters[i].name == name)
      return i;
  return std::nullopt;
}

Result<Weights> Executable::prepare(std::span<void *const> parameters) const {
  if (parameters.size() != impl->edges.parameters.size())
    return wrongCount("parameters", parameters.size(), impl->edges.parameters.size());
  auto weights = std::make_shared<Weights::Impl>();
  weights->executable = impl;
  const runtime::Program &main = impl->compiled.main;
  if (const std::optional<runtime::Program> &prepare = impl->compiled.prepare) {
    Result<std::vector<Buffer>> prepared = runPreparation(*this, *prepare, parameters);
    if (!prepared)
      return prepared.error();
    weights->prepared = std::move(*prepared);
  }
  // @main's fixed arguments are parameters used as they are, or results of @prepare, by name.
  for (std::size_t i = 0; i < main.arguments.size(); ++i) {
    void *pointer = nullptr;
    if (main.roles[i] == Role::Parameter) {
      if (std::optional<std::size_t> index = impl->parameterIndex(main.arguments[i].name))
        pointer = parameters[*index];
      for (std::size_t j = 0; !pointer && j < weights->prepared.size(); ++j)
        if (impl->compiled.prepare->results[j].name == main.arguments[i].name)
          pointer = weights->prepared[j].data();
      if (!pointer)
        return Error{ErrorCode::Usage,
                     "parameter '" + main.arguments[i].name + "' has a null pointer; give its device memory"};
    }
    weights->fixed.push_back(pointer);
  }
  return Weights(std::move(weights));
}

Result<Session> Executable::newSession(const Weights &weights) const {
  if (weights.internals().executable != impl)
    return Error{ErrorCode::Usage, "these weights were prepared for another program; call prepare() of this one"};
  Result<std::unique_ptr<runtime::Context>> context = runtime::makeContext(impl->compiled.main, *impl->device);
  if (!context)
    return context.error();
  return Session(std::make_unique<Session::Impl>(Session::Impl{impl, weights, std::move(*context), {}}));
}

//===- Session -------------------------------------------------------------------------------===//

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Session::Session(Session &&) noexcept = default;
Session &Session::operator=(Session &&) noexcept = default;
Session::~Session() = default;

Result<void> Session::run(Stream stream, std::span<void *const> inputs, std::span<void *const> outputs) {
  const runtime::Program &main = impl->executable->compiled.main;
  const Edges &edges = impl->executable->edges;
  if (inputs.size() != edges.inputs.size() + edges.states.size())
    return wrongCount("inputs and states", inputs.size(), edges.inputs.size() + edges.states.size());
  if (outputs.size() != edges.outputs.size())
    return wrongCount("outputs", outputs.size(), edges.outputs.size());
  // @main's arguments keep the model's order; fixed ones are filled in, inputs and states taken by role.
  impl->arguments = impl->weights.internals().fixed;
  auto input = inputs.begin(), state = inputs.begin() + static_cast<std::ptrdiff_t>(edges.inputs.size());
  for (std::size_t i = 0; i < main.arguments.size(); ++i) {
    if (main.roles[i] == Role::Input)
      impl->arguments[i] = *input++;
    else if (main.roles[i] == Role::State)
      impl->arguments[i] = *state++;
  }
  return impl->context->run(stream, impl->arguments, outputs);
}

} // namespace kfuse
