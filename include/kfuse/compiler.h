// Load or build a model, compile it for a device, prepare its weights once, run it many times.
//
//   auto model   = kfuse::Model::load("block.onnx");
//   auto program = kfuse::compile(*model, {});
//   auto weights = program->prepare(parameterPointers);
//   auto session = program->newSession(*weights);
//   session->run(stream, inputPointers, outputPointers).value();
//
// Pointers are device pointers: of the GPU for CUDA targets, of the host for the CPU. All tensors are dense and
// row-major, aligned to 16 bytes or more, the widest load of a kernel; Executable::allocate() aligns to 256.
//
// Nothing here throws or ends the process: misuse is an Error of ErrorCode::Usage, and so is the use of an object that
// was moved from (its lists are empty, its pointers null). Only the value() of a Result that holds an Error throws.
#pragma once

#include "kfuse/callbacks.h"
#include "kfuse/error.h"
#include "kfuse/graph.h"
#include "kfuse/tuning.h"
#include "kfuse/types.h"

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace kfuse {

struct LoadOptions {
  std::map<std::string, Shape> shapes; ///< Shapes of inputs that are dynamic in the file.
  std::vector<std::string> parameters; ///< Globs naming inputs that are fixed between runs.
  /// Inputs that become an output's memory: "past*=present*", where `*` is the same text on both sides. A cache to
  /// which the file joins new rows is given a capacity, "past*=present*:4096"; how many rows a run finds in it is then
  /// a new input, past_length. What the graph writes in place by itself needs no name.
  std::vector<std::string> states{};
  bool tf32 = false; ///< Allow products of f32 to cut their operands for tensor cores.
  /// Sizes that each run gives, from 1 or more: dimensions by their names in the file, or in `axes`.
  std::vector<Dim> dims{};
  /// Names for dimensions that have none in the file, by input: {"x", {"1", "tokens", "4096"}}.
  std::map<std::string, std::vector<std::string>> axes{};
  /// A folder as transformers saves a model, config.json and files of safetensors: weights of the parameters, and of
  /// inputs, that have the names of its tensors. Of a layer that it holds quantised (GPTQ, AWQ, compressed-tensors,
  /// HQQ) the parameter `layer`.weight, [N, K], becomes those of its codes and scales, and the graph dequantises them.
  std::string checkpoint{};
  std::string checkpointPrefix{}; ///< What stands in front of the model's names there, "model.layers.0.".
};

/// A model's graph, and the weights that came with it. Cheap to copy; immutable.
class KFUSE_API Model {
public:
  explicit operator bool() const { return impl != nullptr; } ///< False once it was moved from.
  /// Reads an ONNX file (opset 13 to 24) or the dialect's text. BadModel or Io with one line; Usage for a path with a
  /// NUL in it, and options that do not fit the model.
  static Result<Model> load(const std::string &path, const LoadOptions &options = {});
  static Result<Model> fromGraph(const Graph &graph);
  /// The same with weights of a checkpoint, as LoadOptions has it.
  static Result<Model> fromGraph(const Graph &graph, const std::string &checkpoint, const std::string &prefix = {});
  /// A model of lengths that each run gives: `build` makes its graph for any of them, in the order of `dims`. It is
  /// called now and by compile(), by threads of its own but by one at a time.
  static Result<Model> fromGraphs(const std::function<Result<Graph>(std::span<const std::int64_t>)> &build,
                                  const std::vector<Dim> &dims) {
    return fromGuardedGraphs(
        [build](std::span<const std::int64_t> lengths) {
          detail::CallbackGuard guard;
          Result<Graph> graph = Error{ErrorCode::Usage, "no graph was built"};
          guard("build", [&] { graph = build(lengths); });
          return guard.orError(std::move(graph));
        },
        dims);
  }

  const std::vector<Dim> &dims() const; ///< Sizes that each run gives; empty where all are fixed.
  /// The model of these sizes, in the order of dims(), all of them fixed. Usage outside their ranges.
  Result<Model> at(std::span<const std::int64_t> lengths) const;

  const std::vector<TensorDesc> &inputs() const;     ///< Role::Input, in order.
  const std::vector<TensorDesc> &parameters() const; ///< Role::Parameter, in order.
  const std::vector<TensorDesc> &states() const;     ///< Role::State, in order.
  const std::vector<TensorDesc> &outputs() const;
  /// The bytes of a parameter that is stored in the model's file, row-major; empty when the caller gives them.
  std::span<const std::byte> parameterData(std::string_view name) const;

  struct Impl;
  explicit Model(std::shared_ptr<const Impl> impl) : impl(std::move(impl)) {}
  const Impl &internals() const { return *impl; }

private:
  static Result<Model> fromGuardedGraphs(std::function<Result<Graph>(std::span<const std::int64_t>)> build,
                                         const std::vector<Dim> &dims);
  std::shared_ptr<const Impl> impl;
};

/// How often lengths come in runs.
struct LengthCount {
  std::vector<std::int64_t> lengths; ///< In the order of dims().
  double count = 1;
};

struct CompileOptions {
  std::string target = "auto"; ///< "cpu", "sm_90a", ...; auto takes the first GPU, else the CPU.
  std::string store;           ///< Tuning store; empty: $KFUSE_STORE, else the user's cache folder.
  Effort effort = Effort::Quick;
  double seconds = 0;                   ///< For tuning all kernels together; 0: as many as the effort takes.
  bool simplify = true;                 ///< False: the graph is fused as it is written.
  bool requireTuned = false;            ///< Never compile: what the store lacks is a NotTuned error, which
                                        ///< lists it. The store is only read and may be read-only.
  bool trustStore = false;              ///< Run machine code of a store that others than the user and root
                                        ///< may write: trust it as you trust a program. Without this its
                                        ///< kernels are compiled anew, with one line to `log`, and with
                                        ///< requireTuned it is a NotTuned error.
  std::vector<LengthCount> histogram{}; ///< Which lengths runs will have; empty: each factor of two is as frequent.
  int threads = 0;                      ///< CPU threads to run and tune with; 0: all cores.
  int device = 0;                       ///< CUDA device ordinal.
  std::function<bool(const Progress &)> progress; ///< Return false to cancel.
  std::stop_token stop;                           ///< Asked for by another thread, it cancels within a second, whatever
                                                  ///< is waited for. What was tuned by then is in the store.
  std::function<void(std::string_view line)> log; ///< Warnings, one line each.
};

/// Memory on the program's device; freed with the last copy of its handle.
class KFUSE_API Buffer {
public:
  explicit operator bool() const { return impl != nullptr; } ///< False once it was moved from.
  void *data() const;
  std::size_t size() const;
  Result<void> upload(const void *host) const; ///< size() bytes, synchronously. Usage for a null pointer.
  Result<void> download(void *host) const;

  struct Impl;
  explicit Buffer(std::shared_ptr<Impl> impl) : impl(std::move(impl)) {}

private:
  Result<void> check(const void *host) const;
  std::shared_ptr<Impl> impl;
};

/// A CUstream on a GPU (null: the default stream); ignored on the CPU, where runs are synchronous.
using Stream = void *;

/// Parameters folded, merged and packed for one program; keeps the device memory it made.
/// The parameters' own memory must stay valid: what needs no preparation is used in place.
class KFUSE_API Weights {
public:
  explicit operator bool() const { return impl != nullptr; } ///< False once it was moved from.
  struct Impl;
  explicit Weights(std::shared_ptr<const Impl> impl) : impl(std::move(impl)) {}
  const Impl &internals() const { return *impl; }

private:
  std::shared_ptr<const Impl> impl;
};

/// Memory of the device for the tensor of this name.
struct Binding {
  std::string_view name;
  void *data = nullptr;
  std::size_t bytes = 0; ///< The tensor's; where runs give lengths, those in the runs, or more, but all of a state's.
};

/// One stream's running state: arena and captured graphs. Make one per stream, and use it in one thread at a time.
class KFUSE_API Session {
public:
  explicit operator bool() const { return impl != nullptr; } ///< False once it was moved from.
  /// Enqueues one run. `inputs` holds the model's inputs, then its states (updated in place); the
  /// pointer of an output that is an updated state is null, or the state's.
  /// Pointers may change between runs: the CUDA graphs of the last few sets of them are kept, and other pointers are
  /// patched into one. Inside the caller's stream capture the launches are recorded.
  /// Usage for another number of pointers, for one that is null or not aligned to 16 bytes, and while another thread is
  /// in run().
  Result<void> run(Stream stream, std::span<void *const> inputs, std::span<void *const> outputs) {
    return run(stream, inputs, outputs, {});
  }
  /// The same for a model with dims(): `lengths` are their sizes in this run, in that order. Inputs and outputs are
  /// dense tensors of these sizes; nothing behind them is read or written. A state has its largest shape in every run,
  /// of which a run reads and writes what it has sequences for, the first. Usage for a length outside its range.
  Result<void> run(Stream stream, std::span<void *const> inputs, std::span<void *const> outputs,
                   std::span<const std::int64_t> lengths);

  /// Sets the memory of an input or state, and of an output, for runs that are given none. An output that is a state
  /// needs none. Usage names the tensors there are, and the bytes that were expected.
  Result<void> bindInput(const Binding &tensor);
  Result<void> bindOutput(const Binding &tensor);
  /// Enqueues a run on what is bound; `lengths` as above. Usage names what is not bound, or too short.
  Result<void> run(Stream stream, std::span<const std::int64_t> lengths = {});

  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  Session(Session &&) noexcept;
  Session &operator=(Session &&) noexcept;
  ~Session();

private:
  std::unique_ptr<Impl> impl;
};

/// A compiled model. Immutable; threads may share it.
class KFUSE_API Executable {
public:
  explicit operator bool() const { return impl != nullptr; } ///< False once it was moved from.
  const std::vector<TensorDesc> &inputs() const;
  const std::vector<TensorDesc> &parameters() const;
  const std::vector<TensorDesc> &states() const;
  const std::vector<TensorDesc> &outputs() const;
  const std::vector<Dim> &dims() const; ///< Sizes that each run gives.
  /// Shapes of the outputs of a run with these lengths. Usage for a length outside its range.
  Result<std::vector<Shape>> outputShapes(std::span<const std::int64_t> lengths) const;
  /// Per output: the state that it is after its update in place, or -1.
  const std::vector<int> &updatedStates() const;
  /// What it was compiled for: "cpu", "sm_90a", ...; and the CUDA ordinal of its device, -1 on the CPU.
  const std::string &target() const;
  int device() const;
  /// Its kernels, their configs, bounds and times: the JSON object that `kfuse tune --json` prints.
  std::string plan() const;
  /// The roofline plot of the same: an SVG file, static, with its style inside.
  std::string rooflineSvg() const;

  Result<Buffer> allocate(std::size_t bytes) const; ///< Aligned to 256 bytes. OutOfMemory names the bytes asked for.
  /// Runs the preparation function on the parameters, in the order of parameters(). Usage for another number of them,
  /// or a null pointer to one that is used (one that is not aligned is found here or by run()); OutOfMemory.
  Result<Weights> prepare(std::span<void *const> parameters) const;
  /// The same beside weights of another program on this device, prefill and decode of one network, say: what both
  /// prepare alike of parameters of the same names lies in memory once. Usage where such a parameter is not at the
  /// address that the other program was given.
  Result<Weights> prepare(std::span<void *const> parameters, const Weights &shared) const;
  /// The same of parameters by their names; those that are not among them come with the pack, or are not used.
  Result<Weights> prepareNamed(std::span<const Binding> parameters) const;
  /// Usage for weights that another program prepared; OutOfMemory.
  Result<Session> newSession(const Weights &weights) const;
  /// The same in the device's memory that is given: sessionBytes(), aligned to 256 bytes, which outlive the session.
  Result<Session> newSession(const Weights &weights, std::span<std::byte> memory) const;
  std::size_t sessionBytes() const; ///< What a session needs for values between kernels, whatever its lengths.
  /// Writes a pack of this program alone, for devices like its own (kfuse/pack.h); `kfuse pack` makes those for
  /// several. The parameters are not in it. Usage for a program that came from a pack; Io.
  Result<void> save(const std::string &path) const;
  /// Waits for the work of a stream.
  Result<void> synchronize(Stream stream = nullptr) const;

  struct Impl;
  explicit Executable(std::shared_ptr<const Impl> impl) : impl(std::move(impl)) {}
  const Impl &internals() const { return *impl; }

private:
  std::shared_ptr<const Impl> impl;
};

namespace detail {
/// compile() with callbacks that do not throw.
KFUSE_API Result<std::vector<Executable>> compileGuarded(std::span<const Model> models, const CompileOptions &options);
} // namespace detail

/// Fuses, plans, tunes what the store does not hold, and loads the kernels. Usage for a target, device, effort, time
/// or number of threads that there is not; NoDevice where it, its driver or NVRTC is missing; BadModel where no kernel
/// takes an op; NotTuned and Cancelled as in the options, and Cancelled with what a callback threw, after which none is
/// called; Io for a store that is none; Compile, WrongResult, Timeout or Crash where no candidate of a kernel works.
///
/// Several models, prefill and decode of one network, say, become programs on one device that prepare parameters of
/// the same names alike: each takes the Weights of the one before in prepare(), and what they share lies in memory
/// once. They share the time for tuning. Usage for no model.
inline Result<std::vector<Executable>> compile(std::span<const Model> models, const CompileOptions &options = {}) {
  detail::CallbackGuard guard;
  CompileOptions guarded = options;
  guarded.progress = [&](const Progress &at) {
    bool goesOn = true;
    return guard("progress", [&] { goesOn = !options.progress || options.progress(at); }) && goesOn;
  };
  if (options.log)
    guarded.log = [&](std::string_view line) { guard("log", [&] { options.log(line); }); };
  return guard.orError(detail::compileGuarded(models, guarded));
}
inline Result<Executable> compile(const Model &model, const CompileOptions &options = {}) {
  Result<std::vector<Executable>> programs = compile(std::span(&model, 1), options);
  if (!programs)
    return programs.error();
  return std::move(programs->front());
}

} // namespace kfuse
