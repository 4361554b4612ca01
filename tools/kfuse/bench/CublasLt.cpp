#include "tools/kfuse/bench/CublasLt.h"
#include "tools/kfuse/bench/CublasLtDeclarations.h"

#include <array>
#include <dlfcn.h>

namespace kfuse::tools {
namespace {

using namespace cublaslt;

constexpr int mostAlgorithms = 64; ///< Asked for; the library offers about eight.

struct Library {
  void *handle = nullptr;
  int (*cublasLtCreate)(void **) = nullptr;
  int (*cublasLtMatmulDescCreate)(void **, int computeType, int scaleType) = nullptr;
  int (*cublasLtMatmulDescSetAttribute)(void *, int attribute, const void *, std::size_t) = nullptr;
  int (*cublasLtMatrixLayoutCreate)(void **, int type, std::uint64_t rows, std::uint64_t columns,
                                    std::int64_t ld) = nullptr;
  int (*cublasLtMatrixLayoutSetAttribute)(void *, int attribute, const void *, std::size_t) = nullptr;
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
    KFUSE_RESOLVE(cublasLtMatrixLayoutSetAttribute);
    KFUSE_RESOLVE(cublasLtMatmulPreferenceCreate);
    KFUSE_RESOLVE(cublasLtMatmulPreferenceSetAttribute);
    KFUSE_RESOLVE(cublasLtMatmulAlgoGetHeuristic);
    KFUSE_RESOLVE(cublasLtMatmul);
#undef KFUSE_RESOLVE
    return all;
  }
};

/// A product's description, shared by its algorithms. Handles live as long as the process.
struct Problem {
  Library library;
  void *handle = nullptr, *desc = nullptr, *w = nullptr, *x = nullptr, *y = nullptr;
};

int dataType(DType type) {
  switch (type) {
  case DType::F16:
    return real16F;
  case DType::BF16:
    return real16BF;
  case DType::F8E4M3:
    return real8E4M3;
  case DType::F8E5M2:
    return real8E5M2;
  default:
    return real32F;
  }
}

class CublasLtKernel : public runtime::LoadedKernel {
public:
  CublasLtKernel(std::shared_ptr<const Problem> problem, const HeuristicResult &chosen)
      : problem(std::move(problem)), chosen(chosen) {}

  Result<void> launch(runtime::Stream stream, std::span<void *const> buffers, void *workspace) override {
    float one = 1, zero = 0;
    int status = problem->library.cublasLtMatmul(problem->handle, problem->desc, &one, buffers[1], problem->w,
                                                 buffers[0], problem->x, &zero, buffers[2], problem->y, buffers[2],
                                                 problem->y, chosen.algorithm, workspace, cublasWorkspaceBytes, stream);
    if (status != success)
      return Error{ErrorCode::Internal, "cublasLtMatmul returned " + std::to_string(status)};
    return {};
  }

private:
  std::shared_ptr<const Problem> problem;
  HeuristicResult chosen;
};

/// A product's kernel, called once a batch.
class OneByOne : public runtime::LoadedKernel {
public:
  OneByOne(std::unique_ptr<runtime::LoadedKernel> kernel, std::int64_t batches, std::array<std::size_t, 3> batchBytes)
      : kernel(std::move(kernel)), batches(batches), batchBytes(batchBytes) {}

  Result<void> launch(runtime::Stream stream, std::span<void *const> buffers, void *workspace) override {
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      std::array<void *, 3> at;
      for (std::size_t i = 0; i < at.size(); ++i)
        at[i] = buffers[i] ? static_cast<std::byte *>(buffers[i]) + batch * batchBytes[i] : nullptr;
      if (Result<void> launched = kernel->launch(stream, at, workspace); !launched)
        return launched;
    }
    return {};
  }

private:
  std::unique_ptr<runtime::LoadedKernel> kernel;
  std::int64_t batches;
  std::array<std::size_t, 3> batchBytes;
};

/// A row-major matrix, column-major as the library sees it, or as many as there are batches.
int makeLayout(const Library &library, void **layout, DType type, std::int64_t rows, std::int64_t columns,
               std::int64_t batches) {
  int status = library.cublasLtMatrixLayoutCreate(layout, dataType(type), columns, rows, columns);
  if (batches == 1)
    return status;
  const auto count = static_cast<std::int32_t>(batches);
  const std::int64_t offset = rows * columns;
  status |= library.cublasLtMatrixLayoutSetAttribute(*layout, layoutBatchCount, &count, sizeof(count));
  status |= library.cublasLtMatrixLayoutSetAttribute(*layout, layoutBatchOffset, &offset, sizeof(offset));
  return status;
}

/// Those that take all batches in one call; none where the heuristic offers none.
Result<std::vector<std::unique_ptr<runtime::LoadedKernel>>> stridedAlgorithms(DType type, DType result, bool tf32,
                                                                              const Products &products) {
  const auto [batches, M, N, K] = products;
  auto problem = std::make_shared<Problem>();
  const Library &library = problem->library;
  if (!problem->library.open())
    return Error{ErrorCode::NoDevice, "libcublasLt is not in the loader's path; add its folder to LD_LIBRARY_PATH"};
  int count = 0;
  void *preference = nullptr;
  std::array<HeuristicResult, mostAlgorithms> offered{};
  int status = library.cublasLtCreate(&problem->handle);
  // Column-major: y^T[N,M] = w[N,K] x^T[K,M], and row-major w[N,K] is K x N there.
  status |= library.cublasLtMatmulDescCreate(&problem->desc, tf32 ? computeTf32 : compute32F, real32F);
  status |= library.cublasLtMatmulDescSetAttribute(problem->desc, descTransA, &transposed, sizeof(transposed));
  if (const std::int8_t fast = 1; isFloat8(type)) // The tensor cores' own sums, as ours.
    status |= library.cublasLtMatmulDescSetAttribute(problem->desc, descFastAccumulation, &fast, sizeof(fast));
  status |= makeLayout(library, &problem->w, type, N, K, batches);
  status |= makeLayout(library, &problem->x, type, M, K, batches);
  status |= makeLayout(library, &problem->y, result, M, N, batches);
  status |= library.cublasLtMatmulPreferenceCreate(&preference);
  status |= library.cublasLtMatmulPreferenceSetAttribute(preference, preferWorkspaceBytes, &cublasWorkspaceBytes,
                                                         sizeof(std::size_t));
  if (status != success)
    return Error{ErrorCode::Internal, "cuBLASLt's description of a product could not be made, status " +
                                          std::to_string(status) + " (of several calls, or-ed)"};
  const int asked =
      library.cublasLtMatmulAlgoGetHeuristic(problem->handle, problem->desc, problem->w, problem->x, problem->y,
                                             problem->y, preference, mostAlgorithms, offered.data(), &count);
  if (asked != success && asked != notSupported && asked != invalidValue)
    return Error{ErrorCode::Internal, "cublasLtMatmulAlgoGetHeuristic returned " + std::to_string(asked)};
  std::vector<std::unique_ptr<runtime::LoadedKernel>> kernels;
  for (int i = 0; asked == success && i < count; ++i)
    if (offered[i].state == success)
      kernels.push_back(std::make_unique<CublasLtKernel>(problem, offered[i]));
  return kernels;
}

} // namespace

Result<std::vector<std::unique_ptr<runtime::LoadedKernel>>> cublasLtAlgorithms(DType type, DType result, bool tf32,
                                                                               const Products &products) {
  auto kernels = stridedAlgorithms(type, result, tf32, products);
  if (!kernels || products.batches == 1)
    return kernels;
  const auto [batches, M, N, K] = products;
  auto single = stridedAlgorithms(type, result, tf32, {1, M, N, K});
  if (!single)
    return single.error();
  auto bytesOf = [](DType of, std::int64_t elements) { return byteWidth(of) * static_cast<std::size_t>(elements); };
  for (std::unique_ptr<runtime::LoadedKernel> &kernel : *single)
    kernels->push_back(std::make_unique<OneByOne>(
        std::move(kernel), batches, std::array{bytesOf(type, M * K), bytesOf(type, N * K), bytesOf(result, M * N)}));
  return kernels;
}

Result<void> dropFailing(std::vector<std::unique_ptr<runtime::LoadedKernel>> &kernels, runtime::Device &device,
                         std::span<void *const> buffers, void *workspace) {
  std::erase_if(kernels, [&](const std::unique_ptr<runtime::LoadedKernel> &kernel) {
    return !kernel->launch(nullptr, buffers, workspace);
  });
  return device.synchronize(nullptr);
}

} // namespace kfuse::tools
