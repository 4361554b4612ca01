// CUDA graphs: work recorded by stream capture, to be launched as a whole.
#pragma once

#include "runtime/Replay.h"
#include "runtime/cuda/PrimaryContext.h"

namespace kfuse::runtime::cuda {

/// What `enqueue` puts on `stream`, recorded instead of run. `stream` is no default stream.
Result<Graph> capture(const ContextRef &context, CUstream stream, const Enqueue &enqueue);
Result<GraphExec> instantiate(const ContextRef &context, const Graph &graph);

} // namespace kfuse::runtime::cuda
