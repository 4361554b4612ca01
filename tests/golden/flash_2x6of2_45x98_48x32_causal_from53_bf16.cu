// attention
// func.func @f(%arg0: tensor<2x6x45x48xbf16>, %arg1: tensor<2x2x98x48xbf16>, %arg2: tensor<2x2x98x32xbf16>) -> tensor<2x6x45x32xbf16> {
//   %0 = kfuse.reshape %arg1 : (tensor<2x2x98x48xbf16>) -> tensor<2x2x1x98x48xbf16>
//   %1 = kfuse.broadcast %0 : (tensor<2x2x1x98x48xbf16>) -> tensor<2x2x3x98x48xbf16>
//   %2 = kfuse.reshape %1 : (tensor<2x2x3x98x48xbf16>) -> tensor<2x6x98x48xbf16>
//   %3 = kfuse.reshape %arg2 : (tensor<2x2x98x32xbf16>) -> tensor<2x2x1x98x32xbf16>
//   %4 = kfuse.broadcast %3 : (tensor<2x2x1x98x32xbf16>) -> tensor<2x2x3x98x32xbf16>
//   %5 = kfuse.reshape %4 : (tensor<2x2x3x98x32xbf16>) -> tensor<2x6x98x32xbf16>
//   %6 = kfuse.attention %arg0, %2, %5 : (tensor<2x6x45x48xbf16>, tensor<2x6x98x48xbf16>, tensor<2x6x98x32xbf16>) -> tensor<2x6x45x32xbf16> {
//   ^bb0(%arg3: tensor<2x6x45x48xbf16>, %arg4: tensor<2x6x98x48xbf16>, %arg5: tensor<2x6x98x32xbf16>):
//     %7 = kfuse.matmul %arg3, %arg4 {transpose_b} : (tensor<2x6x45x48xbf16>, tensor<2x6x98x48xbf16>) -> tensor<2x6x45x98xbf16>
//     %8 = kfuse.constant dense<1.250000e-01> : tensor<bf16>
//     %9 = kfuse.mul %7, %8 : (tensor<2x6x45x98xbf16>, tensor<bf16>) -> tensor<2x6x45x98xbf16>
//     %10 = kfuse.iota {dim = 1 : i64} : tensor<1x98xi64>
//     %11 = kfuse.iota {dim = 0 : i64} : tensor<45x1xi64>
//     %12 = kfuse.constant dense<53> : tensor<i64>
//     %13 = kfuse.add %11, %12 : (tensor<45x1xi64>, tensor<i64>) -> tensor<45x1xi64>
//     %14 = kfuse.le %10, %13 : (tensor<1x98xi64>, tensor<45x1xi64>) -> tensor<45x98xi1>
//     %15 = kfuse.constant dense<0xFF80> : tensor<bf16>
//     %16 = kfuse.where %14, %9, %15 : (tensor<45x98xi1>, tensor<2x6x45x98xbf16>, tensor<bf16>) -> tensor<2x6x45x98xbf16>
//     %17 = kfuse.softmax %16 : (tensor<2x6x45x98xbf16>) -> tensor<2x6x45x98xbf16>
//     %18 = kfuse.matmul %17, %arg5 : (tensor<2x6x45x98xbf16>, tensor<2x6x98x32xbf16>) -> tensor<2x6x45x32xbf16>
//     kfuse.yield %18 : tensor<2x6x45x32xbf16>
//   }
//   return %6 : tensor<2x6x45x32xbf16>
// }
// config: keys=96,pingpong=1,rows=128,stages=2,warps=8,wgmma=1
// bound on sm_90a: 0.03 us; 0.03 us for 0.149 MB, 0.01 us for 0.007 GFLOP
#include <kfuse/flash_sm90.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  using Element = bf16;
  static constexpr Index rows = 45, keys = 98; // In a head.
  static constexpr int keySize = 48, valueSize = 32;
  static constexpr int tileRows = 128, tileKeys = 96, warps = 8, stages = 2, together = 12;
  static constexpr unsigned blocks = 12; // Tiles of rows, over all heads.
  static constexpr int resident = 1; // Blocks on a multiprocessor.
  static constexpr bool pingPong = true, isPersistent = false;
  static constexpr int maskSharers = 1; // Blocks of a cluster, which read a mask together.
  static constexpr bool readsBounds = false, readsFirst = false, readsOfRow = false;
  static constexpr bool holdsQuery = false, computesQuery = false, emptyIsZero = false;
  static constexpr bool hasLowest = false, hasHighest = true;
  static constexpr Index period = 0; // Rows of a head, of several in a row; else 0.
  static constexpr Index lowest = 0, highest = 53; // Keys of a row, from its own number on.
  static constexpr Index chunk = 0, rowInChunks = 0, keyInChunks = 0; // Where the first row and key stand in a chunk.
  static constexpr bool hasSink = false, bringsMask = false, holdsMask = false;
  static constexpr bool isScaled = true;
  static constexpr float scale = 0.125f;
};

struct Body {
  const bf16 *in0;
  const bf16 *in1;
  const bf16 *in2;
  bf16 *out0;

  __device__ __forceinline__ int keyBatch(Index batch) const {
    const Index b0 = batch / 6u, b1 = batch % 6u;
    return b0 * 2 + b1 / 3u;
  }
  __device__ __forceinline__ int valueBatch(Index batch) const {
    const Index b0 = batch / 6u, b1 = batch % 6u;
    return b0 * 2 + b1 / 3u;
  }
  __device__ __forceinline__ int queryBatch(Index batch) const {
    const Index b0 = batch / 6u, b1 = batch % 6u;
    return b0 * 6 + b1;
  }

  __device__ __forceinline__ void store(Index batch, Index row, int d, const Vector<float, 8> &acc) const {
    const Index b0 = batch / 6u, b1 = batch % 6u;
    Vector<float, 8> y0;
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
      y0[j] = acc[j];
    }
    storeVector<8, 8>(out0 + (b0 * 8640 + b1 * 1440 + row * 32 + d), y0);
  }
};

struct ScoreProduct {
  static __device__ __forceinline__ void multiplyAdd(float (&d)[48], unsigned long long rows, unsigned long long columns, int accumulate) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %50, 0;\n\twgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, %48, %49, p, 1, 1, 0, 0;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
                 : "l"(rows), "l"(columns), "r"(accumulate));
  }
};

struct ValueProduct {
  static __device__ __forceinline__ void multiplyAdd(float (&d)[16], const unsigned (&rows)[4], unsigned long long columns, int accumulate) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %21, 0;\n\twgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, p, 1, 1, 1;\n\t}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "r"(rows[0]), "r"(rows[1]), "r"(rows[2]), "r"(rows[3]), "l"(columns), "r"(accumulate));
  }
};

extern "C" __global__ void __launch_bounds__(384, Config::resident) kfuse_attention(const __grid_constant__ TensorMap keyMap, const __grid_constant__ TensorMap valueMap, const __grid_constant__ TensorMap queryMap, const bf16 *in0, const bf16 *in1, const bf16 *in2, bf16 *__restrict__ out0) {
  const Body body{in0, in1, in2, out0};
  flashSm90<Config, ScoreProduct, ValueProduct>(body, &keyMap, &valueMap, &queryMap, nullptr);
}
