#include "kfuse/compiler.h"

#include "tuner/api/Handles.h"
#include "tuner/api/NoThrow.h"
#include "tuner/report/ReportPage.h"

#include "llvm/ADT/ScopeExit.h"

#include <algorithm>
#include <cstring>
#include <map>

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

const std::vector<Dim> &Executable::dims() const {
  static const std::vector<Dim> none;
  return impl ? impl->dims : none;
}

Result<std::vector<Shape>> Executable::outputShapes(std::span<const std::int64_t> lengths) const {
  if (!impl)
    return usage(movedFrom("Executable"));
  return withoutThrowing([&] { return Impl::outputShapes(*impl, lengths); });
}

const std::vector<int> &Executable::updatedStates() const {
  static const std::vector<int> none;
  return impl ? impl->updatedStates : none;
}

const std::string &Executable::target() const {
  static const std::string none;
  return impl ? impl->compiled().main.target : none;
}

int Executable::device() const { return impl ? impl->ordinal : -1; }

std::string Executable::plan() const {
  if (!impl || !impl->packedPlan.empty())
    return impl ? impl->packedPlan : std::string();
  return tuner::toJson(impl->compiled().report);
}

std::string Executable::rooflineSvg() const {
  return impl ? tuner::rooflineFile(impl->compiled().report) : std::string();
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

/// What the programs' preparations compute: a value that several of them prepare lies in memory once, as does one that
/// is `known` before.
class PreparedValues {
public:
  PreparedValues(const Executable &executable, std::span<void *const> parameters, std::map<std::string, Buffer> known)
      : executable(executable), parameters(parameters), values(std::move(known)) {}

  /// Runs a program's @prepare, if it has one and some of its values are new, and waits.
  Result<void> prepare(const tuner::CompiledModel &program) {
    if (!program.prepare)
      return {};
    std::vector<void *> arguments, results;
    bool hasNew = false;
    for (const TensorDesc &argument : program.prepare->arguments)
      arguments.push_back(parameters[*executable.internals().parameterIndex(argument.name)]);
    for (std::size_t i = 0; i < program.prepare->results.size(); ++i) {
      auto known = values.find(program.preparedKeys[i]);
      if (known == values.end()) {
        Result<Buffer> buffer = executable.allocate(program.prepare->results[i].bytes());
        if (!buffer)
          return buffer.error();
        known = values.try_emplace(program.preparedKeys[i], std::move(*buffer)).first;
        hasNew = true;
      }
      results.push_back(known->second.data());
    }
    return hasNew ? run(*program.prepare, arguments, results) : Result<void>();
  }
  void *find(const std::string &key) const {
    auto known = values.find(key);
    return known == values.end() ? nullptr : known->second.data();
  }
  std::map<std::string, Buffer> take() { return std::move(values); }

private:
  Result<void> run(const runtime::Program &prepare, std::span<void *const> arguments, std::span<void *const> results) {
    runtime::Device &device = *executable.internals().device;
    Result<std::unique_ptr<runtime::Context>> context = runtime::makeContext(prepare, device, {.replay = false});
    if (!context)
      return context.error();
    if (Result<void> ran = (*context)->run(nullptr, arguments, results); !ran)
      return ran;
    return device.synchronize(nullptr);
  }

  const Executable &executable;
  std::span<void *const> parameters;
  std::map<std::string, Buffer> values; ///< By CompiledModel::preparedKeys.
};

/// @main's fixed arguments are parameters used as they are, or results of @prepare, by name.
Result<std::vector<void *>> fixedArguments(const Executable::Impl &impl, const tuner::CompiledModel &program,
                                           std::span<void *const> parameters, const PreparedValues &values) {
  std::vector<void *> fixed;
  for (std::size_t i = 0; i < program.main.arguments.size(); ++i) {
    void *pointer = nullptr;
    const std::string &name = program.main.arguments[i].name;
    if (program.main.roles[i] == Role::Parameter) {
      if (std::optional<std::size_t> index = impl.parameterIndex(name))
        pointer = parameters[*index];
      for (std::size_t j = 0; !pointer && program.prepare && j < program.prepare->results.size(); ++j)
        if (program.prepare->results[j].name == name)
          pointer = values.find(program.preparedKeys[j]);
      if (!pointer)
        return Error{ErrorCode::Usage, "parameter '" + name + "' has a null pointer; give its device memory"};
    }
    fixed.push_back(pointer);
  }
  return fixed;
}

/// Per parameter that is null and comes with the program's pack: its bytes on the device; an empty Buffer for others.
Result<std::vector<Buffer>> weightsFromPack(const Executable &executable, std::span<void *const> parameters) {
  std::vector<Buffer> buffers(parameters.size(), Buffer(nullptr));
  if (std::ranges::find(parameters, nullptr) == parameters.end())
    return buffers;
  Result<runtime::PackWeights> source =
      runtime::PackWeights::open(executable.internals().pack, executable.internals().weights);
  if (!source)
    return source.error();
  std::vector<runtime::Transfer> transfers;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i])
      continue;
    Result<std::span<const std::byte>> bytes = source->find(i);
    if (!bytes)
      return bytes.error();
    if (bytes->empty())
      continue;
    Result<Buffer> buffer = executable.allocate(bytes->size());
    if (!buffer)
      return buffer.error();
    transfers.push_back({buffer->data(), *bytes});
    buffers[i] = std::move(*buffer);
  }
  Result<void> uploaded = executable.internals().device->uploadAll(transfers);
  return uploaded ? Result(std::move(buffers)) : uploaded.error();
}

} // namespace

Result<std::size_t> Executable::Impl::programFor(std::span<const std::int64_t> lengths) const {
  if (!dims.empty())
    return table.find(lengths);
  if (Result<void> none = runtime::checkLengths(dims, lengths); !none)
    return none.error();
  return std::size_t(0);
}

Result<std::vector<Shape>> Executable::Impl::outputShapes(const Impl &impl, std::span<const std::int64_t> lengths) {
  Result<std::size_t> chosen = impl.programFor(lengths);
  if (!chosen)
    return chosen.error();
  std::vector<Shape> shapes;
  if (impl.dims.empty())
    for (const TensorDesc &output : impl.edges.outputs)
      shapes.push_back(output.shape);
  for (const runtime::LengthAxes &axes : impl.programs[*chosen].edges.results)
    shapes.push_back(runtime::shapeAt(axes, lengths));
  return shapes;
}

std::optional<std::size_t> Executable::Impl::parameterIndex(std::string_view name) const {
  for (std::size_t i = 0; i < edges.parameters.size(); ++i)
    if (edges.parameters[i].name == name)
      return i;
  return std::nullopt;
}

namespace {

/// Whether what `shared` holds is also what would be prepared of these parameters.
Result<void> checkShared(const Executable::Impl &impl, const std::map<std::string, void *> &parameters,
                         const Weights::Impl &shared) {
  if (impl.pack || shared.executable->pack)
    return usage("a program of a pack shares no weights; prepare() it without those of another");
  if (shared.executable->ordinal != impl.ordinal)
    return usage("the weights to share are on another device; compile both programs for the same one");
  for (const auto &[name, pointer] : parameters)
    if (auto other = shared.parameters.find(name); other != shared.parameters.end() && other->second != pointer)
      return usage("parameter '" + name + "' is not where the weights to share have it; give both programs the same");
  return {};
}

} // namespace

Result<Weights> Executable::Impl::prepare(const Executable &self, std::span<void *const> parameters,
                                          const Weights *shared) {
  const std::shared_ptr<const Impl> &impl = self.impl;
  if (!impl || (shared && !*shared))
    return usage(movedFrom(impl ? "Weights" : "Executable"));
  if (Result<void> valid = checkList("parameters", parameters, impl->edges.parameters.size()); !valid)
    return valid.error();
  auto weights = std::make_shared<Weights::Impl>();
  weights->executable = impl;
  Result<std::vector<Buffer>> fromPack = impl->pack ? weightsFromPack(self, parameters) : std::vector<Buffer>();
  if (!fromPack)
    return fromPack.error();
  std::vector<void *> given(parameters.begin(), parameters.end());
  for (std::size_t i = 0; i < fromPack->size(); ++i)
    if (!given[i])
      given[i] = (*fromPack)[i].data();
  parameters = given;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    weights->parameters[impl->edges.parameters[i].name] = parameters[i];
  if (Result<void> valid = shared ? checkShared(*impl, weights->parameters, shared->internals()) : Result<void>();
      !valid)
    return valid.error();
  PreparedValues values(self, parameters, shared ? shared->internals().prepared : std::map<std::string, Buffer>());
  for (const LengthProgram &program : impl->programs) {
    if (Result<void> prepared = values.prepare(program.compiled); !prepared)
      return prepared.error();
    Result<std::vector<void *>> fixed = fixedArguments(*impl, program.compiled, parameters, values);
    if (!fixed)
      return fixed.error();
    weights->fixed.push_back(std::move(*fixed));
  }
  weights->prepared = values.take();
  for (const Buffer &buffer : *fromPack)
    weights->prepared.try_emplace("pack " + std::to_string(weights->prepared.size()), buffer);
  return Weights(std::move(weights));
}

std::vector<const runtime::Program *> Executable::Impl::mains() const {
  std::vector<const runtime::Program *> all;
  for (const LengthProgram &program : programs)
    all.push_back(&program.compiled.main);
  return all;
}

std::size_t Executable::sessionBytes() const {
  return impl ? runtime::BucketContexts::bytes(impl->mains(), impl->dims.size()) : 0;
}

Result<Session> Executable::Impl::newSession(const Executable &self, const Weights &weights,
                                             std::span<std::byte> memory) {
  const std::shared_ptr<const Impl> &impl = self.impl;
  if (!impl || !weights)
    return usage(movedFrom(impl ? "Weights" : "Executable"));
  if (weights.internals().executable != impl)
    return usage("these weights were prepared for another program; call prepare() of this one");
  Result<runtime::BucketContexts> contexts =
      runtime::BucketContexts::make(*impl->device, impl->mains(), impl->dims.size(), memory);
  if (!contexts)
    return contexts.error();
  std::unique_ptr<Session::Impl> session(new Session::Impl{impl, weights, std::move(*contexts), {}, {}, {}, {}, {}});
  session->boundInputs.resize(impl->edges.inputs.size() + impl->edges.states.size());
  session->boundOutputs.resize(impl->edges.outputs.size());
  return Session(std::move(session));
}

Result<Weights> Executable::prepare(std::span<void *const> parameters) const {
  return withoutThrowing([&] { return Impl::prepare(*this, parameters, nullptr); });
}

Result<Weights> Executable::prepare(std::span<void *const> parameters, const Weights &shared) const {
  return withoutThrowing([&] { return Impl::prepare(*this, parameters, &shared); });
}

Result<Session> Executable::newSession(const Weights &weights) const {
  return withoutThrowing([&] { return Impl::newSession(*this, weights, {}); });
}

Result<Session> Executable::newSession(const Weights &weights, std::span<std::byte> memory) const {
  if (!memory.data())
    return usage("a null pointer was given for the session's memory");
  return withoutThrowing([&] { return Impl::newSession(*this, weights, memory); });
}

//===- Session -------------------------------------------------------------------------------===//

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Session::Session(Session &&) noexcept = default;
Session &Session::operator=(Session &&) noexcept = default;
Session::~Session() = default;

Result<void> Session::Impl::check(std::span<void *const> inputs, std::span<void *const> outputs) const {
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
  return {};
}

Result<void> Session::Impl::run(Stream stream, std::span<void *const> inputs, std::span<void *const> outputs,
                                std::span<const std::int64_t> given) {
  if (Result<void> valid = check(inputs, outputs); !valid)
    return valid;
  Result<std::size_t> chosen = executable->programFor(given);
  if (!chosen)
    return chosen.error();
  const LengthProgram &program = executable->programs[*chosen];
  const runtime::Program &main = program.compiled.main;
  if (isRunning.test_and_set(std::memory_order_acquire))
    return usage("this Session is in run() on another thread; make one per thread");
  auto ending = llvm::make_scope_exit([this] { isRunning.clear(std::memory_order_release); });
  arguments = weights.internals().fixed[*chosen];
  results.assign(outputs.begin(), outputs.end());
  const std::size_t inputCount = executable->edges.inputs.size();
  runtime::placeArguments(main, program.edges, inputs.first(inputCount), inputs.subspan(inputCount), outputs,
                          contexts.lengths(), arguments);
  if (program.edges.readsLengths)
    if (Result<void> written = runtime::writeLengths(*executable->device, stream, given, contexts.lengths()); !written)
      return written;
  return contexts[*chosen].run(stream, arguments, results);
}

Result<void> Session::run(Stream stream, std::span<void *const> inputs, std::span<void *const> outputs,
                          std::span<const std::int64_t> lengths) {
  if (!impl)
    return usage(movedFrom("Session"));
  return withoutThrowing([&] { return impl->run(stream, inputs, outputs, lengths); });
}

} // namespace kfuse
