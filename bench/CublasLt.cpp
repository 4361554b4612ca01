#include "bench/CublasLt.h"

#include <dlfcn.h>

namespace kfuse::bench {
namespace {

// Declared here so that the bench builds without the toolkit; cublasLt.h of CUDA 12 and 13.
constexpr int compute32F = 68, real32F = 0, real16F = 2, real16BF = 14;
constexpr int descTransA = 3, transposed = 1, preferWorkspaceBytes = 1;

struct HeuristicResult {
  std::uint64_t algorithm[8];
  std::size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};

struct Library {
  void *handle = nullptr;
  int (*cublasLtCreate)(void **) = nullptr;
  int (*cublasLtMatmulDescCreate)(void **, int computeType, int scaleType) = nullptr;
  int (*cublasLtMatmulDescSetAttribute)(void *, int attribute, const void *, std::size_t) = nullptr;
  int (*cublasLtMatrixLayoutCreate)(void **, int type, std::uint64_t rows, std::uint64_t columns,
                                    std::int64_t ld) = nullptr;
  int (*cublasLtMatmulPreferenceCreate)(void **) = nullptr;
  int (*cublasLtMatmulPreferenceSetAttribute)(void *, int attribute, const void *, std::size_t) = nullptr;
  int (*cublasLtMatmulAlgoGetHeuristic)(void *, void *, void *, void *, void *, void *, void *, int, HeuristicResult *,
                                        int *) = nullptr;
  int (*cublasLtMatmul)(void *, void *, const void *alpha, const void *a, void *, const void *b, void *,
                        const void *beta, const void *c, void *, void *d, void *, const void *algorithm,
                        void *workspace, std::size_t, void *stream) = nullptr;

  bool open() {
    for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
      if (!handle)
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    bool all = handle;
    auto resolve = [&](auto &function, const char *name) {
      function = all ? reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name)) : nullptr;
      all = all && function;
    };
#define KFUSE_RESOLVE(name) resolve(name, #name)
    KFUSE_RESOLVE(cublasLtCreate);
    KFUSE_RESOLVE(cublasLtMatmulDescCreate);
    KFUSE_RESOLVE(cublasLtMatmulDescSetAttribute);
    KFUSE_RESOLVE(cublasLtMatrixLayoutCreate);
    KFUSE_RESOLVE(cublasLtMatmulPreferenceCreate);
    KFUSE_RESOLVE(cublasLtMatmulPreferenceSetAttribute);
    KFUSE_RESOLVE(cublasLtMatmulAlgoGetHeuristic);
    KFUSE_RESOLVE(cublasLtMatmul);
#undef KFUSE_RESOLVE
    return all;
  }
};

/// Its handles live as long as the bench.
class CublasLtKernel : public runtime::LoadedKernel {
public:
  Result<void> prepare(DType type, std::int64_t M, std::int64_t N, std::int64_t K) {
    if (!library.open())
      return Error{ErrorCode::NoDevice, "libcublasLt is not in the loader's path"};
    int stored = type == DType::F32 ? real32F : type == DType::F16 ? real16F : real16BF, count = 0;
    void *preference = nullptr;
    int status = library.cublasLtCreate(&handle);
    // Column-major: y^T[N,M] = w[N,K] x^T[K,M], and row-major w[N,K] is K x N there.
    status |= library.cublasLtMatmulDescCreate(&desc, compute32F, real32F);
    status |= library.cublasLtMatmulDescSetAttribute(desc, descTransA, &transposed, sizeof(transposed));
    status |= library.cublasLtMatrixLayoutCreate(&w, stored, K, N, K);
    status |= library.cublasLtMatrixLayoutCreate(&x, stored, K, M, K);
    status |= library.cublasLtMatrixLayoutCreate(&y, stored, N, M, N);
    status |= library.cublasLtMatmulPreferenceCreate(&preference);
    status |= library.cublasLtMatmulPreferenceSetAttribute(preference, preferWorkspaceBytes, &cublasWorkspaceBytes,
                                                           sizeof(std::size_t));
    status |= library.cublasLtMatmulAlgoGetHeuristic(handle, desc, w, x, y, y, preference, 1, &chosen, &count);
    if (status != 0 || count == 0)
      return Error{ErrorCode::Internal, "cuBLASLt offers no algorithm"};
    return {};
  }

  Result<void> launch(runtime::Stream stream, std::span<void *const> buffers, void *workspace) override {
    float one = 1, zero = 0;
    int status = library.cublasLtMatmul(handle, desc, &one, buffers[1], w, buffers[0], x, &zero, buffers[2], y,
                                        buffers[2], y, chosen.algorithm, workspace, cublasWorkspaceBytes, stream);
    if (status != 0)
      return Error{ErrorCode::Internal, "cublasLtMatmul returned " + std::to_string(status)};
    return {};
  }

private:
  Library library;
  void *handle = nullptr, *desc = nullptr, *w = nullptr, *x = nullptr, *y = nullptr;
  HeuristicResult chosen{};
};

} // namespace

Result<std::unique_ptr<runtime::LoadedKernel>> makeCublasLt(DType type, std::int64_t M, std::int64_t N,
                                                            std::int64_t K) {
  auto kernel = std::make_unique<CublasLtKernel>();
  if (Result<void> prepared = kernel->prepare(type, M, N, K); !prepared)
    return prepared.error();
  return std::unique_ptr<runtime::LoadedKernel>(std::move(kernel));
}

} // namespace kfuse::bench
