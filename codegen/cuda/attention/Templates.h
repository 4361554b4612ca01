// The kernel templates of this folder.
#pragma once

#include "codegen/KernelTemplate.h"

namespace kfuse::codegen::cuda {

const KernelTemplate &decodeAttentionTemplate(); ///< cuda.decode_attention

} // namespace kfuse::codegen::cuda
