// matmul
// func.func @f(%arg0: tensor<2x11x48xbf16>, %arg1: tensor<48x64xbf16>) -> tensor<2x4x11x16xbf16> {
//   %0 = kfuse.matmul %arg0, %arg1 : (tensor<2x11x48xbf16>, tensor<48x64xbf16>) -> tensor<2x11x64xbf16>
//   %1 = kfuse.reshape %0 : (tensor<2x11x64xbf16>) -> tensor<2x11x4x16xbf16>
//   %2 = kfuse.transpose %1 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x11x4x16xbf16>) -> tensor<2x4x11x16xbf16>
//   return %2 : tensor<2x4x11x16xbf16>
// }
// config: blocks_k=1,groups_k=1,k=64,m=32,n=64,split_k=1,stages=4,swap=1,swizzle=1
// bound on sm_90a: 0.00 us; 0.00 us for 0.011 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/gemm_sm90_split.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int M = 11, N = 64, K = 48, batches = 2;
  static constexpr int tileM = 32, tileN = 64, tileK = 64, threads = 192;
  static constexpr int rows = 64, columns = 11;
  static constexpr int tileRows = 64, tileColumns = 32;
  static constexpr int stages = 4, ringBytes = 49152;
  static constexpr int clusterRows = 1, clusterColumns = 1;
  static constexpr int blocksK = 1, groupsK = 1;
  static constexpr bool swapped = true;
  static constexpr int splitK = 1, tileSwizzle = 1, epilogueVector = 8, finishThreads = 256;
};

struct Rows {
  static constexpr bool contiguousK = false, isFixed = false, isPermuted = false;
  static constexpr int rows = 64, depth = 48, batches = 1, fetchers = 0;
  static __device__ __forceinline__ int batch(Index batch) {
    const Index d0 = batch;
    return 0;
  }
};

struct Columns {
  static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
  static constexpr int rows = 11, depth = 48, batches = 2, fetchers = 0;
  static __device__ __forceinline__ int batch(Index batch) {
    const Index d0 = batch;
    return d0;
  }
};

struct Product {
  static __device__ __forceinline__ void multiplyAdd(float (&d)[16], unsigned long long rows, unsigned long long columns, int accumulate) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %18, 0;\n\twgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 1, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "l"(rows), "l"(columns), "r"(accumulate));
  }
};

struct Epilogue {
  static constexpr bool lanesAlongRows = false;
  bf16 *out0;

  struct Operands {
  };
  __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
    const Index d0 = batch;
  }
  __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 8> &acc, Index batch, Index m, Index n, int lanes) const {
    const Index d0 = batch;
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      y0[j] = acc[j];
    }
    storeVector<8, 8>(out0 + (d0 * 704 + n / 16u * 176 + m * 16 + n % 16u), y0);
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_matmul(const __grid_constant__ TensorMap rowsMap, const __grid_constant__ TensorMap columnsMap, const bf16 *in0, const bf16 *in1, bf16 *__restrict__ out0) {
  gemmSm90Split<Config, Product>(Side<Rows>{&rowsMap}, Side<Columns>{&columnsMap}, Epilogue{out0});
}
