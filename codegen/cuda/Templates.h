// The kernel templates of the CUDA targets.
#pragma once

#include "codegen/KernelTemplate.h"
#include "codegen/cuda/MatmulWay.h"

namespace kfuse::codegen::cuda {

/// Most specific first.
std::span<const KernelTemplate *const> templates();

const KernelTemplate &matmulTemplate();          ///< cuda.matmul: all of the next six
const MatmulWay &gemvTemplate();                 ///< cuda.gemv
const MatmulWay &matmulStreamTemplate();         ///< cuda.matmul_stream
const MatmulWay &matmulSm90SplitTemplate();      ///< cuda.matmul_sm90_split
const MatmulWay &matmulSm80Template();           ///< cuda.matmul_sm80
const MatmulWay &matmulSm90Template();           ///< cuda.matmul_sm90
const MatmulWay &matmulSimtTemplate();           ///< cuda.matmul_simt
const KernelTemplate &decodeAttentionTemplate(); ///< cuda.decode_attention
const KernelTemplate &chainTemplate();           ///< cuda.chain
const KernelTemplate &rowChainTemplate();        ///< cuda.row_chain
const KernelTemplate &columnsTemplate();         ///< cuda.columns
const KernelTemplate &rowsTemplate();            ///< cuda.rows
const KernelTemplate &transposeTemplate();       ///< cuda.transpose
const KernelTemplate &pointwiseTemplate();       ///< cuda.pointwise
const KernelTemplate &sideBySideTemplate();      ///< cuda.side_by_side

} // namespace kfuse::codegen::cuda
