// Runs of a program as CUDA graphs: captured once, and their nodes patched where other pointers are given.
#pragma once

#include "runtime/Replay.h"
#include "runtime/cuda/PrimaryContext.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace kfuse::runtime::cuda {

/// Keeps a few executable graphs by the pointers that they hold, so that callers who alternate between sets of buffers
/// launch and do nothing else. A set of pointers that none of them holds takes the graph used longest ago, in which the
/// kernels and copies that were given other pointers are patched (cuGraphExecKernelNodeSetParams: about a microsecond
/// a node, where a new capture costs several for every node). Drivers before 12.3 do not tell which node a launch
/// became: they capture anew.
class CudaReplay final : public Replay {
public:
  static constexpr std::size_t mostGraphs = 4; ///< Two sets of outputs for each of two sets of inputs.

  static Result<std::unique_ptr<Replay>> make(const ContextRef &context);
  ~CudaReplay() override;
  Result<bool> isCapturing(Stream stream) override;
  Result<void> launch(Stream stream, std::span<void *const> pointers, const Work &work) override;
  ReplayCounts counts() const override { return done; }

private:
  /// What one kernel or copy was given, in the order of the run.
  struct Given;
  /// A captured run: its graph and the nodes that each kernel or copy became.
  struct Recording;
  /// An executable graph of a recording, and what it holds by now.
  struct Instance;
  class Recorder;
  class Patcher;

  CudaReplay(ContextRef context, StreamHandle recorder);

  Instance *find(std::span<void *const> pointers);
  Result<Instance *> makeRoom(std::span<void *const> pointers, const Work &work);
  Result<void> record(const Work &work);
  Result<Instance> instantiate() const;
  /// Whether the instance now holds `work`; false where it is of other kernels and copies, or the driver refuses.
  Result<bool> patch(Instance &instance, const Work &work);

  ContextRef context;
  StreamHandle recorder; ///< Its own stream, so that the caller's never see a capture.
  std::shared_ptr<const Recording> latest;
  std::vector<Instance> instances;
  std::uint64_t launches = 0;
  ReplayCounts done;
};

} // namespace kfuse::runtime::cuda
