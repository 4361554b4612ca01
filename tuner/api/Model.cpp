#include "kfuse/compiler.h"

#include "ir/dialect/Kfuse.h"
#include "ir/import/Text.h"
#include "tuner/api/Handles.h"
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

} // namespace

Result<Model> Model::load(const std::string &path, const LoadOptions &options) {
  std::shared_ptr<MLIRContext> context = makeContext();
  Result<ir::Model> model = ir::loadModel(path, {options.shapes, options.parameters}, *context);
  if (!model)
    return model.error();
  if (options.tf32)
    model->module->walk([](ir::MatmulOp product) {
      product.setTf32(mlir::cast<RankedTensorType>(product.getLhs().getType()).getElementType().isF32());
    });
  return wrap(std::move(context), std::move(*model));
}

Result<Model> Model::fromGraph(const Graph &graph) {
  // Through the text, so that the model has a context of its own.
  std::shared_ptr<MLIRContext> context = makeContext();
  Result<ir::Model> model = ir::importText(graph.text(), "graph", *context);
  if (!model)
    return model.error();
  return wrap(std::move(context), std::move(*model));
}

const std::vector<TensorDesc> &Model::inputs() const { return impl->edges.inputs; }
const std::vector<TensorDesc> &Model::parameters() const { return impl->edges.parameters; }
const std::vector<TensorDesc> &Model::states() const { return impl->edges.states; }
const std::vector<TensorDesc> &Model::outputs() const { return impl->edges.outputs; }

std::span<const std::byte> Model::parameterData(std::string_view name) const {
  auto found = impl->model.parameters.find(std::string(name));
  return found == impl->model.parameters.end() ? std::span<const std::byte>() : found->second.bytes;
}

} // namespace kfuse
