#include "Lengths.h"

#include <algorithm>

namespace kfuse::python {

std::vector<Dim> dimsOf(const nb::dict &ranges) {
  std::vector<Dim> dims;
  for (auto [name, range] : ranges) {
    std::pair<std::int64_t, std::int64_t> bounds;
    const auto text = nb::cast<std::string>(nb::str(name));
    if (!nb::try_cast(range, bounds))
      raiseUsage("the range of '" + text + "' is given as " + nb::cast<std::string>(nb::repr(range)) +
                 ", expected the lowest and the highest size, (1, 8192)");
    dims.push_back({text, bounds.first, bounds.second});
  }
  return dims;
}

nb::dict rangesOf(const std::vector<Dim> &dims) {
  nb::dict ranges;
  for (const Dim &dim : dims)
    ranges[dim.name.c_str()] = nb::make_tuple(dim.low, dim.high);
  return ranges;
}

RunEdges::RunEdges(const Executable &executable)
    : executable(executable), axes(executable.dims().size()), inputDescs(executable.inputs()),
      outputDescs(executable.outputs()) {
  const std::vector<Dim> &dims = executable.dims();
  for (std::size_t input = 0; input < inputDescs.size(); ++input)
    for (std::size_t axis = 0; axis < inputDescs[input].dims.size(); ++axis) {
      const std::string &name = inputDescs[input].dims[axis].name;
      if (name.empty())
        continue;
      const auto named = std::ranges::find(dims, name, &Dim::name);
      if (named == dims.end())
        raiseUsage("input '" + inputDescs[input].name + "' has a dimension of '" + name +
                   "', expected dimensions that are one length alone; reshape the input in the model");
      axes[static_cast<std::size_t>(named - dims.begin())].push_back({input, axis});
    }
  for (std::size_t dim = 0; dim < dims.size(); ++dim)
    if (axes[dim].empty())
      raiseUsage("no input has a dimension that is '" + dims[dim].name + "' alone, from which its size could be read");
  countBytes();
}

void RunEdges::follow(const std::vector<nb::object> &given, const TensorReader &reader) {
  if (axes.empty())
    return;
  found.clear();
  for (const std::vector<Axis> &places : axes)
    found.push_back(
        reader.size(given[places.front().input], executable.inputs()[places.front().input], places.front().axis));
  if (found == sizes)
    return;
  std::vector<Shape> shapes = valueOf(executable.outputShapes(found));
  for (std::size_t i = 0; i < shapes.size(); ++i)
    outputDescs[i].shape = std::move(shapes[i]);
  for (std::size_t dim = 0; dim < axes.size(); ++dim)
    for (const Axis &place : axes[dim])
      inputDescs[place.input].shape[place.axis] = found[dim];
  sizes = found;
  countBytes();
}

void RunEdges::countBytes() {
  bytesOfInputs.clear();
  bytesOfOutputs.clear();
  for (const TensorDesc &desc : inputDescs)
    bytesOfInputs.push_back(desc.bytes());
  for (const TensorDesc &desc : executable.states())
    bytesOfInputs.push_back(desc.bytes());
  for (const TensorDesc &desc : outputDescs)
    bytesOfOutputs.push_back(desc.bytes());
}

} // namespace kfuse::python
