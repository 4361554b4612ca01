// A pack's program on its device, as the C interface hands it out: weights, and sessions that run.
#pragma once

#include "runtime/Device.h"
#include "runtime/Program.h"
#include "runtime/library/VariantChoice.h"
#include "runtime/pack/Pack.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace kfuse::runtime {

/// Memory that a program's callers asked for: it lasts as long as the program, which weights and sessions hold.
class GivenMemory {
public:
  void *keep(std::unique_ptr<DeviceBuffer> buffer);
  void free(const void *memory);

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
};

/// Immutable once loaded, but for the memory that it keeps.
struct LoadedProgram {
  std::shared_ptr<const Pack> pack;
  std::unique_ptr<Device> device;
  int ordinal = -1; ///< The CUDA device's; -1 on the CPU.
  std::string title;
  VariantPrograms programs;
  std::unique_ptr<GivenMemory> given;

  /// `threads` are those of a CPU, 0: one for each processor.
  static Result<std::shared_ptr<const LoadedProgram>> load(std::shared_ptr<const Pack> pack, const VariantWish &wish,
                                                           int threads);
  const Manifest &manifest() const { return pack->manifest(); }
};

/// Memory that parameters are in, or none.
using Parameters = std::vector<const void *>;

/// A program's fixed arguments: parameters, and what its preparation makes of them.
class PreparedWeights {
public:
  /// `parameters` are the manifest's, in order; those that are null come from the pack.
  static Result<std::shared_ptr<const PreparedWeights>> make(std::shared_ptr<const LoadedProgram> program,
                                                             Parameters parameters);
  const std::shared_ptr<const LoadedProgram> program;
  const std::vector<void *> &fixed() const { return pointers; }

private:
  explicit PreparedWeights(std::shared_ptr<const LoadedProgram> program) : program(std::move(program)) {}
  Result<void *> allocate(std::size_t bytes);
  Result<void> takeFromPack(Parameters &parameters);
  Result<void> prepare(const Parameters &parameters);
  Result<void> fixArguments(const Parameters &parameters);
  void *pointerOf(std::string_view parameter, const Parameters &parameters) const;

  bool isRead(std::string_view parameter) const;

  std::vector<std::unique_ptr<DeviceBuffer>> uploaded; ///< Parameters that came from the pack.
  std::vector<std::unique_ptr<DeviceBuffer>> memory;   ///< Holds the prepared values.
  std::vector<void *> prepared;                        ///< The results of the preparation.
  std::vector<void *> pointers;                        ///< Per argument of main: its memory if it is fixed, else null.
};

/// One stream's running state, with what is bound for its runs.
class BoundSession {
public:
  /// In `memory`, or where that is empty in memory of its own.
  static Result<std::unique_ptr<BoundSession>> make(std::shared_ptr<const PreparedWeights> weights,
                                                    std::span<std::byte> memory);
  const LoadedProgram &program() const { return *weights->program; }
  /// Usage where `bytes` are not those of the tensor.
  Result<void> bindInput(std::size_t index, void *pointer, std::size_t bytes);
  Result<void> bindState(std::size_t index, void *pointer, std::size_t bytes);
  Result<void> bindOutput(std::size_t index, void *pointer, std::size_t bytes);
  /// Usage names what is not bound, and says so while another thread is in run().
  Result<void> run(Stream stream);

private:
  explicit BoundSession(std::shared_ptr<const PreparedWeights> weights) : weights(std::move(weights)) {}
  Result<void> bindArgument(Role role, std::size_t index, void *pointer, std::size_t bytes);

  std::shared_ptr<const PreparedWeights> weights;
  std::unique_ptr<Context> context;
  std::vector<void *> arguments, results;
  std::atomic_flag isRunning;
};

} // namespace kfuse::runtime
