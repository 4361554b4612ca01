// A cuBLASLt for machines without one: of bf16 operands its heuristic offers four algorithms, the second of which its
// state rules out and the third of which cannot be called; of 8-bit floats it offers none.
#include "tools/kfuse/bench/CublasLtDeclarations.h"

using namespace kfuse::tools::cublaslt;

namespace {

int handle = 0, desc = 0, preference = 0, layout = 0, layoutOf8Bits = 0;

} // namespace

extern "C" {

int cublasLtCreate(void **made) {
  *made = &handle;
  return success;
}
int cublasLtMatmulDescCreate(void **made, int, int) {
  *made = &desc;
  return success;
}
int cublasLtMatmulDescSetAttribute(void *, int, const void *, std::size_t) { return success; }
int cublasLtMatrixLayoutCreate(void **made, int type, std::uint64_t, std::uint64_t, std::int64_t) {
  *made = type == real8E5M2 ? &layoutOf8Bits : &layout;
  return success;
}
int cublasLtMatrixLayoutSetAttribute(void *, int, const void *, std::size_t) { return success; }
int cublasLtMatmulPreferenceCreate(void **made) {
  *made = &preference;
  return success;
}
int cublasLtMatmulPreferenceSetAttribute(void *, int, const void *, std::size_t) { return success; }
int cublasLtMatmulAlgoGetHeuristic(void *, void *, void *left, void *, void *, void *, void *, int,
                                   HeuristicResult *offered, int *count) {
  if (left == &layoutOf8Bits)
    return notSupported;
  *count = 4;
  for (std::uint64_t i = 0; i < 4; ++i)
    offered[i].algorithm[0] = i, offered[i].state = i == 1 ? notSupported : success;
  return success;
}
int cublasLtMatmul(void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *,
                   void *, void *, void *, const std::uint64_t *algorithm, void *, std::size_t, void *) {
  return *algorithm == 2 ? executionFailed : success;
}
}
