#include "Bindings.h"
#include "Lengths.h"

#include <array>
#include <memory>
#include <optional>

namespace kfuse::python {
namespace {

using Optional = std::optional<Tensor>;

/// The builder; each mistake is an error at once, with the line of Python that made it.
class Builder {
public:
  template <class Make> Tensor made(const Make &make) {
    Tensor tensor = make(builder);
    if (!tensor)
      fail();
    return tensor;
  }
  void output(const std::string &name, const Tensor &value) {
    builder.output(name, value);
    if (Result<Graph> graph = builder.build(); !graph)
      raise(graph.error());
  }
  Graph graph() const { return valueOf(builder.build()); }

private:
  [[noreturn]] void fail() {
    Result<Graph> graph = builder.build();
    raise(graph ? Error{ErrorCode::Usage, "the op failed"} : graph.error());
  }
  GraphBuilder builder;
};

/// A Python function that builds the graph for some lengths; it is called on whatever thread the library works. The
/// Model's Python object holds the function, where the garbage collector sees it; a copy in C++ does not keep it alive.
class PyBuild {
public:
  explicit PyBuild(const nb::object &function)
      : weak(new nb::object(nb::steal(PyWeakref_NewRef(function.ptr(), nullptr))), &letGo) {
    if (!weak->is_valid())
      throw nb::python_error();
  }

  Result<Graph> operator()(std::span<const std::int64_t> lengths) const {
    nb::gil_scoped_acquire gil;
    try {
      const nb::object function = (*weak)();
      if (function.is_none())
        return Error{ErrorCode::Usage,
                     "the Model whose build function is called is gone; keep it until compile() returned"};
      nb::list sizes;
      for (std::int64_t length : lengths)
        sizes.append(length);
      const nb::object made = function(*nb::tuple(sizes));
      if (!nb::isinstance<Builder>(made))
        return Error{ErrorCode::Usage, "build returned " + typeName(made) + ", expected a GraphBuilder"};
      return nb::cast<const Builder &>(made).graph();
    } catch (const nb::python_error &error) {
      return Error{ErrorCode::BadModel, nb::cast<std::string>(nb::str(error.value()))};
    }
  }

private:
  static void letGo(nb::object *held) {
    if (!Py_IsInitialized()) // What is left then goes with the process.
      return;
    nb::gil_scoped_acquire gil;
    delete held;
  }
  std::shared_ptr<nb::object> weak;
};

nb::object modelOfGraphs(const nb::object &build, const nb::dict &ranges) {
  const PyBuild graphOf(build);
  const std::vector<Dim> dims = dimsOf(ranges);
  Result<Model> model = [&] {
    nb::gil_scoped_release released;
    return Model::fromGraphs(graphOf, dims);
  }();
  nb::object made = nb::cast(valueOf(std::move(model)));
  made.attr("_build") = build;
  return made;
}

Tensor orEmpty(const Optional &tensor) { return tensor.value_or(Tensor()); }

/// Numbers of the constant: integers stay whole.
Tensor constant(GraphBuilder &g, const nb::object &value, DType type, const Shape &shape) {
  if (!nb::isinstance<nb::sequence>(value)) {
    constexpr std::int64_t mostOfDouble = std::int64_t{1} << 53;
    if (type == DType::I64 && nb::isinstance<nb::int_>(value))
      if (const auto whole = nb::cast<std::int64_t>(value); whole > mostOfDouble || whole < -mostOfDouble)
        return g.broadcast(g.constant(std::array{whole}, type, Shape(shape.size(), 1)), shape);
    return g.constant(nb::cast<double>(nb::float_(value)), type, shape);
  }
  if (type == DType::I32 || type == DType::I64)
    return g.constant(nb::cast<std::vector<std::int64_t>>(value), type, shape);
  return g.constant(nb::cast<std::vector<double>>(value), type, shape);
}

void bindEdges(nb::class_<Builder> &builder) {
  auto edge = [&](const char *name, auto member, const char *what) {
    builder.def(
        name,
        [member](Builder &self, const std::string &name, const std::string &type, const Shape &shape) {
          return self.made([&](GraphBuilder &g) { return (g.*member)(name, typeNamed(type), shape); });
        },
        nb::arg("name"), nb::arg("type"), nb::arg("shape"), what);
  };
  edge("input", &GraphBuilder::input, "New data each run.");
  edge("parameter", &GraphBuilder::parameter, "Fixed between runs.");
  edge("state", &GraphBuilder::state, "Lives in the caller's memory and is updated in place.");
  builder.def("output", &Builder::output, nb::arg("name"), nb::arg("value"));
  builder.def(
      "constant",
      [](Builder &self, const nb::object &value, const std::string &type, const Shape &shape) {
        return self.made([&](GraphBuilder &g) { return constant(g, value, typeNamed(type), shape); });
      },
      nb::arg("value"), nb::arg("type"), nb::arg("shape") = Shape(),
      nb::sig("def constant(self, value: float | collections.abc.Sequence[float], type: str, shape: "
              "collections.abc.Sequence[int] = []) -> Tensor"),
      "A tensor of one value, or of values in row-major order.");
  builder.def(
      "iota",
      [](Builder &self, const std::string &type, const Shape &shape, int axis) {
        return self.made([&](GraphBuilder &g) { return g.iota(typeNamed(type), shape, axis); });
      },
      nb::arg("type"), nb::arg("shape"), nb::arg("axis"), "Each element is its own index along axis.");
}

void bindPointwise(nb::class_<Builder> &builder) {
  builder.def(
      "pointwise",
      [](Builder &self, const std::string &op, const nb::args &operands) {
        const auto tensors = nb::cast<std::vector<Tensor>>(operands);
        return self.made([&](GraphBuilder &g) { return g.pointwise(op, tensors); });
      },
      nb::arg("op"), nb::arg("operands"), nb::sig("def pointwise(self, op: str, *operands: Tensor) -> Tensor"),
      "Any elementwise op of the dialect by its name; operands broadcast as in NumPy.");
  for (const char *op : {"add", "sub", "mul", "div"})
    builder.def(
        op,
        [op](Builder &self, const Tensor &a, const Tensor &b) {
          return self.made([&](GraphBuilder &g) { return g.pointwise(op, {a, b}); });
        },
        nb::arg("a"), nb::arg("b"));
  for (const char *op : {"relu", "gelu", "silu", "tanh", "sigmoid"})
    builder.def(
        op,
        [op](Builder &self, const Tensor &x) {
          return self.made([&](GraphBuilder &g) { return g.pointwise(op, {x}); });
        },
        nb::arg("x"));
  builder.def(
      "where",
      [](Builder &self, const Tensor &condition, const Tensor &then, const Tensor &otherwise) {
        return self.made([&](GraphBuilder &g) { return g.where(condition, then, otherwise); });
      },
      nb::arg("condition"), nb::arg("then"), nb::arg("otherwise"));
  builder.def(
      "cast",
      [](Builder &self, const Tensor &x, const std::string &type) {
        return self.made([&](GraphBuilder &g) { return g.cast(x, typeNamed(type)); });
      },
      nb::arg("x"), nb::arg("type"));
}

void bindRows(nb::class_<Builder> &builder) {
  builder.def(
      "matmul",
      [](Builder &self, const Tensor &a, const Tensor &b, bool transposeA, bool transposeB, bool tf32) {
        const auto precision = tf32 ? GraphBuilder::Precision::TF32 : GraphBuilder::Precision::F32;
        return self.made([&](GraphBuilder &g) { return g.matmul(a, b, {transposeA, transposeB}, precision); });
      },
      nb::arg("a"), nb::arg("b"), nb::kw_only(), nb::arg("transpose_a") = false, nb::arg("transpose_b") = false,
      nb::arg("tf32") = false,
      "[batch..., M, K] times [batch..., K, N]; transposed ones are [..., K, M] and [..., N, K].");
  builder.def(
      "softmax",
      [](Builder &self, const Tensor &x) { return self.made([&](GraphBuilder &g) { return g.softmax(x); }); },
      nb::arg("x"), "Over the last dimension.");
  builder.def(
      "layer_norm",
      [](Builder &self, const Tensor &x, const Optional &weight, const Optional &bias, double epsilon) {
        return self.made([&](GraphBuilder &g) {
          return g.layerNorm(x, orEmpty(weight), orEmpty(bias), static_cast<float>(epsilon));
        });
      },
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("bias") = nb::none(), nb::arg("epsilon") = 1e-5);
  builder.def(
      "rms_norm",
      [](Builder &self, const Tensor &x, const Optional &weight, double epsilon) {
        return self.made([&](GraphBuilder &g) { return g.rmsNorm(x, orEmpty(weight), static_cast<float>(epsilon)); });
      },
      nb::arg("x"), nb::arg("weight") = nb::none(), nb::arg("epsilon") = 1e-6);
  builder.def(
      "dequantize",
      [](Builder &self, const Tensor &quantized, const Tensor &scales, const Shape &blocks, const Optional &zeros) {
        return self.made([&](GraphBuilder &g) { return g.dequantize(quantized, scales, orEmpty(zeros), blocks); });
      },
      nb::arg("quantized"), nb::arg("scales"), nb::arg("blocks"), nb::arg("zeros") = nb::none(),
      "(quantized - zeros) scales; `blocks` elements along each dimension share a scale.");
  builder.def(
      "rotary",
      [](Builder &self, const Tensor &x, const Tensor &cos, const Tensor &sin, bool interleaved) {
        return self.made([&](GraphBuilder &g) { return g.rotary(x, cos, sin, interleaved); });
      },
      nb::arg("x"), nb::arg("cos"), nb::arg("sin"), nb::arg("interleaved") = false,
      "Rotates pairs of x by angles whose cosines and sines are given, [..., D] or [..., D / 2].");
  builder.def(
      "reduce",
      [](Builder &self, const std::string &function, const Tensor &x, const std::vector<int> &axes) {
        return self.made([&](GraphBuilder &g) { return g.reduce(function, x, axes); });
      },
      nb::arg("function"), nb::arg("x"), nb::arg("axes"), "'sum', 'max', 'min' or 'mean' over axes, which it drops.");
  builder.def(
      "same_sequence",
      [](Builder &self, const Tensor &rowStarts, const Tensor &keyStarts, std::int64_t rows, std::int64_t keys,
         bool causal) {
        return self.made([&](GraphBuilder &g) { return g.sameSequence(rowStarts, keyStarts, rows, keys, causal); });
      },
      nb::arg("row_starts"), nb::arg("key_starts"), nb::arg("rows"), nb::arg("keys"), nb::arg("causal") = false,
      "Which rows and keys belong to one of several sequences that are packed behind each other (cu_seqlens).");
}

void bindLayout(nb::class_<Builder> &builder) {
  builder.def(
      "reshape",
      [](Builder &self, const Tensor &x, const Shape &shape) {
        return self.made([&](GraphBuilder &g) { return g.reshape(x, shape); });
      },
      nb::arg("x"), nb::arg("shape"), "One size may be -1: what is left.");
  builder.def(
      "transpose",
      [](Builder &self, const Tensor &x, const std::vector<int> &permutation) {
        return self.made([&](GraphBuilder &g) { return g.transpose(x, permutation); });
      },
      nb::arg("x"), nb::arg("permutation"));
  builder.def(
      "broadcast",
      [](Builder &self, const Tensor &x, const Shape &shape) {
        return self.made([&](GraphBuilder &g) { return g.broadcast(x, shape); });
      },
      nb::arg("x"), nb::arg("shape"));
  builder.def(
      "slice",
      [](Builder &self, const Tensor &x, const Shape &offsets, const Shape &sizes, const Shape &strides) {
        return self.made([&](GraphBuilder &g) { return g.slice(x, offsets, sizes, strides); });
      },
      nb::arg("x"), nb::arg("offsets"), nb::arg("sizes"), nb::arg("strides") = Shape());
  builder.def(
      "concat",
      [](Builder &self, const std::vector<Tensor> &pieces, int axis) {
        return self.made([&](GraphBuilder &g) { return g.concat(pieces, axis); });
      },
      nb::arg("pieces"), nb::arg("axis"));
  builder.def(
      "gather",
      [](Builder &self, const Tensor &data, const Tensor &indices, int axis) {
        return self.made([&](GraphBuilder &g) { return g.gather(data, indices, axis); });
      },
      nb::arg("data"), nb::arg("indices"), nb::arg("axis") = 0);
  builder.def(
      "update_state",
      [](Builder &self, const Tensor &state, const Tensor &value, const Tensor &position, int axis) {
        return self.made([&](GraphBuilder &g) { return g.updateState(state, value, position, axis); });
      },
      nb::arg("state"), nb::arg("value"), nb::arg("position"), nb::arg("axis"),
      "Writes value at position along axis of a state, in place; the updated state is an output.");
}

} // namespace

void bindGraph(nb::module_ &module) {
  nb::class_<Tensor>(module, "Tensor", "A value in the graph of the builder that gave it.")
      .def_prop_ro("type", [](const Tensor &tensor) { return std::string(toString(tensor.type())); })
      .def_prop_ro(
          "shape", [](const Tensor &tensor) { return nb::tuple(nb::cast(tensor.shape())); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def("__repr__", [](const Tensor &tensor) {
        return "<kfuse.Tensor " + std::string(toString(tensor.type())) + " " + toString(tensor.shape()) + ">";
      });
  nb::class_<Builder> builder(module, "GraphBuilder", "Builds a model op by op; a mistake is an error at once.");
  builder.def(nb::init<>());
  bindEdges(builder);
  bindPointwise(builder);
  bindRows(builder);
  bindLayout(builder);
  builder.def(
      "text", [](const Builder &self) { return self.graph().text(); }, "The dialect's text, which load() reads.");
  nb::borrow<nb::class_<Model>>(nb::type<Model>())
      .def_static(
          "from_graphs", &modelOfGraphs, nb::arg("build"), nb::arg("dims"),
          nb::sig("def from_graphs(build: collections.abc.Callable[..., GraphBuilder], dims: dict[str, tuple[int, "
                  "int]]) -> Model"),
          "A model of sizes that each run gives, {'tokens': (1, 8192)}: build(tokens) makes its graph for any of\n"
          "them, now and in compile(), on any thread.");
  builder.def("build", [](const Builder &self) { return valueOf(Model::fromGraph(self.graph())); }, "The model.");
}

} // namespace kfuse::python
