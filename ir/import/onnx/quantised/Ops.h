// The tables of this folder: tensors of 8 and 4 bits with their scales, and what multiplies or looks up such.
#pragma once

#include "ir/import/onnx/node/OnnxOp.h"

namespace kfuse::ir::onnx {

llvm::ArrayRef<OnnxOp> blockQuantisedOps();
llvm::ArrayRef<OnnxOp> linearQuantisedOps();

} // namespace kfuse::ir::onnx
