// matmul
// func.func @f(%arg0: tensor<2x11x4x16xbf16>, %arg1: tensor<2x4x16x24xbf16>) -> tensor<2x4x24x11xbf16> {
//   %0 = kfuse.transpose %arg0 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x11x4x16xbf16>) -> tensor<2x4x11x16xbf16>
//   %1 = kfuse.matmul %0, %arg1 : (tensor<2x4x11x16xbf16>, tensor<2x4x16x24xbf16>) -> tensor<2x4x11x24xbf16>
//   %2 = kfuse.transpose %1 {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x4x11x24xbf16>) -> tensor<2x4x24x11xbf16>
//   return %2 : tensor<2x4x24x11xbf16>
// }
// config: blocks_k=1,groups_k=1,k=64,m=64,n=64,split_k=1,stages=4,swap=0,swizzle=1
// bound on sm_90a: 0.00 us; 0.00 us for 0.013 MB, 0.00 us for 0.000 GFLOP
#include <kfuse/gemm_sm90_split.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int M = 11, N = 24, K = 16, batches = 8;
  static constexpr int tileM = 64, tileN = 64, tileK = 64, threads = 192;
  static constexpr int rows = 11, columns = 24;
  static constexpr int tileRows = 64, tileColumns = 64;
  static constexpr int stages = 4, ringBytes = 65536;
  static constexpr int clusterRows = 1, clusterColumns = 1;
  static constexpr int blocksK = 1, groupsK = 1;
  static constexpr bool swapped = false;
  static constexpr int splitK = 1, tileSwizzle = 1, epilogueVector = 4, finishThreads = 256;
};

struct Rows {
  static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
  static constexpr int rows = 11, depth = 16, batches = 48, fetchers = 0;
  static __device__ __forceinline__ int batch(Index batch) {
    const Index d0 = batch / 4u, d1 = batch % 4u;
    return d0 * 44 + d1;
  }
};

struct Columns {
  static constexpr bool contiguousK = false, isFixed = false, isPermuted = false;
  static constexpr int rows = 24, depth = 16, batches = 8, fetchers = 0;
  static __device__ __forceinline__ int batch(Index batch) {
    const Index d0 = batch / 4u, d1 = batch % 4u;
    return d0 * 4 + d1;
  }
};

struct Product {
  static __device__ __forceinline__ void multiplyAdd(float (&d)[32], unsigned long long rows, unsigned long long columns, int accumulate) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %34, 0;\n\twgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 1;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "l"(rows), "l"(columns), "r"(accumulate));
  }
};

struct Epilogue {
  static constexpr bool lanesAlongRows = false;
  bf16 *out0;

  struct Operands {
  };
  __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
    const Index d0 = batch / 4u, d1 = batch % 4u;
  }
  __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 4> &acc, Index batch, Index m, Index n, int lanes) const {
    const Index d0 = batch / 4u, d1 = batch % 4u;
    Vector<float, 4> y0;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      y0[j] = acc[j];
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
      encode(out0[d0 * 1056 + d1 * 264 + (n + j) * 11 + m], y0[j]);
    }
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_matmul(const __grid_constant__ TensorMap rowsMap, const __grid_constant__ TensorMap columnsMap, const bf16 *in0, const bf16 *in1, bf16 *__restrict__ out0) {
  gemmSm90Split<Config, Product>(Side<Rows>{&rowsMap}, Side<Columns>{&columnsMap}, ToRows<Epilogue>{Epilogue{out0}});
}
