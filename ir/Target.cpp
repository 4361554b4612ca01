#include "ir/Target.h"

#include <array>

namespace kfuse::ir {
namespace {

constexpr double teraPerUs = 1e6; // 1 TB/s or 1 TFLOP/s in units per microsecond.

// Datasheet figures: dense rates with f32 accumulation, no sparsity. Launch times are those between
// dependent nodes of one CUDA graph (1.3 us measured on an H200).
const std::array<Target, 9> targets{{
    {"cpu", "any x86-64 with AVX2 or AVX-512", 0, 2, 1 << 20, 0, 0, 32e6, 0.03 * teraPerUs, 2.0, 0.1 * teraPerUs,
     0.1 * teraPerUs},
    {"sm_80", "A100", 80, 108, 166912, 65536, 2048, 40e6, 2.0 * teraPerUs, 2.0, 19.5 * teraPerUs, 312 * teraPerUs},
    {"sm_86", "A10, A40, RTX 3090", 86, 84, 101376, 65536, 1536, 6e6, 0.7 * teraPerUs, 2.0, 37 * teraPerUs,
     150 * teraPerUs},
    {"sm_87", "Jetson Orin", 87, 16, 166912, 65536, 1536, 4e6, 0.2 * teraPerUs, 3.0, 5.3 * teraPerUs, 42 * teraPerUs},
    {"sm_89", "L4, L40S, RTX 4090", 89, 128, 101376, 65536, 1536, 72e6, 1.0 * teraPerUs, 2.0, 82 * teraPerUs,
     165 * teraPerUs},
    {"sm_90a", "H100, H200", 90, 132, 232448, 65536, 2048, 50e6, 4.8 * teraPerUs, 1.3, 67 * teraPerUs, 989 * teraPerUs},
    {"sm_100a", "B200", 100, 148, 232448, 65536, 2048, 126e6, 8.0 * teraPerUs, 1.3, 80 * teraPerUs, 2250 * teraPerUs},
    {"sm_103a", "B300", 103, 148, 232448, 65536, 2048, 126e6, 8.0 * teraPerUs, 1.3, 80 * teraPerUs, 2500 * teraPerUs},
    {"sm_120a", "RTX 5090, RTX PRO 6000", 120, 170, 101376, 65536, 1536, 96e6, 1.8 * teraPerUs, 1.5, 105 * teraPerUs,
     210 * teraPerUs},
}};

} // namespace

double Target::matmulFlopsPerUs(DType type, bool tf32) const {
  if (tf32 && capability >= 80)
    return halfFlopsPerUs / 2;
  if (isFloat8(type) && capability >= 89)
    return 2 * halfFlopsPerUs;
  return type == DType::F32 ? f32FlopsPerUs : halfFlopsPerUs;
}

std::span<const Target> knownTargets() { return targets; }

const Target *findTarget(std::string_view name) {
  for (const Target &target : targets)
    if (target.name == name || target.name == std::string(name) + "a")
      return &target;
  return nullptr;
}

} // namespace kfuse::ir
