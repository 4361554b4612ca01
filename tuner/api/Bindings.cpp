// Tensors that are bound by their names.
#include "kfuse/compiler.h"

#include "tuner/api/Handles.h"
#include "tuner/api/NoThrow.h"

#include <algorithm>
#include <optional>

namespace kfuse {
namespace {

Error usage(std::string message) { return {ErrorCode::Usage, std::move(message)}; }

std::optional<std::size_t> indexOf(const std::vector<TensorDesc> &tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &TensorDesc::name);
  return found == tensors.end() ? std::nullopt : std::optional(std::size_t(found - tensors.begin()));
}

Error noneOf(std::string_view name, std::initializer_list<const std::vector<TensorDesc> *> lists) {
  std::string names;
  for (const std::vector<TensorDesc> *tensors : lists)
    for (const TensorDesc &tensor : *tensors)
      names += (names.empty() ? "" : ", ") + tensor.name;
  return usage("there is no '" + std::string(name) + "'; there are: " + names);
}

Error wrongSize(const TensorDesc &desc, std::size_t bytes, const Shape &shape, const char *what) {
  return usage("'" + desc.name + "' is given " + std::to_string(bytes) + " bytes, " + what + " " +
               std::to_string(byteSize(desc.type, shape)) + " of " + std::string(toString(desc.type)) + " " +
               toString(shape));
}

} // namespace

Result<Weights> Executable::Impl::prepareNamed(const Executable &self, std::span<const Binding> parameters) {
  if (!self.impl)
    return usage(movedFrom("Executable"));
  const std::vector<TensorDesc> &described = self.impl->edges.parameters;
  std::vector<void *> pointers(described.size());
  for (const Binding &binding : parameters) {
    const std::optional<std::size_t> index = indexOf(described, binding.name);
    if (!index)
      return noneOf(binding.name, {&described});
    if (const TensorDesc &desc = described[*index]; binding.bytes != desc.bytes())
      return wrongSize(desc, binding.bytes, desc.shape, "expected");
    pointers[*index] = binding.data;
  }
  return prepare(self, pointers, nullptr);
}

Result<Weights> Executable::prepareNamed(std::span<const Binding> parameters) const {
  return withoutThrowing([&] { return Impl::prepareNamed(*this, parameters); });
}

Result<void> Session::Impl::bind(const Binding &tensor, std::size_t index, const TensorDesc &desc,
                                 std::vector<Binding> &bound) {
  const bool isState = &bound == &boundInputs && index >= executable->edges.inputs.size();
  if ((desc.dims.empty() || isState) && tensor.bytes != desc.bytes()) // The run knows the bytes of others.
    return wrongSize(desc, tensor.bytes, desc.shape, "expected");
  bound[index] = {{}, tensor.data, tensor.bytes};
  return {};
}

Result<void> Session::Impl::bindInput(const Binding &tensor) {
  const Edges &edges = executable->edges;
  if (const std::optional<std::size_t> index = indexOf(edges.inputs, tensor.name))
    return bind(tensor, *index, edges.inputs[*index], boundInputs);
  if (const std::optional<std::size_t> index = indexOf(edges.states, tensor.name))
    return bind(tensor, edges.inputs.size() + *index, edges.states[*index], boundInputs);
  return noneOf(tensor.name, {&edges.inputs, &edges.states});
}

Result<void> Session::Impl::bindOutput(const Binding &tensor) {
  const std::vector<TensorDesc> &outputs = executable->edges.outputs;
  const std::optional<std::size_t> index = indexOf(outputs, tensor.name);
  return index ? bind(tensor, *index, outputs[*index], boundOutputs) : noneOf(tensor.name, {&outputs});
}

/// What follows the lengths of this run has memory for them.
Result<void> Session::Impl::checkSizes(std::span<const std::int64_t> given) const {
  Result<std::size_t> bucket = executable->programFor(given);
  if (!bucket)
    return bucket.error();
  const runtime::LengthEdges &edges = executable->programs[*bucket].edges;
  auto check = [&](const std::vector<TensorDesc> &descs, const std::vector<runtime::LengthAxes> &axes,
                   const std::vector<Binding> &bound) -> Result<void> {
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (const Shape shape = runtime::shapeAt(axes[i], given);
          bound[i].data && bound[i].bytes < byteSize(descs[i].type, shape))
        return wrongSize(descs[i], bound[i].bytes, shape, "this run needs");
    return {};
  };
  Result<void> fits = check(executable->edges.inputs, edges.inputs, boundInputs);
  return fits ? check(executable->edges.outputs, edges.results, boundOutputs) : fits;
}

Result<void> Session::Impl::runBound(Stream stream, std::span<const std::int64_t> given) {
  if (Result<void> fits = checkSizes(given); !fits)
    return fits;
  auto pointersOf = [](const std::vector<Binding> &bound) {
    std::vector<void *> pointers;
    std::ranges::transform(bound, std::back_inserter(pointers), &Binding::data);
    return pointers;
  };
  return run(stream, pointersOf(boundInputs), pointersOf(boundOutputs), given);
}

Result<void> Session::bindInput(const Binding &tensor) {
  return impl ? withoutThrowing([&] { return impl->bindInput(tensor); }) : usage(movedFrom("Session"));
}

Result<void> Session::bindOutput(const Binding &tensor) {
  return impl ? withoutThrowing([&] { return impl->bindOutput(tensor); }) : usage(movedFrom("Session"));
}

Result<void> Session::run(Stream stream, std::span<const std::int64_t> lengths) {
  return impl ? withoutThrowing([&] { return impl->runBound(stream, lengths); }) : usage(movedFrom("Session"));
}

} // namespace kfuse
