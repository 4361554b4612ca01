// Functions that a model defines for itself, as PyTorch's exporter writes them, replaced by their bodies.
#pragma once

#include "ir/import/onnx/file/onnx.pb.h"
#include "kfuse/error.h"

namespace kfuse::ir::onnx {

/// Leaves no call of a local function in the graph. BadModel for a function that calls itself, or a graph
/// that grows beyond a million nodes.
Result<void> inlineFunctions(::onnx::ModelProto &model);

} // namespace kfuse::ir::onnx
