// What the handles of the public API hold: Model, Buffer, Executable, Weights and Session of include/kfuse/compiler.h.
#pragma once

#include "ir/import/Model.h"
#include "kfuse/compiler.h"
#include "runtime/BucketContexts.h"
#include "runtime/pack/PackWeights.h"
#include "tuner/model/ModelCompiler.h"

#include "mlir/IR/MLIRContext.h"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace kfuse {

/// Tensors at the edges of a model, by role, each in the model's order.
struct Edges {
  std::vector<TensorDesc> inputs, parameters, states, outputs;
};

/// The message for the use of a handle that was moved from.
inline std::string movedFrom(const char *what) {
  return std::string("this ") + what + " was moved from; use the one it went to";
}

/// The edges of a handle's object; of a handle that was moved from, none.
template <class Impl> const Edges &edgesOf(const Impl *impl) {
  static const Edges none;
  return impl ? impl->edges : none;
}

struct Model::Impl {
  /// Held while a thread works in the context, which serves one at a time. It is recursive since the callbacks of a
  /// compilation may compile the model, too.
  mutable std::recursive_mutex mutex;
  std::shared_ptr<mlir::MLIRContext> context;
  ir::Model model; ///< The model at its largest lengths.
  Edges edges;
  std::vector<Dim> dims{}; ///< The dimensions of which runs give the lengths; empty where none do.
  /// The model at other lengths, one for each of `dims`.
  std::function<Result<ir::Model>(std::span<const std::int64_t> lengths, mlir::MLIRContext &)> importAt{};
};

/// A context with kfuse's dialects.
std::shared_ptr<mlir::MLIRContext> newContext();
Model wrap(std::shared_ptr<mlir::MLIRContext> context, ir::Model model);

struct Buffer::Impl {
  std::shared_ptr<runtime::Device> device;
  std::unique_ptr<runtime::DeviceBuffer> memory;
};

/// One bucket of lengths, or all of a model that has none.
struct LengthProgram {
  tuner::CompiledModel compiled;
  runtime::LengthEdges edges{};
};

struct Executable::Impl {
  std::shared_ptr<runtime::Device> device;
  int ordinal = -1;                    ///< The CUDA device's ordinal; -1 on the CPU.
  std::vector<LengthProgram> programs; ///< One where no run gives lengths; else in the order of `table`.
  runtime::BucketTable table{};        ///< Which program serves which lengths.
  std::vector<Dim> dims{};             ///< As Model::Impl::dims.
  Edges edges;
  std::vector<int> updatedStates; ///< Per output: the number of the state that it is, or -1.
  // What came from a pack has these:
  std::shared_ptr<const runtime::Pack> pack{};
  std::string packedPlan{}; ///< Executable::plan().
  runtime::WeightsSource weights{};
  /// The input that is the length of caches, and the most that it may be; looked at where it is in the host's memory.
  std::optional<std::pair<std::size_t, std::int64_t>> hostPastLength;

  const tuner::CompiledModel &compiled() const { return programs.front().compiled; }
  Result<std::size_t> programFor(std::span<const std::int64_t> lengths) const;
  std::optional<std::size_t> parameterIndex(std::string_view name) const;
  // The public functions of these names call these, and make Errors of exceptions.
  static Result<Weights> prepare(const Executable &self, std::span<void *const> parameters, const Weights *shared);
  static Result<Session> newSession(const Executable &self, const Weights &weights, std::span<std::byte> memory);
  static Result<Weights> prepareNamed(const Executable &self, std::span<const Binding> parameters);
  std::vector<const runtime::Program *> mains() const;
  static Result<void> save(const Impl &impl, const std::string &path);
  static Result<std::vector<Shape>> outputShapes(const Impl &impl, std::span<const std::int64_t> lengths);
};

/// Per result of @main: its state's number among the model's `states` states, which come first, or -1.
std::vector<int> updatedStates(const runtime::Program &main, std::size_t states);

struct Weights::Impl {
  std::shared_ptr<const Executable::Impl> executable;
  std::map<std::string, void *> parameters; ///< By name.
  std::map<std::string, Buffer> prepared;   ///< What the preparation functions computed, by preparedKeys.
  /// Per program and argument of its @main: its pointer if it is fixed, else null.
  std::vector<std::vector<void *>> fixed;
};

struct Session::Impl {
  std::shared_ptr<const Executable::Impl> executable;
  Weights weights;
  runtime::BucketContexts contexts;               ///< A context for each program.
  std::vector<void *> arguments, results;         ///< What the current run gives the program.
  std::vector<Binding> boundInputs, boundOutputs; ///< By number, inputs then states; without names.
  std::atomic_flag isRunning;                     ///< To tell a second thread.

  Result<void> bindInput(const Binding &tensor);
  Result<void> bindOutput(const Binding &tensor);
  Result<void> bind(const Binding &tensor, std::size_t index, const TensorDesc &desc, std::vector<Binding> &bound);
  Result<void> checkSizes(std::span<const std::int64_t> given) const;
  Result<void> runBound(Stream stream, std::span<const std::int64_t> given);
  Result<void> check(std::span<void *const> inputs, std::span<void *const> outputs) const;
  Result<void> run(Stream stream, std::span<void *const> inputs, std::span<void *const> outputs,
                   std::span<const std::int64_t> given);
};

} // namespace kfuse
