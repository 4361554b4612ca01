// The tables of this folder: what is known when the model is read.
#pragma once

#include "ir/import/onnx/node/OnnxOp.h"

namespace kfuse::ir::onnx {

llvm::ArrayRef<OnnxOp> constantOps();
llvm::ArrayRef<OnnxOp> controlFlowOps();

} // namespace kfuse::ir::onnx
