#include "runtime/cuda/CudaGraph.h"

namespace kfuse::runtime::cuda {

Result<Graph> capture(const ContextRef &context, CUstream stream, const Enqueue &enqueue) {
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

} // namespace kfuse::runtime::cuda
