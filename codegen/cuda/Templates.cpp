#include "codegen/cuda/Templates.h"

#include <array>

namespace kfuse::codegen::cuda {

std::span<const KernelTemplate *const> templates() {
  static const std::array<const KernelTemplate *, 9> all{
      &decodeAttentionTemplate(), &chainTemplate(), &rowChainTemplate(),  &sideBySideTemplate(), &matmulTemplate(),
      &columnsTemplate(),         &rowsTemplate(),  &transposeTemplate(), &pointwiseTemplate()};
  return all;
}

} // namespace kfuse::codegen::cuda
