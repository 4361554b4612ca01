// The kernel templates of this folder.
#pragma once

#include "codegen/KernelTemplate.h"

namespace kfuse::codegen::cuda {

const KernelTemplate &chainTemplate();    ///< cuda.chain
const KernelTemplate &rowChainTemplate(); ///< cuda.row_chain

} // namespace kfuse::codegen::cuda
