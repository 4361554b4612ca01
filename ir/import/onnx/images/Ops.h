// The tables of this folder: ops of tensors with places, [N, C, S1, ..., Sk].
#pragma once

#include "ir/import/onnx/node/OnnxOp.h"

namespace kfuse::ir::onnx {

llvm::ArrayRef<OnnxOp> blockOps();
llvm::ArrayRef<OnnxOp> col2ImOps();
llvm::ArrayRef<OnnxOp> convolutionOps();
llvm::ArrayRef<OnnxOp> gridSampleOps();
llvm::ArrayRef<OnnxOp> poolingOps();
llvm::ArrayRef<OnnxOp> resizeOps();

} // namespace kfuse::ir::onnx
