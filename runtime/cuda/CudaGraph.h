// CUDA graphs: work recorded by stream capture and replayed with one launch.
#pragma once

#include "runtime/Device.h"
#include "runtime/cuda/PrimaryContext.h"

namespace kfuse::runtime::cuda {

/// What `enqueue` puts on `stream`, recorded instead of run. `stream` is no default stream.
Result<Graph> capture(const ContextRef &context, CUstream stream, const Replay::Enqueue &enqueue);
Result<GraphExec> instantiate(const ContextRef &context, const Graph &graph);

/// A graph recorded on a stream of its own, so that the caller's streams never see a capture.
class CudaReplay final : public Replay {
public:
  static Result<std::unique_ptr<Replay>> make(const ContextRef &context);
  Result<bool> isCapturing(Stream stream) override;
  Result<void> record(const Enqueue &enqueue) override;
  Result<void> launch(Stream stream) override;

private:
  CudaReplay(ContextRef context, StreamHandle recorder) : context(std::move(context)), recorder(std::move(recorder)) {}

  ContextRef context;
  StreamHandle recorder;
  GraphExec exec;
};

} // namespace kfuse::runtime::cuda
