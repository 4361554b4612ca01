// What the public handles of include/kfuse/compiler.h hold.
#pragma once

#include "ir/import/Model.h"
#include "kfuse/compiler.h"
#include "tuner/model/ModelCompiler.h"

#include "mlir/IR/MLIRContext.h"

namespace kfuse {

/// Tensors at the edges of a model, by role, each in the model's order.
struct Edges {
  std::vector<TensorDesc> inputs, parameters, states, outputs;
};

struct Model::Impl {
  std::shared_ptr<mlir::MLIRContext> context;
  ir::Model model;
  Edges edges;
};

struct Buffer::Impl {
  std::shared_ptr<runtime::Device> device;
  std::unique_ptr<runtime::DeviceBuffer> memory;
};

struct Executable::Impl {
  std::shared_ptr<runtime::Device> device;
  tuner::CompiledModel compiled;
  Edges edges;
  std::vector<int> updatedStates;

  std::optional<std::size_t> parameterIndex(std::string_view name) const;
};

struct Weights::Impl {
  std::shared_ptr<const Executable::Impl> executable;
  std::vector<Buffer> prepared; ///< What the preparation function computed.
  std::vector<void *> fixed;    ///< Per argument of @main: its pointer if it is fixed, else null.
};

struct Session::Impl {
  std::shared_ptr<const Executable::Impl> executable;
  Weights weights;
  std::unique_ptr<runtime::Context> context;
  std::vector<void *> arguments; ///< Of the current run.
};

} // namespace kfuse
