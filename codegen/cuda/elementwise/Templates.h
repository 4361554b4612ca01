// The kernel templates of this folder.
#pragma once

#include "codegen/KernelTemplate.h"

namespace kfuse::codegen::cuda {

const KernelTemplate &pointwiseTemplate();  ///< cuda.pointwise
const KernelTemplate &sideBySideTemplate(); ///< cuda.side_by_side
const KernelTemplate &transposeTemplate();  ///< cuda.transpose

} // namespace kfuse::codegen::cuda
