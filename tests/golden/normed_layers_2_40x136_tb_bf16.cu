// matmul + add + layer_norm + relu (2 times)
// func.func @f(%arg0: tensor<40x136xbf16>, %arg1: tensor<136x136xbf16>, %arg2: tensor<136xbf16>, %arg3: tensor<136xbf16>, %arg4: tensor<136xbf16>, %arg5: tensor<136x136xbf16>, %arg6: tensor<136xbf16>, %arg7: tensor<136xbf16>, %arg8: tensor<136xbf16>) -> tensor<40x136xbf16> {
//   %0 = kfuse.fused %arg0, %arg1, %arg2, %arg3, %arg4 : (tensor<40x136xbf16>, tensor<136x136xbf16>, tensor<136xbf16>, tensor<136xbf16>, tensor<136xbf16>) -> tensor<40x136xbf16> {
//   ^bb0(%arg9: tensor<40x136xbf16>, %arg10: tensor<136x136xbf16>, %arg11: tensor<136xbf16>, %arg12: tensor<136xbf16>, %arg13: tensor<136xbf16>):
//     %2 = kfuse.matmul %arg9, %arg10 {transpose_b} : (tensor<40x136xbf16>, tensor<136x136xbf16>) -> tensor<40x136xbf16>
//     %3 = kfuse.add %2, %arg11 : (tensor<40x136xbf16>, tensor<136xbf16>) -> tensor<40x136xbf16>
//     %4 = kfuse.layer_norm %3, %arg12, %arg13 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<40x136xbf16>, tensor<136xbf16>, tensor<136xbf16>) -> tensor<40x136xbf16>
//     %5 = kfuse.relu %4 : (tensor<40x136xbf16>) -> tensor<40x136xbf16>
//     kfuse.yield %5 : tensor<40x136xbf16>
//   }
//   %1 = kfuse.fused %0, %arg5, %arg6, %arg7, %arg8 : (tensor<40x136xbf16>, tensor<136x136xbf16>, tensor<136xbf16>, tensor<136xbf16>, tensor<136xbf16>) -> tensor<40x136xbf16> {
//   ^bb0(%arg9: tensor<40x136xbf16>, %arg10: tensor<136x136xbf16>, %arg11: tensor<136xbf16>, %arg12: tensor<136xbf16>, %arg13: tensor<136xbf16>):
//     %2 = kfuse.matmul %arg9, %arg10 {transpose_b} : (tensor<40x136xbf16>, tensor<136x136xbf16>) -> tensor<40x136xbf16>
//     %3 = kfuse.add %2, %arg11 : (tensor<40x136xbf16>, tensor<136xbf16>) -> tensor<40x136xbf16>
//     %4 = kfuse.layer_norm %3, %arg12, %arg13 {epsilon = 9.99999974E-6 : f32, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<40x136xbf16>, tensor<136xbf16>, tensor<136xbf16>) -> tensor<40x136xbf16>
//     %5 = kfuse.relu %4 : (tensor<40x136xbf16>) -> tensor<40x136xbf16>
//     kfuse.yield %5 : tensor<40x136xbf16>
//   }
//   return %1 : tensor<40x136xbf16>
// }
// config: cluster_n=2,groups_k=1,k=64,m=24,n=128,stages=4
// bound on sm_90a: 0.02 us; 0.02 us for 0.097 MB, 0.00 us for 0.003 GFLOP
#include <kfuse/chain_cluster.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int M = 40, batches = 1;
  static constexpr int tileRows = 128, tileColumns = 24, tileK = 64, threads = 320; // The result's columns and rows.
  static constexpr int groupsK = 1, stages = 4, clusterColumns = 2, epilogueVector = 4;
  static constexpr int partialsOffset = 77824, barriersOffset = 90112, layersOffset = 90216, exchangeOffset = 90344;
};

/// matmul + add + layer_norm + relu
namespace kind0 {
  struct Weights {
    static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
    static constexpr int rows = 136, depth = 136, batches = 1, fetchers = 0;
    static __device__ __forceinline__ int batch(Index batch) {
      return 0;
    }
  };

  struct Tokens {
    static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
    static constexpr int rows = 40, depth = 136, batches = 1, fetchers = 0;
    static __device__ __forceinline__ int batch(Index batch) {
      return 0;
    }
  };

  struct Product {
    static __device__ __forceinline__ void multiplyAdd(float (&d)[12], unsigned long long rows, unsigned long long columns, int accumulate) {
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %14, 0;\n\twgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11}, %12, %13, p, 1, 1, 0, 0;\n\t}"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
                   : "l"(rows), "l"(columns), "r"(accumulate));
    }
  };

  struct Epilogue {
    using Index = ::Index;
    using Result = bf16;
    const bf16 *in2;
    const bf16 *in3;
    const bf16 *in4;
    bf16 *out0;

    struct Element {
      struct Operands {
        Vector<bf16, 4> v3;
      };
    };
    struct Reduction0 {
      using Operation = Sum;
      struct Operands {
      };
    };
    struct Reduction1 {
      using Operation = Sum;
      struct Operands {
      };
    };
    struct Operands {
      Vector<bf16, 4> v16;
      Vector<bf16, 4> v18;
    };
    using Reductions = Steps<Reduction0, Reduction1>;
    struct Row {
      float v5;
      float v10;
      float v7;
      float v14;
    };
    __device__ __forceinline__ void begin(Row &row, Index batch, Index m) const {
    }
    __device__ __forceinline__ void end(Reduction0, Row &row, float total, Index batch, Index m) const {
      row.v5 = total;
      const float v7 = total * 0.0073529412f; // mul
      row.v7 = v7;
    }
    __device__ __forceinline__ void end(Reduction1, Row &row, float total, Index batch, Index m) const {
      row.v10 = total;
      const float v11 = total * 0.0073529412f; // mul
      const float v13 = v11 + 9.99999975e-06f; // add
      const float v14 = rsqrtf(v13); // rsqrt
      row.v14 = v14;
    }
    __device__ __forceinline__ void load(Element::Operands &x, Index batch, Index m, Index n, int lanes) const {
      x.v3 = loadVector<4, 4>(in2 + (n));
    }
    __device__ __forceinline__ Vector<float, 4> compute(const Element::Operands &x, const Vector<float, 4> &acc, Index batch, Index m, Index n, int lanes) const {
      Vector<float, 4> y0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v3 = decode(x.v3[j]);
        const float v4 = acc[j] + v3; // add
        y0[j] = v4;
      }
      return y0;
    }
    __device__ __forceinline__ void load(Reduction0::Operands &x, Index batch, Index m, Index n, int lanes) const {
    }
    __device__ __forceinline__ Vector<float, 4> compute(const Reduction0::Operands &x, const Row &row, const Vector<float, 4> &acc, Index batch, Index m, Index n, int lanes) const {
      Vector<float, 4> y0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        y0[j] = acc[j];
      }
      return y0;
    }
    __device__ __forceinline__ void load(Reduction1::Operands &x, Index batch, Index m, Index n, int lanes) const {
    }
    __device__ __forceinline__ Vector<float, 4> compute(const Reduction1::Operands &x, const Row &row, const Vector<float, 4> &acc, Index batch, Index m, Index n, int lanes) const {
      Vector<float, 4> y0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v8 = acc[j] - row.v7; // sub
        const float v9 = v8 * v8; // mul
        y0[j] = v9;
      }
      return y0;
    }
    __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
      x.v16 = loadVector<4, 4>(in3 + (n));
      x.v18 = loadVector<4, 4>(in4 + (n));
    }
    __device__ __forceinline__ void apply(const Operands &x, const Row &row, const Vector<float, 4> &acc, Index batch, Index m, Index n, int lanes) const {
      Vector<float, 4> y0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v8 = acc[j] - row.v7; // sub
        const float v15 = v8 * row.v14; // mul
        const float v16 = decode(x.v16[j]);
        const float v17 = v15 * v16; // mul
        const float v18 = decode(x.v18[j]);
        const float v19 = v17 + v18; // add
        const float v20 = relu(v19); // relu
        y0[j] = v20;
      }
      storeVector<4, 4>(out0 + (m * 136 + n), y0);
    }
  };

  struct Layer {
    static constexpr bool readsResults = false, readsRows = false, reducesRows = true;
    using Index = ::Index;
    using Epilogue = kind0::Epilogue;
    using Weights = kind0::Weights;
    using Tokens = kind0::Tokens;
    using Product = kind0::Product;
    static constexpr int N = 136, K = 136;
    static __device__ __forceinline__ Epilogue epilogue(const void *const *buffers) {
      return {(const bf16 *)buffers[0], (const bf16 *)buffers[1], (const bf16 *)buffers[2], (bf16 *)buffers[3]};
    }
  };
} // namespace kind0

struct Layers {
  static constexpr int count = 2, buffers = 6;
  static constexpr bool weightsAreFixed = false, reducesRows = true;
  template <class Role, class Chain> static __device__ __forceinline__ void visit(Chain &chain, int number) {
    Role::template run<kind0::Layer>(chain, number);
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_chain_of_2(const __grid_constant__ TensorMap map0, const __grid_constant__ TensorMap map1, const __grid_constant__ TensorMap map2, const __grid_constant__ TensorMap map3, const void *buffer2, const void *buffer3, const void *buffer4, const void *buffer6, const void *buffer7, const void *buffer8, void *buffer9, unsigned char *workspace) {
  using Kernel = ClusterChain<Config, Layers>;
  auto *layers = Kernel::layers();
  if (threadIdx.x == 0) layers[0] = {&map0, &map1, {buffer2, buffer3, buffer4, workspace + 0}};
  if (threadIdx.x == 1) layers[1] = {&map2, &map3, {buffer6, buffer7, buffer8, buffer9}};
  Kernel kernel;
  kernel.run();
}
