// A compiled function of a model as plain data: kernels, steps, memory. Immutable once built.
#pragma once

#include "codegen/KernelPlan.h"
#include "kfuse/error.h"
#include "kfuse/types.h"
#include "runtime/Device.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::runtime {

/// Where a step's argument lives.
struct BufferRef {
  enum class Space : std::uint8_t {
    Argument, ///< Caller's memory of argument `index` (an input, parameter or state).
    Result,   ///< Caller's memory of result `index`.
    Constant, ///< The program's constant data.
    Arena     ///< The context's memory for values between steps.
  };
  Space space = Space::Arena;
  std::uint32_t index = 0;  ///< The argument's or result's number; else 0.
  std::uint64_t offset = 0; ///< In bytes.
  friend bool operator==(const BufferRef &, const BufferRef &) = default;
};

/// One distinct kernel of a program; identical regions share it.
struct ProgramKernel {
  codegen::KernelPlan plan; ///< `source` may be empty in a pack.
  CompiledKernel binary;
  friend bool operator==(const ProgramKernel &, const ProgramKernel &) = default;
};

/// Runs kernel `kernel` on `buffers` (its inputs, then its outputs).
struct Step {
  std::uint32_t kernel = 0;
  std::vector<BufferRef> buffers;
  friend bool operator==(const Step &, const Step &) = default;
};

/// A result that is no kernel's output but an argument or constant handed through.
struct PassThrough {
  std::uint32_t result = 0;
  BufferRef source;
  friend bool operator==(const PassThrough &, const PassThrough &) = default;
};

struct Program {
  std::string name;
  std::string target;
  std::vector<TensorDesc> arguments;
  std::vector<Role> roles; ///< The role of each argument.
  std::vector<TensorDesc> results;
  std::vector<int> resultState; ///< Per result: the state argument it aliases, or -1.
  std::vector<ProgramKernel> kernels;
  std::vector<Step> steps;
  std::vector<PassThrough> passThroughs;
  std::vector<std::byte> constants;
  std::uint64_t arenaBytes = 0; ///< Values between steps; workspaces come on top (Workspace).

  /// BadModel for an index, offset, size or alias that does not fit, naming both values.
  Result<void> validate() const;
  std::vector<std::byte> serialise() const; ///< CBOR behind a magic; carries a version.
  /// A valid program, or BadModel for bytes that are truncated, foreign or of another version.
  static Result<Program> deserialise(std::span<const std::byte> bytes);

  friend bool operator==(const Program &, const Program &) = default;
};

/// The scratch memory all kernels of some programs share, one after the other:
///
///     |<------ zeroed ------>|<------ scratch ------>|
///          ^ kernel A: its zeroed bytes end, and its other scratch begins, at the boundary
///                   ^ kernel B, with fewer zeroed bytes
///
/// so that no kernel's scratch dirties what another kernel expects to be zero.
struct Workspace {
  std::uint64_t zeroed = 0;  ///< Largest KernelPlan::zeroedBytes.
  std::uint64_t scratch = 0; ///< Largest KernelPlan::workspaceBytes past the zeroed ones.

  explicit Workspace(std::span<const Program *const> programs);
  explicit Workspace(const Program &program) : Workspace(std::array{&program}) {}
  std::uint64_t bytes() const { return zeroed + scratch; }
  /// Where the workspace of `plan` begins.
  std::uint64_t offset(const codegen::KernelPlan &plan) const { return zeroed - plan.zeroedBytes; }
};

/// One stream's running state of a Program: arena, loaded kernels, and on a GPU the captured graph.
/// Not thread-safe; threads share the Program and each have a Context.
class Context {
public:
  virtual ~Context() = default;
  /// Enqueues the whole program. Pointers are device pointers (host pointers on the CPU), 16-byte
  /// aligned, and may change between runs; the result of a state may be null or its argument's
  /// pointer. On a GPU the steps are replayed as one CUDA graph. A few graphs are kept by the pointers of their runs;
  /// other pointers are patched into one of them. Inside the caller's own stream capture the launches are recorded
  /// there. Runs on different streams must be ordered by the caller: they share the arena.
  /// Usage names the argument or result whose pointer does not fit.
  virtual Result<void> run(Stream stream, std::span<void *const> arguments, std::span<void *const> results) = 0;
  /// Device memory this context holds besides kernels: arena, workspace and constants.
  virtual std::uint64_t memoryBytes() const = 0;
  /// What the graphs of the runs so far took; zeros where there are none.
  virtual ReplayCounts replayCounts() const { return {}; }
};

struct ContextOptions {
  bool replay = true; ///< Off: every run launches step by step, for debuggers and profilers.
  /// The device's memory for values between steps, Program::arenaBytes or more, which outlives the context and may be
  /// that of other contexts that do not run at the same time; empty: memory of its own.
  std::span<std::byte> arena{};
  /// Likewise for the kernels' scratch: that of `shared`, this program's among others, whose first bytes are zero.
  std::span<std::byte> workspace{};
  std::optional<Workspace> shared{};
  /// contextBytes() of the device's memory or more, aligned to contextAlignment, which outlives the context: all that
  /// it needs, but for arena and workspace where both are given. Empty: memory of its own.
  std::span<std::byte> memory{};
};

inline constexpr std::size_t contextAlignment = 256;
/// What a context of `program` needs for constants and, unless arena and workspace are given, for these.
std::uint64_t contextBytes(const Program &program, bool isShared = false);

/// `program` and `device` must outlive the context. OutOfMemory names the bytes asked for.
Result<std::unique_ptr<Context>> makeContext(const Program &program, Device &device,
                                             const ContextOptions &options = {});

} // namespace kfuse::runtime
