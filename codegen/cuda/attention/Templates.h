// The kernel templates of this folder.
#pragma once

#include "codegen/KernelTemplate.h"

namespace kfuse::codegen::cuda {

const KernelTemplate &decodeAttentionTemplate(); ///< cuda.decode_attention
const KernelTemplate &flashAttentionTemplate();  ///< cuda.flash_attention

} // namespace kfuse::codegen::cuda
