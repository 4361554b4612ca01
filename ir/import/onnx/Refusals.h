// What is said about ops that kfuse does not have, and what to do about them.
#pragma once

#include "ir/import/onnx/file/onnx.pb.h"
#include "kfuse/error.h"

namespace kfuse::ir::onnx {

/// One error for all ops of `graph` that kfuse does not have: whoever exports the model wants to know the whole list.
/// Graphs inside of nodes are not looked into: which of them count is known later.
Result<void> checkSupported(const ::onnx::GraphProto &graph);

} // namespace kfuse::ir::onnx
