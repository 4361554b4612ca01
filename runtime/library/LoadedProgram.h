// A pack's program on its device, as the C interface hands it out: weights, and sessions that run.
#pragma once

#include "runtime/BucketContexts.h"
#include "runtime/Device.h"
#include "runtime/Program.h"
#include "runtime/library/VariantChoice.h"
#include "runtime/pack/Pack.h"
#include "runtime/pack/PackWeights.h"

#include <atomic>
#include <map>
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

/// How a pack is loaded.
struct LoadWish {
  VariantWish variant;
  int threads = 0; ///< A CPU's; 0: one for each processor.
  WeightsSource weights;
};

/// Immutable once loaded, but for the memory that it keeps.
struct LoadedProgram {
  std::shared_ptr<const Pack> pack;
  std::unique_ptr<Device> device;
  int ordinal = -1; ///< The CUDA device's; -1 on the CPU.
  std::string title;
  std::vector<VariantPrograms> programs; ///< In the order of `table`.
  BucketTable table;                     ///< It has one bucket where no run gives lengths.
  WeightsSource weights;
  std::unique_ptr<GivenMemory> given;

  static Result<std::shared_ptr<const LoadedProgram>> load(std::shared_ptr<const Pack> pack, const LoadWish &wish);
  const Manifest &manifest() const { return pack->manifest(); }
  /// What follows these lengths, and how; null where no run gives lengths. Usage outside of their ranges.
  Result<const LengthEdges *> edgesFor(std::span<const std::int64_t> lengths) const;
};

/// Memory that parameters are in, or none.
using Parameters = std::vector<const void *>;

/// A program's fixed arguments: parameters, and what its preparation makes of them.
class PreparedWeights {
public:
  /// `parameters` are the manifest's, in order; those that are null come with the pack.
  static Result<std::shared_ptr<const PreparedWeights>> make(std::shared_ptr<const LoadedProgram> program,
                                                             Parameters parameters);
  const std::shared_ptr<const LoadedProgram> program;
  /// Per argument of a bucket's main: its memory if it is fixed, else null.
  const std::vector<void *> &fixed(std::size_t bucket) const { return pointers[bucket]; }

private:
  explicit PreparedWeights(std::shared_ptr<const LoadedProgram> program) : program(std::move(program)) {}
  Result<void> takeFromPack(Parameters &parameters);
  Result<void> prepare(const VariantPrograms &programs, const Parameters &parameters);
  Result<void> fixArguments(const VariantPrograms &programs, const Parameters &parameters);
  Result<bool> allocatePrepared(const VariantPrograms &programs, std::vector<void *> &results);
  void *pointerOf(std::string_view parameter, const Parameters &parameters) const;
  bool isRead(std::string_view parameter) const;

  std::vector<std::unique_ptr<DeviceBuffer>> uploaded;           ///< Parameters that came with the pack.
  std::map<std::string, std::unique_ptr<DeviceBuffer>> prepared; ///< What the preparations computed, by their keys.
  std::vector<std::vector<void *>> pointers;
};

/// What is bound for the runs of a session.
struct BoundTensor {
  void *memory = nullptr;
  std::size_t bytes = 0;
};

/// One stream's running state, with what is bound for its runs.
class BoundSession {
public:
  /// In `memory`, or where that is empty in memory of its own.
  static Result<std::unique_ptr<BoundSession>> make(std::shared_ptr<const PreparedWeights> weights,
                                                    std::span<std::byte> memory);
  const LoadedProgram &program() const { return *weights->program; }
  /// Usage where `bytes` are not those of the tensor; what follows lengths is looked at when they are known.
  Result<void> bindInput(std::size_t index, BoundTensor tensor);
  Result<void> bindState(std::size_t index, BoundTensor tensor);
  Result<void> bindOutput(std::size_t index, BoundTensor tensor);
  /// Usage names what is not bound or too short, and says so while another thread is in run().
  Result<void> run(Stream stream, std::span<const std::int64_t> given);

private:
  BoundSession(std::shared_ptr<const PreparedWeights> weights, BucketContexts contexts)
      : weights(std::move(weights)), contexts(std::move(contexts)) {}
  Result<void> checkSizes(const LengthEdges &edges, std::span<const std::int64_t> given) const;

  std::shared_ptr<const PreparedWeights> weights;
  BucketContexts contexts;
  std::vector<BoundTensor> inputs, states, outputs;
  std::vector<void *> arguments, results; ///< What the current run gives the program.
  std::atomic_flag isRunning;
};

} // namespace kfuse::runtime
