// The tables of this folder: elementwise ops, reductions and norms, and products.
#pragma once

#include "ir/import/onnx/node/OnnxOp.h"

namespace kfuse::ir::onnx {

llvm::ArrayRef<OnnxOp> einsumOps();
llvm::ArrayRef<OnnxOp> fourierOps();
llvm::ArrayRef<OnnxOp> pointwiseOps();
llvm::ArrayRef<OnnxOp> productOps();
llvm::ArrayRef<OnnxOp> rowOps();
llvm::ArrayRef<OnnxOp> trigonometryOps();

} // namespace kfuse::ir::onnx
