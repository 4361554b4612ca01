// A session of a pack's program, as the C interface hands it out.
#pragma once

#include "runtime/BucketContexts.h"
#include "runtime/library/PreparedWeights.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kfuse::runtime {

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
