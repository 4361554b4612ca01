#include "kfuse/compiler.h"

#include "tuner/api/Handles.h"
#include "tuner/api/NoThrow.h"
#include "tuner/report/ReportPage.h"

#include "llvm/ADT/ScopeExit.h"

#include <cstring>

namespace kfuse {
namespace {

Error usage(std::string message) { return {ErrorCode::Usage, std::move(message)}; }

} // namespace

//===- Buffer --------------------------------------------------------------------------------===//

void *Buffer::data() const { return impl ? impl->memory->data() : nullptr; }
std::size_t Buffer::size() const { return impl ? impl->memory->size() : 0; }

Result<void> Buffer::check(const void *host) const {
  if (!impl)
    return usage(movedFrom("Buffer"));
  if (!host && size() > 0)
    return usage("a null pointer was given for " + std::to_string(size()) + " bytes of host memory");
  return {};
}

Result<void> Buffer::upload(const void *host) const {
  Result<void> valid = check(host);
  return valid ? impl->device->upload(data(), host, size()) : valid;
}

Result<void> Buffer::download(void *host) const {
  Result<void> valid = check(host);
  return valid ? impl->device->download(host, data(), size()) : valid;
}

//===- Executable ----------------------------------------------------------------------------===//

const std::vector<TensorDesc> &Executable::inputs() const { return edgesOf(impl.get()).inputs; }
const std::vector<TensorDesc> &Executable::parameters() const { return edgesOf(impl.get()).parameters; }
const std::vector<TensorDesc> &Executable::states() const { return edgesOf(impl.get()).states; }
const std::vector<TensorDesc> &Executable::outputs() const { return edgesOf(impl.get()).outputs; }

const std::vector<int> &Executable::updatedStates() const {
  static const std::vector<int> none;
  return impl ? impl->updatedStates : none;
}

const std::string &Executable::target() const {
  static const std::string none;
  return impl ? impl->compiled.main.target : none;
}

int Executable::device() const { return impl ? impl->ordinal : -1; }

std::string Executable::plan() const { return impl ? tuner::toJson(impl->compiled.report) : std::string(); }

std::string Executable::rooflineSvg() const {
  return impl ? tuner::rooflineFile(impl->compiled.report) : std::string();
}

Result<Buffer> Executable::allocate(std::size_t bytes) const {
  if (!impl)
    return usage(movedFrom("Executable"));
  Result<std::unique_ptr<runtime::DeviceBuffer>> memory = impl->device->allocate(bytes);
  if (!memory)
    return memory.error();
  return Buffer(std::make_shared<Buffer::Impl>(Buffer::Impl{impl->device, std::move(*memory)}));
}

Result<void> Executable::synchronize(Stream stream) const {
  return impl ? impl->device->synchronize(stream) : usage(movedFrom("Executable"));
}

namespace {

Result<void> checkList(std::string_view what, std::span<void *const> given, std::size_t expected) {
  if (given.size() != expected)
    return usage("got " + std::to_string(given.size()) + " " + std::string(what) + ", expected " +
                 std::to_string(expected));
  if (!given.data() && expected > 0)
    return usage("the list of " + std::string(what) + " is at a null pointer, expected one of " +
                 std::to_string(expected));
  return {};
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

Result<Weights> Executable::Impl::prepare(const Executable &self, std::span<void *const> parameters) {
  const std::shared_ptr<const Impl> &impl = self.impl;
  if (!impl)
    return usage(movedFrom("Executable"));
  if (Result<void> valid = checkList("parameters", parameters, impl->edges.parameters.size()); !valid)
    return valid.error();
  auto weights = std::make_shared<Weights::Impl>();
  weights->executable = impl;
  const runtime::Program &main = impl->compiled.main;
  if (const std::optional<runtime::Program> &prepare = impl->compiled.prepare) {
    Result<std::vector<Buffer>> prepared = runPreparation(self, *prepare, parameters);
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

Result<Session> Executable::Impl::newSession(const Executable &self, const Weights &weights) {
  const std::shared_ptr<const Impl> &impl = self.impl;
  if (!impl || !weights)
    return usage(movedFrom(impl ? "Weights" : "Executable"));
  if (weights.internals().executable != impl)
    return usage("these weights were prepared for another program; call prepare() of this one");
  Result<std::unique_ptr<runtime::Context>> context = runtime::makeContext(impl->compiled.main, *impl->device);
  if (!context)
    return context.error();
  return Session(std::unique_ptr<Session::Impl>(new Session::Impl{impl, weights, std::move(*context), {}, {}}));
}

Result<Weights> Executable::prepare(std::span<void *const> parameters) const {
  return withoutThrowing([&] { return Impl::prepare(*this, parameters); });
}

Result<Session> Executable::newSession(const Weights &weights) const {
  return withoutThrowing([&] { return Impl::newSession(*this, weights); });
}

//===- Session -------------------------------------------------------------------------------===//

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Session::Session(Session &&) noexcept = default;
Session &Session::operator=(Session &&) noexcept = default;
Session::~Session() = default;

Result<void> Session::Impl::run(Stream stream, std::span<void *const> inputs, std::span<void *const> outputs) {
  const runtime::Program &main = executable->compiled.main;
  const Edges &edges = executable->edges;
  if (Result<void> valid = checkList("inputs and states", inputs, edges.inputs.size() + edges.states.size()); !valid)
    return valid;
  if (Result<void> valid = checkList("outputs", outputs, edges.outputs.size()); !valid)
    return valid;
  if (executable->hostPastLength && inputs[executable->hostPastLength->first]) {
    const auto [i, most] = *executable->hostPastLength;
    std::int64_t length = 0;
    std::memcpy(&length, inputs[i], sizeof(length));
    if (length < 0 || length > most)
      return usage("'" + edges.inputs[i].name + "' is " + std::to_string(length) + "; 0 to " + std::to_string(most) +
                   " leave room for what is new, load the model with a larger capacity for more");
  }
  if (isRunning.test_and_set(std::memory_order_acquire))
    return usage("this Session is in run() on another thread; make one per thread");
  auto ending = llvm::make_scope_exit([this] { isRunning.clear(std::memory_order_release); });
  // @main's arguments keep the model's order; fixed ones are filled in, inputs and states taken by role.
  arguments = weights.internals().fixed;
  auto input = inputs.begin(), state = inputs.begin() + static_cast<std::ptrdiff_t>(edges.inputs.size());
  for (std::size_t i = 0; i < main.arguments.size(); ++i) {
    if (main.roles[i] == Role::Input)
      arguments[i] = *input++;
    else if (main.roles[i] == Role::State)
      arguments[i] = *state++;
  }
  return context->run(stream, arguments, outputs);
}

Result<void> Session::run(Stream stream, std::span<void *const> inputs, std::span<void *const> outputs) {
  if (!impl)
    return usage(movedFrom("Session"));
  return withoutThrowing([&] { return impl->run(stream, inputs, outputs); });
}

} // namespace kfuse
