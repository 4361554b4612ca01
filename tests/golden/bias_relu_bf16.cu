// matmul + add + relu
// func.func @f(%arg0: tensor<3x67x72xbf16>, %arg1: tensor<3x200x72xbf16>, %arg2: tensor<3x1x200xbf16>) -> tensor<3x67x200xbf16> {
//   %0 = kfuse.matmul %arg0, %arg1 {transpose_b} : (tensor<3x67x72xbf16>, tensor<3x200x72xbf16>) -> tensor<3x67x200xbf16>
//   %1 = kfuse.add %0, %arg2 : (tensor<3x67x200xbf16>, tensor<3x1x200xbf16>) -> tensor<3x67x200xbf16>
//   %2 = kfuse.relu %1 : (tensor<3x67x200xbf16>) -> tensor<3x67x200xbf16>
//   return %2 : tensor<3x67x200xbf16>
// }
// config: cluster_m=1,cluster_n=2,k=64,m=64,n=128,pingpong=1,split_k=1,stages=4,swizzle=1,swizzle_n=0
// bound on sm_90a: 0.04 us; 0.04 us for 0.197 MB, 0.01 us for 0.006 GFLOP
#include <kfuse/gemm_sm90.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int M = 67, N = 200, K = 72, batches = 3;
  static constexpr int tileM = 64, tileN = 128, tileK = 64, threads = 384;
  static constexpr int rows = 67, columns = 200;
  static constexpr int tileRows = tileM, tileColumns = tileN, stages = 4;
  static constexpr int clusterRows = 1, clusterColumns = 2;
  static constexpr bool pingPong = true, tileSwizzleColumns = false;
  static constexpr int streamKTiles = 0, contributors = 0, segments = 1, segmentBlocks = 0;
  static constexpr int splitK = 1, tileSwizzle = 1, epilogueVector = 2, finishThreads = 256;
};

struct Rows {
  static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
  static constexpr int rows = 67, depth = 72, batches = 3, fetchers = 0;
  static __device__ __forceinline__ int batch(Index batch) {
    const Index d0 = batch;
    return d0;
  }
};

struct Columns {
  static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
  static constexpr int rows = 200, depth = 72, batches = 3, fetchers = 0;
  static __device__ __forceinline__ int batch(Index batch) {
    const Index d0 = batch;
    return d0;
  }
};

struct Product {
  static __device__ __forceinline__ void multiplyAdd(float (&d)[64], unsigned long long rows, unsigned long long columns, int accumulate) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %66, 0;\n\twgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "l"(rows), "l"(columns), "r"(accumulate));
  }
};

struct Epilogue {
  using Result = bf16;
  const bf16 *in2;
  bf16 *out0;

  struct Operands {
    Vector<bf16, 2> v3;
  };
  __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
    const Index d0 = batch;
    x.v3 = loadVector<2, 2>(in2 + (d0 * 200 + n));
  }
  static __device__ __forceinline__ int resultBatch(Index batch) {
    const Index d0 = batch;
    return d0;
  }
  __device__ __forceinline__ Vector<float, 2> compute(const Operands &x, const Vector<float, 2> &acc, Index batch, Index m, Index n, int lanes) const {
    const Index d0 = batch;
    Vector<float, 2> y0;
    #pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float v3 = decode(x.v3[j]);
      const float v4 = acc[j] + v3; // add
      const float v5 = relu(v4); // relu
      y0[j] = v5;
    }
    return y0;
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_matmul_add_relu(const __grid_constant__ TensorMap rowsMap, const __grid_constant__ TensorMap columnsMap, const __grid_constant__ TensorMap resultMap, const bf16 *in0, const bf16 *in1, const bf16 *in2, bf16 *__restrict__ out0) {
  gemmSm90<Config, Product>(Side<Rows>{&rowsMap}, Side<Columns>{&columnsMap}, ToTiles<Epilogue>{Epilogue{in2, out0}, &resultMap});
}
