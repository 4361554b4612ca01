// What the public handles of include/kfuse/compiler.h hold.
#pragma once

#include "ir/import/Model.h"
#include "kfuse/compiler.h"
#include "tuner/model/ModelCompiler.h"

#include "mlir/IR/MLIRContext.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace kfuse {

/// Tensors at the edges of a model, by role, each in the model's order.
struct Edges {
  std::vector<TensorDesc> inputs, parameters, states, outputs;
};

/// The message of the error that the use of a moved-from object is.
inline std::string movedFrom(const char *what) {
  return std::string("this ") + what + " was moved from; use the one it went to";
}

/// None of a handle that was moved from.
template <class Impl> const Edges &edgesOf(const Impl *impl) {
  static const Edges none;
  return impl ? impl->edges : none;
}

struct Model::Impl {
  /// Held while a thread works in the context, which is for one at a time; its callbacks may compile the model, too.
  mutable std::recursive_mutex mutex;
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
  int ordinal = -1; ///< Of the CUDA device; -1 on the CPU.
  tuner::CompiledModel compiled;
  Edges edges;
  std::vector<int> updatedStates;
  /// The input that is the length of caches, and the most that it may be; looked at where it is in the host's memory.
  std::optional<std::pair<std::size_t, std::int64_t>> hostPastLength;

  std::optional<std::size_t> parameterIndex(std::string_view name) const;
  // The public functions of these names, where exceptions are Errors.
  static Result<Weights> prepare(const Executable &self, std::span<void *const> parameters);
  static Result<Session> newSession(const Executable &self, const Weights &weights);
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
  std::vector<void *> arguments; ///< The arguments of the current run.
  std::atomic_flag isRunning;    ///< To tell a second thread.

  Result<void> run(Stream stream, std::span<void *const> inputs, std::span<void *const> outputs);
};

} // namespace kfuse
