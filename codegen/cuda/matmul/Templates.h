// The kernel templates of this folder.
#pragma once

#include "codegen/cuda/matmul/MatmulVariant.h"

namespace kfuse::codegen::cuda {

const KernelTemplate &matmulTemplate();           ///< cuda.matmul: all of those below
const MatmulVariant &gemvTemplate();              ///< cuda.gemv
const MatmulVariant &matmulLowBitsTemplate();     ///< cuda.matmul_low_bits
const MatmulVariant &matmulStreamTemplate();      ///< cuda.matmul_stream
const MatmulVariant &matmulSm90SplitTemplate();   ///< cuda.matmul_sm90_split
const MatmulVariant &matmulSm90LowBitsTemplate(); ///< cuda.matmul_sm90_low_bits
const MatmulVariant &matmulSm80Template();        ///< cuda.matmul_sm80
const MatmulVariant &matmulSm90Template();        ///< cuda.matmul_sm90
const MatmulVariant &matmulSimtTemplate();        ///< cuda.matmul_simt

} // namespace kfuse::codegen::cuda
