// The kernel templates of this room.
#pragma once

#include "codegen/cuda/matmul/MatmulWay.h"

namespace kfuse::codegen::cuda {

const KernelTemplate &matmulTemplate();     ///< cuda.matmul: all of those below
const MatmulWay &gemvTemplate();            ///< cuda.gemv
const MatmulWay &matmulStreamTemplate();    ///< cuda.matmul_stream
const MatmulWay &matmulSm90SplitTemplate(); ///< cuda.matmul_sm90_split
const MatmulWay &matmulSm80Template();      ///< cuda.matmul_sm80
const MatmulWay &matmulSm90Template();      ///< cuda.matmul_sm90
const MatmulWay &matmulSimtTemplate();      ///< cuda.matmul_simt

} // namespace kfuse::codegen::cuda
