// Constants of the IR as host tensors, and back.
#pragma once

#include "ir/reference/Tensor.h"
#include "kfuse/error.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace kfuse::reference {

/// The tensor a constant holds, splats written out. BadModel where its data is missing (a resource
/// that was elided when the text was printed).
Result<HostTensor> tensorOf(mlir::ElementsAttr attribute);

/// A constant of the tensor; a splat where all elements are equal.
mlir::DenseElementsAttr attributeOf(const HostTensor &tensor, mlir::MLIRContext *context);

} // namespace kfuse::reference
