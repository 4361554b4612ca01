#include "Bindings.h"

#include <algorithm>
#include <cstring>

namespace kfuse::python {
namespace {

constexpr std::uintptr_t alignment = 16;
bool isAligned(const void *data) { return reinterpret_cast<std::uintptr_t>(data) % alignment == 0; }

/// Host data in memory of the program's device.
void *upload(const Executable &program, const void *host, std::size_t bytes, std::vector<Buffer> &uploaded) {
  Buffer &buffer = uploaded.emplace_back(valueOf(program.allocate(bytes)));
  valueOf(buffer.upload(host));
  return buffer.data();
}

/// What came with the model: in place where the program can read it there. Null for a pack's, which it finds itself.
void *dataOfModel(const Program &program, const TensorDesc &desc, std::vector<Buffer> &uploaded) {
  if (!program.model)
    return nullptr;
  std::span<const std::byte> bytes = program.model->parameterData(desc.name);
  if (bytes.empty())
    raiseUsage("parameter '" + desc.name + "' is not given, and did not come with the model; give it to prepare()");
  if (!program.place().isGpu() && isAligned(bytes.data()))
    return const_cast<std::byte *>(bytes.data());
  return upload(program.executable, bytes.data(), bytes.size(), uploaded);
}

void *dataOfCaller(const Program &program, const TensorDesc &desc, nb::handle tensor, bool copy,
                   PreparedWeights &prepared) {
  const View view = TensorReader(program.place(), 0).read(tensor, desc, Use::Parameter, copy);
  prepared.views.push_back(view.holder);
  if (view.place.device == program.place().device && isAligned(view.data))
    return view.data;
  if (view.place.isGpu())
    raiseUsage("parameter '" + desc.name + "' is on " + view.place.str() + ", expected " + program.place().str() +
               "; only host memory is copied");
  return upload(program.executable, view.data, desc.bytes(), prepared.uploaded);
}

/// What the producers of the tensors have enqueued is done before the preparation, which has a stream of its own.
void waitForProducers(const Program &program, const std::vector<nb::object> &tensors) {
  std::vector<std::intptr_t> waited;
  for (const nb::object &tensor : tensors) {
    const Adapter *adapter = program.place().isGpu() ? adapterOf(tensor) : nullptr;
    if (!adapter)
      continue;
    const std::intptr_t stream = currentStream(*adapter, program.place());
    if (std::ranges::find(waited, stream) != waited.end())
      continue;
    waitFor(program.executable, stream);
    waited.push_back(stream);
  }
}

void refuseUnknown(const nb::dict &given, const std::vector<TensorDesc> &known) {
  for (auto [name, tensor] : given) {
    const auto text = nb::cast<std::string>(nb::str(name));
    if (std::ranges::none_of(known, [&](const TensorDesc &desc) { return desc.name == text; }))
      raiseUsage("'" + text + "' is no parameter of the program; program.parameters lists them");
  }
}

} // namespace

PreparedWeights prepare(const Program &program, const nb::object &params, bool copy) {
  const std::vector<TensorDesc> &parameters = program.executable.parameters();
  const nb::dict given = params.is_none() ? nb::dict() : dictOf(params, "params");
  refuseUnknown(given, parameters);
  PreparedWeights prepared{Weights(nullptr), {}, {}, {}};
  std::vector<void *> pointers;
  for (const TensorDesc &desc : parameters) {
    const nb::object tensor = given.get(desc.name.c_str(), nb::none());
    pointers.push_back(tensor.is_none() ? dataOfModel(program, desc, prepared.uploaded)
                                        : dataOfCaller(program, desc, tensor, copy, prepared));
    prepared.tensors.push_back(tensor);
  }
  waitForProducers(program, prepared.tensors);
  nb::gil_scoped_release released;
  Result<Weights> weights = program.executable.prepare(pointers);
  nb::gil_scoped_acquire again;
  const bool leftToPack = std::ranges::find(pointers, nullptr) != pointers.end();
  if (!weights && weights.error().code == ErrorCode::Usage && leftToPack)
    raiseUsage(weights.error().message + "; the pack does not hold it, give it to prepare()");
  prepared.weights = valueOf(std::move(weights));
  return prepared;
}

void waitFor(const Executable &program, std::intptr_t stream) {
  Result<void> done;
  {
    nb::gil_scoped_release released;
    done = program.synchronize(asStream(stream));
  }
  valueOf(std::move(done));
}

void bindWeights(nb::module_ &module) {
  nb::class_<PreparedWeights>(module, "Weights",
                              "Parameters folded, merged and packed for one program. Holds the tensors that they were "
                              "given as: what needs no preparation is used in place.")
      .def_prop_ro("tensors", [](const PreparedWeights &weights) {
        nb::list tensors;
        for (const nb::object &tensor : weights.tensors)
          tensors.append(tensor);
        return tensors;
      });
}

} // namespace kfuse::python
