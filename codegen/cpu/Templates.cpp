#include "codegen/cpu/Templates.h"

#include <array>

namespace kfuse::codegen::cpu {

std::span<const KernelTemplate *const> templates() {
  static const std::array all{&attention(), &matmul(), &rows(), &pointwise()};
  return all;
}

} // namespace kfuse::codegen::cpu
