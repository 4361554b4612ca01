// The tables of this folder: ops that move elements.
#pragma once

#include "ir/import/onnx/node/OnnxOp.h"

namespace kfuse::ir::onnx {

llvm::ArrayRef<OnnxOp> indexingOps();
llvm::ArrayRef<OnnxOp> layoutOps();
llvm::ArrayRef<OnnxOp> rankingOps();
llvm::ArrayRef<OnnxOp> scatterOps();

} // namespace kfuse::ir::onnx
