// The tables of this folder: transformers, as ONNX and ONNX Runtime write them as one op.
#pragma once

#include "ir/import/onnx/node/OnnxOp.h"

namespace kfuse::ir::onnx {

llvm::ArrayRef<OnnxOp> fusedAttentionOps();
llvm::ArrayRef<OnnxOp> groupQueryOps();
llvm::ArrayRef<OnnxOp> optimisedOps();
llvm::ArrayRef<OnnxOp> packedAttentionOps();
llvm::ArrayRef<OnnxOp> transformerOps();

} // namespace kfuse::ir::onnx
