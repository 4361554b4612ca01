#include "codegen/cuda/Templates.h"

#include <array>

namespace kfuse::codegen::cuda {

std::span<const KernelTemplate *const> templates() {
  static const std::array all{&decodeAttentionTemplate(), &flashAttentionTemplate(), &chainTemplate(),
                              &rowChainTemplate(),        &sideBySideTemplate(),     &matmulTemplate(),
                              &windowsTemplate(),         &columnsTemplate(),        &rowsTemplate(),
                              &transposeTemplate(),       &pointwiseTemplate()};
  return all;
}

} // namespace kfuse::codegen::cuda
