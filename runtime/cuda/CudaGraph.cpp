#include "runtime/cuda/CudaGraph.h"

namespace kfuse::runtime::cuda {

Result<Graph> capture(const ContextRef &context, CUstream stream, const Replay::Enqueue &enqueue) {
  Current current(*context);
  const DriverApi &api = context->api;
  // Thread-local: other threads may allocate memory meanwhile.
  KFUSE_DRIVER(api, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  Result<void> enqueued = enqueue(stream);
  CUgraph handle = nullptr;
  CUresult ended = api.cuStreamEndCapture(stream, &handle);
  Graph graph(context, handle);
  if (!enqueued)
    return enqueued.error();
  if (Result<void> checked = api.check(ended, "cuStreamEndCapture"); !checked)
    return checked.error();
  return graph;
}

Result<GraphExec> instantiate(const ContextRef &context, const Graph &graph) {
  Current current(*context);
  CUgraphExec handle = nullptr;
  KFUSE_DRIVER(context->api, cuGraphInstantiate(&handle, graph.get(), 0));
  return GraphExec(context, handle);
}

Result<std::unique_ptr<Replay>> CudaReplay::make(const ContextRef &context) {
  Result<StreamHandle> recorder = makeStream(context);
  if (!recorder)
    return recorder.error();
  return std::unique_ptr<Replay>(new CudaReplay(context, std::move(*recorder)));
}

Result<bool> CudaReplay::isCapturing(Stream stream) {
  if (stream == nullptr)
    return false; // The default stream cannot be captured.
  Current current(*context);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  KFUSE_DRIVER(context->api, cuStreamIsCapturing(static_cast<CUstream>(stream), &status));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Result<void> CudaReplay::record(const Enqueue &enqueue) {
  Result<Graph> graph = capture(context, recorder.get(), enqueue);
  if (!graph)
    return graph.error();
  if (exec) {
    Current current(*context);
    CUgraphExecUpdateResultInfo info{};
    if (context->api.cuGraphExecUpdate(exec.get(), graph->get(), &info) == CUDA_SUCCESS)
      return {};
    // Drivers may refuse an update (of other attributes, say); a fresh graph always does.
    KFUSE_DRIVER(context->api, cuCtxSynchronize());
  }
  Result<GraphExec> fresh = instantiate(context, *graph);
  if (!fresh)
    return fresh.error();
  exec = std::move(*fresh);
  return {};
}

Result<void> CudaReplay::launch(Stream stream) {
  Current current(*context);
  KFUSE_DRIVER(context->api, cuGraphLaunch(exec.get(), static_cast<CUstream>(stream)));
  return {};
}

} // namespace kfuse::runtime::cuda
