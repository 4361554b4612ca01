#include "kfuse/compiler.h"

#include "ir/dialect/Kfuse.h"
#include "ir/import/Text.h"
#include "tuner/api/Handles.h"
#include "tuner/api/NoThrow.h"
#include "tuner/model/ProgramBuilder.h"

using namespace mlir;

namespace kfuse {
namespace {

std::shared_ptr<MLIRContext> makeContext() {
  auto context = std::make_shared<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<ir::KfuseDialect, func::FuncDialect>();
  return context;
}

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

Model wrap(std::shared_ptr<MLIRContext> context, ir::Model model) {
  auto impl = std::make_shared<Model::Impl>();
  impl->edges = edgesOf(model.module->lookupSymbol<func::FuncOp>("main"));
  impl->context = std::move(context);
  impl->model = std::move(model);
  return Model(std::move(impl));
}

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

Result<Model> loadChecked(const std::string &path, const LoadOptions &options) {
  if (Result<void> valid = check(path, options); !valid)
    return valid.error();
  std::shared_ptr<MLIRContext> context = makeContext();
  Result<ir::Model> model = ir::loadModel(path, {options.shapes, options.parameters, options.states}, *context);
  if (!model)
    return model.error();
  if (options.tf32)
    model->module->walk([](ir::MatmulOp product) {
      product.setTf32(mlir::cast<RankedTensorType>(product.getLhs().getType()).getElementType().isF32());
    });
  return wrap(std::move(context), std::move(*model));
}

Result<Model> fromChecked(const Graph &graph) {
  if (!graph)
    return usage(movedFrom("Graph"));
  // Through the text, so that the model has a context of its own.
  std::shared_ptr<MLIRContext> context = makeContext();
  Result<ir::Model> model = ir::importText(graph.text(), "graph", *context);
  if (!model)
    return model.error();
  return wrap(std::move(context), std::move(*model));
}

} // namespace

Result<Model> Model::load(const std::string &path, const LoadOptions &options) {
  return withoutThrowing([&] { return loadChecked(path, options); });
}

Result<Model> Model::fromGraph(const Graph &graph) {
  return withoutThrowing([&] { return fromChecked(graph); });
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
