// The kernel templates of this folder.
#pragma once

#include "codegen/KernelTemplate.h"

namespace kfuse::codegen::cuda {

const KernelTemplate &columnsTemplate(); ///< cuda.columns
const KernelTemplate &rowsTemplate();    ///< cuda.rows
const KernelTemplate &windowsTemplate(); ///< cuda.windows

} // namespace kfuse::codegen::cuda
