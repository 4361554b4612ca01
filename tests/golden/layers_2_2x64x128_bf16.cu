// matmul + add + relu (2 times) -> matmul + add
// func.func @f(%arg0: tensor<64x128xbf16>, %arg1: tensor<2x128x128xbf16>, %arg2: tensor<2x1x128xbf16>, %arg3: tensor<2x128x128xbf16>, %arg4: tensor<2x1x128xbf16>, %arg5: tensor<2x2x128xbf16>, %arg6: tensor<2x1x2xbf16>) -> tensor<2x64x2xbf16> {
//   %0 = kfuse.fused %arg0, %arg1, %arg2 : (tensor<64x128xbf16>, tensor<2x128x128xbf16>, tensor<2x1x128xbf16>) -> tensor<2x64x128xbf16> {
//   ^bb0(%arg7: tensor<64x128xbf16>, %arg8: tensor<2x128x128xbf16>, %arg9: tensor<2x1x128xbf16>):
//     %3 = kfuse.matmul %arg7, %arg8 {transpose_b} : (tensor<64x128xbf16>, tensor<2x128x128xbf16>) -> tensor<2x64x128xbf16>
//     %4 = kfuse.add %3, %arg9 : (tensor<2x64x128xbf16>, tensor<2x1x128xbf16>) -> tensor<2x64x128xbf16>
//     %5 = kfuse.relu %4 : (tensor<2x64x128xbf16>) -> tensor<2x64x128xbf16>
//     kfuse.yield %5 : tensor<2x64x128xbf16>
//   }
//   %1 = kfuse.fused %0, %arg3, %arg4 : (tensor<2x64x128xbf16>, tensor<2x128x128xbf16>, tensor<2x1x128xbf16>) -> tensor<2x64x128xbf16> {
//   ^bb0(%arg7: tensor<2x64x128xbf16>, %arg8: tensor<2x128x128xbf16>, %arg9: tensor<2x1x128xbf16>):
//     %3 = kfuse.matmul %arg7, %arg8 {transpose_b} : (tensor<2x64x128xbf16>, tensor<2x128x128xbf16>) -> tensor<2x64x128xbf16>
//     %4 = kfuse.add %3, %arg9 : (tensor<2x64x128xbf16>, tensor<2x1x128xbf16>) -> tensor<2x64x128xbf16>
//     %5 = kfuse.relu %4 : (tensor<2x64x128xbf16>) -> tensor<2x64x128xbf16>
//     kfuse.yield %5 : tensor<2x64x128xbf16>
//   }
//   %2 = kfuse.fused %1, %arg5, %arg6 : (tensor<2x64x128xbf16>, tensor<2x2x128xbf16>, tensor<2x1x2xbf16>) -> tensor<2x64x2xbf16> {
//   ^bb0(%arg7: tensor<2x64x128xbf16>, %arg8: tensor<2x2x128xbf16>, %arg9: tensor<2x1x2xbf16>):
//     %3 = kfuse.matmul %arg7, %arg8 {transpose_b} : (tensor<2x64x128xbf16>, tensor<2x2x128xbf16>) -> tensor<2x64x2xbf16>
//     %4 = kfuse.add %3, %arg9 : (tensor<2x64x2xbf16>, tensor<2x1x2xbf16>) -> tensor<2x64x2xbf16>
//     kfuse.yield %4 : tensor<2x64x2xbf16>
//   }
//   return %2 : tensor<2x64x2xbf16>
// }
// config: cluster_n=2,groups_k=2,k=64,m=32,n=64,stages=8
// bound on sm_90a: 0.03 us; 0.03 us for 0.150 MB, 0.01 us for 0.009 GFLOP
#include <kfuse/chain_cluster.cuh>

using namespace kfuse;

using Index = int;
struct Config {
  using Index = ::Index;
  static constexpr int M = 64, batches = 2;
  static constexpr int tileRows = 64, tileColumns = 32, tileK = 64, threads = 320; // The result's columns and rows.
  static constexpr int groupsK = 2, stages = 8, clusterColumns = 2, epilogueVector = 4;
  static constexpr int partialsOffset = 98304, barriersOffset = 114688, layersOffset = 114888, exchangeOffset = 115032;
};

/// matmul + add + relu
namespace kind0 {
  struct Weights {
    static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
    static constexpr int rows = 128, depth = 128, batches = 2, fetchers = 0;
    static __device__ __forceinline__ int batch(Index batch) {
      const Index d0 = batch;
      return d0;
    }
  };

  struct Tokens {
    static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
    static constexpr int rows = 64, depth = 128, batches = 1, fetchers = 0;
    static __device__ __forceinline__ int batch(Index batch) {
      const Index d0 = batch;
      return 0;
    }
  };

  struct Product {
    static __device__ __forceinline__ void multiplyAdd(float (&d)[16], unsigned long long rows, unsigned long long columns, int accumulate) {
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %18, 0;\n\twgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0;\n\t}"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                   : "l"(rows), "l"(columns), "r"(accumulate));
    }
  };

  struct Epilogue {
    static constexpr bool lanesAlongRows = false;
    const bf16 *in2;
    bf16 *out0;

    struct Operands {
      Vector<bf16, 4> v3;
    };
    __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
      const Index d0 = batch;
      x.v3 = loadVector<4, 4>(in2 + (d0 * 128 + n));
    }
    __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 4> &acc, Index batch, Index m, Index n, int lanes) const {
      const Index d0 = batch;
      Vector<float, 4> y0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v3 = decode(x.v3[j]);
        const float v4 = acc[j] + v3; // add
        const float v5 = relu(v4); // relu
        y0[j] = v5;
      }
      storeVector<4, 4>(out0 + (d0 * 8192 + m * 128 + n), y0);
    }
  };

  struct Layer {
    static constexpr bool readsResults = false, readsRows = false, reducesRows = false;
    using Index = ::Index;
    using Epilogue = kind0::Epilogue;
    using Weights = kind0::Weights;
    using Tokens = kind0::Tokens;
    using Product = kind0::Product;
    static constexpr int N = 128, K = 128;
    static __device__ __forceinline__ Epilogue epilogue(const void *const *buffers) {
      return {(const bf16 *)buffers[0], (bf16 *)buffers[1]};
    }
  };
} // namespace kind0

/// matmul + add + relu
namespace kind1 {
  struct Weights {
    static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
    static constexpr int rows = 128, depth = 128, batches = 2, fetchers = 0;
    static __device__ __forceinline__ int batch(Index batch) {
      const Index d0 = batch;
      return d0;
    }
  };

  struct Tokens {
    static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
    static constexpr int rows = 64, depth = 128, batches = 2, fetchers = 0;
    static __device__ __forceinline__ int batch(Index batch) {
      const Index d0 = batch;
      return d0;
    }
  };

  struct Product {
    static __device__ __forceinline__ void multiplyAdd(float (&d)[16], unsigned long long rows, unsigned long long columns, int accumulate) {
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %18, 0;\n\twgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0;\n\t}"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                   : "l"(rows), "l"(columns), "r"(accumulate));
    }
  };

  struct Epilogue {
    static constexpr bool lanesAlongRows = false;
    const bf16 *in2;
    bf16 *out0;

    struct Operands {
      Vector<bf16, 4> v3;
    };
    __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
      const Index d0 = batch;
      x.v3 = loadVector<4, 4>(in2 + (d0 * 128 + n));
    }
    __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 4> &acc, Index batch, Index m, Index n, int lanes) const {
      const Index d0 = batch;
      Vector<float, 4> y0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v3 = decode(x.v3[j]);
        const float v4 = acc[j] + v3; // add
        const float v5 = relu(v4); // relu
        y0[j] = v5;
      }
      storeVector<4, 4>(out0 + (d0 * 8192 + m * 128 + n), y0);
    }
  };

  struct Layer {
    static constexpr bool readsResults = false, readsRows = false, reducesRows = false;
    using Index = ::Index;
    using Epilogue = kind1::Epilogue;
    using Weights = kind1::Weights;
    using Tokens = kind1::Tokens;
    using Product = kind1::Product;
    static constexpr int N = 128, K = 128;
    static __device__ __forceinline__ Epilogue epilogue(const void *const *buffers) {
      return {(const bf16 *)buffers[0], (bf16 *)buffers[1]};
    }
  };
} // namespace kind1

/// matmul + add
namespace kind2 {
  struct Weights {
    static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
    static constexpr int rows = 2, depth = 128, batches = 2, fetchers = 0;
    static __device__ __forceinline__ int batch(Index batch) {
      const Index d0 = batch;
      return d0;
    }
  };

  struct Tokens {
    static constexpr bool contiguousK = true, isFixed = false, isPermuted = false;
    static constexpr int rows = 64, depth = 128, batches = 2, fetchers = 0;
    static __device__ __forceinline__ int batch(Index batch) {
      const Index d0 = batch;
      return d0;
    }
  };

  struct Product {
    static __device__ __forceinline__ void multiplyAdd(float (&d)[16], unsigned long long rows, unsigned long long columns, int accumulate) {
      asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %18, 0;\n\twgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0;\n\t}"
                   : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                   : "l"(rows), "l"(columns), "r"(accumulate));
    }
  };

  struct Epilogue {
    static constexpr bool lanesAlongRows = false;
    const bf16 *in2;
    bf16 *out0;

    struct Operands {
      Vector<bf16, 4> v3;
    };
    __device__ __forceinline__ void load(Operands &x, Index batch, Index m, Index n, int lanes) const {
      const Index d0 = batch;
      x.v3 = loadVector<4, 2>(in2 + (d0 * 2 + n), lanes);
    }
    __device__ __forceinline__ void apply(const Operands &x, const Vector<float, 4> &acc, Index batch, Index m, Index n, int lanes) const {
      const Index d0 = batch;
      Vector<float, 4> y0;
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float v3 = decode(x.v3[j]);
        const float v4 = acc[j] + v3; // add
        y0[j] = v4;
      }
      storeVector<4, 2>(out0 + (d0 * 128 + m * 2 + n), y0, lanes);
    }
  };

  struct Layer {
    static constexpr bool readsResults = false, readsRows = false, reducesRows = false;
    using Index = ::Index;
    using Epilogue = kind2::Epilogue;
    using Weights = kind2::Weights;
    using Tokens = kind2::Tokens;
    using Product = kind2::Product;
    static constexpr int N = 2, K = 128;
    static __device__ __forceinline__ Epilogue epilogue(const void *const *buffers) {
      return {(const bf16 *)buffers[0], (bf16 *)buffers[1]};
    }
  };
} // namespace kind2

struct Layers {
  static constexpr int count = 3, buffers = 4;
  static constexpr bool weightsAreFixed = false, reducesRows = false;
  template <class Role, class Chain> static __device__ __forceinline__ void visit(Chain &chain, int number) {
    switch (number) {
      case 2:
        return Role::template run<kind2::Layer>(chain, number);
      case 0:
        return Role::template run<kind0::Layer>(chain, number);
    }
    Role::template run<kind1::Layer>(chain, number);
  }
};

extern "C" __global__ void __launch_bounds__(Config::threads) kfuse_chain_of_3(const __grid_constant__ TensorMap map0, const __grid_constant__ TensorMap map1, const __grid_constant__ TensorMap map2, const __grid_constant__ TensorMap map3, const __grid_constant__ TensorMap map4, const __grid_constant__ TensorMap map5, const void *buffer2, const void *buffer4, const void *buffer6, void *buffer7, unsigned char *workspace) {
  using Kernel = ClusterChain<Config, Layers>;
  auto *layers = Kernel::layers();
  if (threadIdx.x == 0) layers[0] = {&map0, &map1, {buffer2, workspace + 0}};
  if (threadIdx.x == 1) layers[1] = {&map2, &map3, {buffer4, workspace + 32768}};
  if (threadIdx.x == 2) layers[2] = {&map4, &map5, {buffer6, buffer7}};
  Kernel kernel;
  kernel.run();
}
