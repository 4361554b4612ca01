#include "bench/OpenBlas.h"

#include <dlfcn.h>

namespace kfuse::bench {
namespace {

// Declared here so that the bench builds without OpenBLAS; cblas.h of its 32-bit interface.
constexpr int rowMajor = 101, plain = 111, transposedCode = 112;

struct Library {
  void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  void (*sgemm)(int order, int transA, int transB, int m, int n, int k, float alpha, const float *a, int lda,
                const float *b, int ldb, float beta, float *c, int ldc) = nullptr;
  void (*setThreads)(int) = nullptr;
  char *(*config)() = nullptr;

  Library() {
    auto resolve = [&](auto &function, const char *name) {
      function = handle ? reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name)) : nullptr;
    };
    resolve(sgemm, "cblas_sgemm");
    resolve(setThreads, "openblas_set_num_threads");
    resolve(config, "openblas_get_config");
  }
  bool isThere() const { return sgemm && setThreads && config; }
};

const Library &library() {
  static const Library loaded;
  return loaded;
}

class OpenBlasKernel final : public runtime::LoadedKernel {
public:
  OpenBlasKernel(int M, int N, int K, bool transposed) : M(M), N(N), K(K), transposed(transposed) {}

  Result<void> launch(runtime::Stream, std::span<void *const> buffers, void *) override {
    library().sgemm(rowMajor, plain, transposed ? transposedCode : plain, M, N, K, 1,
                    static_cast<const float *>(buffers[0]), K, static_cast<const float *>(buffers[1]),
                    transposed ? K : N, 0, static_cast<float *>(buffers[2]), N);
    return {};
  }

private:
  int M, N, K;
  bool transposed;
};

} // namespace

Result<std::unique_ptr<runtime::LoadedKernel>> makeOpenBlas(std::int64_t M, std::int64_t N, std::int64_t K,
                                                            bool transposed, int threads) {
  if (!library().isThere())
    return Error{ErrorCode::NoDevice, "libopenblas.so.0 is not there: apt-get install libopenblas0-pthread"};
  library().setThreads(threads);
  return std::unique_ptr<runtime::LoadedKernel>(
      std::make_unique<OpenBlasKernel>(static_cast<int>(M), static_cast<int>(N), static_cast<int>(K), transposed));
}

std::string describeOpenBlas() { return library().isThere() ? library().config() : "no OpenBLAS"; }

} // namespace kfuse::bench
