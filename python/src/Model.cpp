#include "Bindings.h"
#include "Lengths.h"

namespace kfuse::python {
namespace {

nb::tuple tupleOf(const Shape &shape) {
  nb::list sizes;
  for (std::int64_t size : shape)
    sizes.append(size);
  return nb::tuple(sizes);
}

std::string reprOf(const TensorDesc &desc) {
  return "TensorDesc(name=" + nb::cast<std::string>(nb::repr(nb::str(desc.name.c_str()))) + ", type='" +
         std::string(toString(desc.type)) + "', shape=" + nb::cast<std::string>(nb::repr(tupleOf(desc.shape))) + ")";
}

std::string pathOf(const nb::object &path) {
  return nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
}

Model load(const nb::object &path, const std::vector<std::string> &params, const std::map<std::string, Shape> &shapes,
           const std::vector<std::string> &states, bool tf32, const nb::dict &dims,
           const std::map<std::string, std::vector<std::string>> &axes, const nb::object &checkpoint,
           const std::string &checkpointPrefix) {
  const std::string name = pathOf(path), folder = checkpoint.is_none() ? "" : pathOf(checkpoint);
  const LoadOptions options{shapes, params, states, tf32, dimsOf(dims), axes, folder, checkpointPrefix};
  nb::gil_scoped_release released;
  Result<Model> model = Model::load(name, options);
  nb::gil_scoped_acquire again;
  return valueOf(std::move(model));
}

/// The bytes of a parameter that came with the model; None where the caller gives it.
nb::object parameterData(const Model &model, const std::string &name) {
  std::span<const std::byte> bytes = model.parameterData(name);
  return bytes.empty() ? nb::object(nb::none()) : nb::object(nb::bytes(bytes.data(), bytes.size()));
}

} // namespace

DType typeNamed(const std::string &name) {
  if (std::optional<DType> type = parseDType(name))
    return *type;
  raiseUsage("the type '" + name + "' is none of f32, f16, bf16, i32, i64, bool, f8E4M3FN, f8E5M2, i8, u8, i4, u4");
}

void bindModel(nb::module_ &module) {
  nb::class_<TensorDesc>(module, "TensorDesc", "Name, element type and shape of a tensor at the edge of a model.")
      .def_ro("name", &TensorDesc::name)
      .def_prop_ro("type", [](const TensorDesc &desc) { return std::string(toString(desc.type)); })
      .def_prop_ro(
          "shape", [](const TensorDesc &desc) { return tupleOf(desc.shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dims",
          [](const TensorDesc &desc) {
            nb::list names;
            for (const Dim &dim : desc.dims)
              names.append(dim.name);
            return nb::tuple(names);
          },
          nb::sig("def dims(self) -> tuple[str, ...]"),
          "The size that each dimension follows, '' where it is fixed; empty where all are. shape has the largest.")
      .def_prop_ro("bytes", [](const TensorDesc &desc) { return desc.bytes(); })
      .def(
          "__eq__", [](const TensorDesc &a, const TensorDesc &b) { return a == b; }, nb::is_operator())
      .def("__repr__", &reprOf);

  nb::class_<Model>(module, "Model", nb::dynamic_attr(),
                    "A model's graph, and the weights that came with it. Immutable.")
      .def_prop_ro("inputs", &Model::inputs, "New data each run, in order.")
      .def_prop_ro("parameters", &Model::parameters, "Fixed between runs, in order.")
      .def_prop_ro("states", &Model::states, "Updated in place by a run, in order.")
      .def_prop_ro("outputs", &Model::outputs)
      .def_prop_ro(
          "dims", [](const Model &model) { return rangesOf(model.dims()); },
          nb::sig("def dims(self) -> dict[str, tuple[int, int]]"), "Sizes that each run gives, with their ranges.")
      .def("parameter_data", &parameterData, nb::arg("name"),
           nb::sig("def parameter_data(self, name: str) -> bytes | None"),
           "The bytes of a parameter that is stored in the model's file, row-major; None when the caller gives them.")
      .def("__repr__", [](const Model &model) {
        return "<kfuse.Model: " + std::to_string(model.inputs().size()) + " inputs, " +
               std::to_string(model.parameters().size()) + " parameters, " + std::to_string(model.states().size()) +
               " states, " + std::to_string(model.outputs().size()) + " outputs>";
      });

  module.def(
      "load", &load, nb::arg("path"), nb::kw_only(), nb::arg("params") = std::vector<std::string>(),
      nb::arg("shapes") = std::map<std::string, Shape>(), nb::arg("states") = std::vector<std::string>(),
      nb::arg("tf32") = false, nb::arg("dims") = nb::dict(),
      nb::arg("axes") = std::map<std::string, std::vector<std::string>>(), nb::arg("checkpoint") = nb::none(),
      nb::arg("checkpoint_prefix") = "",
      nb::sig("def load(path: str | os.PathLike[str], *, params: collections.abc.Sequence[str] = [], "
              "shapes: collections.abc.Mapping[str, collections.abc.Sequence[int]] = {}, "
              "states: collections.abc.Sequence[str] = [], tf32: bool = False, dims: dict[str, tuple[int, int]] = {}, "
              "axes: collections.abc.Mapping[str, collections.abc.Sequence[str]] = {}, "
              "checkpoint: str | os.PathLike[str] | None = None, checkpoint_prefix: str = '') -> Model"),
      "Reads an ONNX file or the dialect's text.\n\n"
      "params are globs naming inputs that are fixed between runs, shapes gives those of inputs that are dynamic\n"
      "in the file, states names inputs that become an output's memory ('past*=present*'), tf32 allows products\n"
      "of f32 to cut their operands for tensor cores. dims are sizes that each run gives, by the file's names of\n"
      "dimensions, {'tokens': (1, 8192)}; axes names those that have none in the file, {'x': ['1', 'tokens', "
      "'64']}.\n\n"
      "checkpoint is a folder as transformers saves a model, config.json and safetensors: weights of the parameters,\n"
      "and of inputs, that have the names of its tensors behind checkpoint_prefix ('model.layers.0.'). Those that it\n"
      "holds quantised (GPTQ, AWQ, compressed-tensors, HQQ) stay so, and the graph dequantises them.");
}

} // namespace kfuse::python
