// The ONNX ops that kfuse has.
#pragma once

#include "ir/import/onnx/node/OnnxOp.h"

#include <vector>

namespace kfuse::ir::onnx {

/// The tables of all folders.
std::vector<llvm::ArrayRef<OnnxOp>> opTables();

/// The row of a node's op, or null.
const OnnxOp *findOp(const ::onnx::NodeProto &node);

} // namespace kfuse::ir::onnx
