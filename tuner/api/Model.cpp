#include "kfuse/compiler.h"

#include "ir/dialect/Kfuse.h"
#include "ir/import/Text.h"
#include "ir/import/checkpoint/Weights.h"
#include "passes/Lengths.h"
#include "tuner/api/CheckpointFiles.h"
#include "tuner/api/Handles.h"
#include "tuner/api/NoThrow.h"
#include "tuner/model/ProgramBuilder.h"

#include <algorithm>
#include <mutex>
#include <set>

using namespace mlir;

namespace kfuse {

std::shared_ptr<MLIRContext> newContext() {
  auto context = std::make_shared<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<ir::KfuseDialect, func::FuncDialect>();
  return context;
}

namespace {

Edges edgesOf(func::FuncOp main) {
  Edges edges;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    Role role = tuner::roleOf(main, i);
    std::vector<TensorDesc> &list = role == Role::Input   ? edges.inputs
                                    : role == Role::State ? edges.states
                                                          : edges.parameters;
    list.push_back(tuner::describeArgument(main, i));
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    edges.outputs.push_back(tuner::describeResult(main, i));
  return edges;
}

std::shared_ptr<Model::Impl> implOf(std::shared_ptr<MLIRContext> context, ir::Model model) {
  auto impl = std::make_shared<Model::Impl>();
  impl->edges = edgesOf(model.module->lookupSymbol<func::FuncOp>("main"));
  impl->context = std::move(context);
  impl->model = std::move(model);
  return impl;
}

} // namespace

Model wrap(std::shared_ptr<MLIRContext> context, ir::Model model) {
  return Model(implOf(std::move(context), std::move(model)));
}

namespace {

Error usage(std::string message) { return {ErrorCode::Usage, std::move(message)}; }

Result<void> check(const std::string &path, const LoadOptions &options) {
  if (path.find('\0') != std::string::npos)
    return usage("the model's path has a NUL in it, after '" + std::string(path.c_str()) +
                 "'; give the path of a file");
  for (const auto &[name, shape] : options.shapes) {
    if (name.empty())
      return usage("a shape of " + toString(shape) + " is given for an input without a name; name the input");
    for (std::int64_t size : shape)
      if (size < 0)
        return usage("the shape of '" + name + "' is given as " + toString(shape) + "; sizes are not negative");
  }
  return {};
}

/// The file with these sizes of the options' dims.
Result<ir::Model> importAt(const std::string &path, const LoadOptions &options,
                           const std::shared_ptr<const ir::Checkpoint> &checkpoint,
                           std::span<const std::int64_t> lengths, MLIRContext &context) {
  ir::ImportOptions import{options.shapes, options.parameters,      options.states, {},
                           checkpoint,     options.checkpointPrefix};
  for (std::size_t i = 0; i < options.dims.size(); ++i)
    import.sizes[options.dims[i].name] = lengths[i];
  for (const auto &[input, axes] : options.axes) {
    Shape &shape = import.shapes[input];
    for (const std::string &axis : axes) {
      auto named = std::ranges::find(options.dims, axis, &Dim::name);
      if (named == options.dims.end()) {
        shape.push_back(std::stoll(axis));
        continue;
      }
      shape.push_back(lengths[static_cast<std::size_t>(named - options.dims.begin())]);
      import.sizes.erase(axis);
    }
  }
  Result<ir::Model> model = ir::loadModel(path, import, context);
  if (model && options.tf32)
    model->module->walk([](ir::MatmulOp product) {
      product.setTf32(mlir::cast<RankedTensorType>(product.getLhs().getType()).getElementType().isF32());
    });
  return model;
}

using ImportAt = decltype(Model::Impl::importAt);

/// How a size follows the lengths, in words and numbers: from what it is for other sizes of each, one at a time.
class SizeNames {
public:
  struct Other {
    std::size_t dim;
    std::int64_t length;
    Edges edges;
  };
  SizeNames(const std::vector<Dim> &dims, std::vector<Other> others) : dims(dims), others(std::move(others)) {}

  void describe(Edges &edges) {
    for (auto list : {&Edges::inputs, &Edges::outputs})
      for (std::size_t i = 0; i < (edges.*list).size(); ++i)
        describe((edges.*list)[i], [&](const Edges &other) -> const Shape & { return (other.*list)[i].shape; });
  }
  /// Whether a size of an input follows it.
  bool isUsed(std::size_t dim) const { return used.contains(dim); }

private:
  template <class ShapeIn> void describe(TensorDesc &desc, const ShapeIn &shapeIn) {
    std::vector<Dim> described;
    for (std::size_t axis = 0; axis < desc.shape.size(); ++axis) {
      const std::int64_t size = desc.shape[axis];
      Dim dim{"", size, size};
      std::int64_t factor = size, low = 1;
      std::string names, sum;
      for (const Other &other : others) {
        const std::int64_t there = shapeIn(other.edges)[axis], high = dims[other.dim].high;
        if (there == size)
          continue;
        used.insert(other.dim);
        const std::int64_t times = (size - there) / (high - other.length), plus = size - times * high;
        names += (names.empty() ? "" : " * ") + dims[other.dim].name;
        factor /= high;
        low *= dims[other.dim].low;
        if (plus != 0)
          sum = (times == 1 ? "" : std::to_string(times) + " * ") + dims[other.dim].name + " + " + std::to_string(plus);
        dim.low = times * dims[other.dim].low + plus;
      }
      if (!names.empty() && sum.empty())
        dim = {(factor == 1 ? "" : std::to_string(factor) + " * ") + names, factor * low, size};
      else
        dim.name = sum;
      described.push_back(std::move(dim));
    }
    if (std::ranges::any_of(described, [](const Dim &dim) { return !dim.name.empty(); }))
      desc.dims = std::move(described);
  }

  const std::vector<Dim> &dims;
  std::vector<Other> others;
  std::set<std::size_t> used;
};

Result<Model> withDims(const std::vector<Dim> &dims, const ImportAt &importAt) {
  std::vector<std::int64_t> lengths;
  for (const Dim &dim : dims)
    lengths.push_back(dim.high);
  std::shared_ptr<MLIRContext> context = newContext();
  Result<ir::Model> model = importAt(lengths, *context);
  if (!model)
    return model.error();
  std::vector<SizeNames::Other> others;
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    std::vector<std::int64_t> sizes = lengths;
    sizes[dim] = passes::probeSizes(dims[dim].high).first;
    Result<ir::Model> other = importAt(sizes, *context);
    if (!other)
      return other.error();
    others.push_back({dim, sizes[dim], edgesOf(other->module->lookupSymbol<func::FuncOp>("main"))});
  }
  std::shared_ptr<Model::Impl> impl = implOf(std::move(context), std::move(*model));
  SizeNames names(dims, std::move(others));
  names.describe(impl->edges);
  for (std::size_t dim = 0; dim < dims.size(); ++dim)
    if (!names.isUsed(dim))
      return usage("no input has a dimension that follows '" + dims[dim].name + "'; leave it out");
  impl->dims = dims;
  impl->importAt = importAt;
  return Model(std::move(impl));
}

Result<void> checkDims(const std::vector<Dim> &dims) {
  constexpr std::int64_t most = std::int64_t(1) << 31;
  std::set<std::string> names;
  for (const Dim &dim : dims) {
    const std::string range = std::to_string(dim.low) + ".." + std::to_string(dim.high);
    if (dim.name.empty() || !names.insert(dim.name).second)
      return usage("the range " + range + " is for '" + dim.name + "'; give each dimension a name and one range");
    if (dim.low < 1 || dim.high < dim.low || dim.high >= most)
      return usage("the range of '" + dim.name + "' is " + range + "; give one of 1 or more to less than 2^31");
  }
  return {};
}

Result<void> checkAxes(const LoadOptions &options) {
  for (const auto &[input, axes] : options.axes)
    for (const std::string &axis : axes) {
      const bool isNumber = !axis.empty() && axis.size() < 18 && axis.find_first_not_of("0123456789") == axis.npos;
      if (!isNumber && std::ranges::find(options.dims, axis, &Dim::name) == options.dims.end())
        return usage("the dimension '" + axis + "' of '" + input + "' has no range; give --dims " + axis + "=1..N");
    }
  return {};
}

/// Null where no folder is given.
Result<std::shared_ptr<const ir::Checkpoint>> openCheckpoint(const std::string &folder, const std::string &prefix) {
  if (folder.empty() && !prefix.empty())
    return usage("the prefix '" + prefix + "' is given for no checkpoint; give its folder, too");
  if (folder.find('\0') != std::string::npos)
    return usage("the checkpoint's path has a NUL in it; give the path of a folder");
  return folder.empty() ? std::shared_ptr<const ir::Checkpoint>() : tuner::openCheckpoint(folder);
}

Result<Model> loadChecked(const std::string &path, const LoadOptions &options) {
  for (const Result<void> &valid : {check(path, options), checkDims(options.dims), checkAxes(options)})
    if (!valid)
      return valid.error();
  Result<std::shared_ptr<const ir::Checkpoint>> checkpoint =
      openCheckpoint(options.checkpoint, options.checkpointPrefix);
  if (!checkpoint)
    return checkpoint.error();
  ImportAt at = [path, options, checkpoint = *checkpoint](std::span<const std::int64_t> lengths, MLIRContext &context) {
    return importAt(path, options, checkpoint, lengths, context);
  };
  if (!options.dims.empty())
    return withDims(options.dims, at);
  std::shared_ptr<MLIRContext> context = newContext();
  Result<ir::Model> model = at({}, *context);
  if (!model)
    return model.error();
  return wrap(std::move(context), std::move(*model));
}

Result<Model> fromGraphsChecked(const std::function<Result<Graph>(std::span<const std::int64_t>)> &build,
                                const std::vector<Dim> &dims) {
  if (Result<void> valid = checkDims(dims); !valid)
    return valid.error();
  if (dims.empty())
    return usage("no ranges are given; give some, or build the one graph with Model::fromGraph");
  auto oneAtATime = std::make_shared<std::mutex>(); // Programs are imported by several threads.
  return withDims(
      dims, [build, oneAtATime](std::span<const std::int64_t> lengths, MLIRContext &context) -> Result<ir::Model> {
        const Result<Graph> graph = [&] {
          std::scoped_lock lock(*oneAtATime);
          return build(lengths);
        }();
        if (!graph)
          return graph.error();
        return ir::importText(graph->text(), "graph", context);
      });
}

Result<Model> atChecked(const Model &model, std::span<const std::int64_t> lengths) {
  if (!model)
    return usage(movedFrom("Model"));
  const Model::Impl &impl = model.internals();
  if (Result<void> inside = runtime::checkLengths(impl.dims, lengths); !inside)
    return inside.error();
  if (impl.dims.empty())
    return model;
  std::shared_ptr<MLIRContext> context = newContext();
  Result<ir::Model> exact = impl.importAt(lengths, *context);
  if (!exact)
    return exact.error();
  return wrap(std::move(context), std::move(*exact));
}

Result<Model> fromChecked(const Graph &graph, const std::string &folder, const std::string &prefix) {
  if (!graph)
    return usage(movedFrom("Graph"));
  // Through the text, so that the model has a context of its own.
  std::shared_ptr<MLIRContext> context = newContext();
  Result<ir::Model> model = ir::importText(graph.text(), "graph", *context);
  if (!model)
    return model.error();
  Result<std::shared_ptr<const ir::Checkpoint>> checkpoint = openCheckpoint(folder, prefix);
  if (!checkpoint)
    return checkpoint.error();
  if (*checkpoint)
    if (Result<void> taken = ir::takeWeights(*model, **checkpoint, prefix); !taken)
      return taken.error();
  return wrap(std::move(context), std::move(*model));
}

} // namespace

Result<Model> Model::load(const std::string &path, const LoadOptions &options) {
  return withoutThrowing([&] { return loadChecked(path, options); });
}

Result<Model> Model::fromGraph(const Graph &graph) {
  return withoutThrowing([&] { return fromChecked(graph, {}, {}); });
}

Result<Model> Model::fromGraph(const Graph &graph, const std::string &checkpoint, const std::string &prefix) {
  return withoutThrowing([&] { return fromChecked(graph, checkpoint, prefix); });
}

Result<Model> Model::fromGuardedGraphs(std::function<Result<Graph>(std::span<const std::int64_t>)> build,
                                       const std::vector<Dim> &dims) {
  return withoutThrowing([&] { return fromGraphsChecked(build, dims); });
}

Result<Model> Model::at(std::span<const std::int64_t> lengths) const {
  return withoutThrowing([&] { return atChecked(*this, lengths); });
}

const std::vector<Dim> &Model::dims() const {
  static const std::vector<Dim> none;
  return impl ? impl->dims : none;
}

const std::vector<TensorDesc> &Model::inputs() const { return edgesOf(impl.get()).inputs; }
const std::vector<TensorDesc> &Model::parameters() const { return edgesOf(impl.get()).parameters; }
const std::vector<TensorDesc> &Model::states() const { return edgesOf(impl.get()).states; }
const std::vector<TensorDesc> &Model::outputs() const { return edgesOf(impl.get()).outputs; }

std::span<const std::byte> Model::parameterData(std::string_view name) const {
  if (!impl)
    return {};
  auto found = impl->model.parameters.find(std::string(name));
  return found == impl->model.parameters.end() ? std::span<const std::byte>() : found->second.bytes;
}

} // namespace kfuse
