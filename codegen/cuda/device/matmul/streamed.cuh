// Operands of products whose weights stream through registers once (gemv.cuh, gemm_stream.cuh).
#pragma once

#include <kfuse/types.cuh>

namespace kfuse {

/// The left operand's rows: where they lie in memory (A). A row may come in pieces, as of heads that stand before
/// tokens.
template <class A, class T> struct StoredRows {
  using Element = T;
  const T *memory;
  template <class Index> __device__ __forceinline__ void prepare(Index) const {}
  template <class Index> __device__ __forceinline__ const T *row(Index batch, int m) const {
    return memory + A::outer(batch, m);
  }
  /// Where element k of a row is, from its begin on.
  template <class Index> static __device__ __forceinline__ Index along(Index batch, Index k) {
    return A::inner(batch, k);
  }
};
/// The right operand: where its elements lie (B), and its memory.
template <class B, class T> struct Weights {
  using Element = T;
  static constexpr int products = 1;
  static constexpr bool isFixed = B::isFixed;
  const T *memory;
  template <class Index> __device__ __forceinline__ const T *column(int, Index batch, Index n) const {
    return memory + (B::outer(batch, n) + B::inner(batch, 0));
  }
};
/// The right operands of two products.
template <class First, class Second, class T> struct TwoWeights {
  using Element = T;
  static constexpr int products = 2;
  static constexpr bool isFixed = First::isFixed && Second::isFixed;
  const T *first, *second;
  template <class Index> __device__ __forceinline__ const T *column(int product, Index batch, Index n) const {
    return product == 0 ? first + (First::outer(batch, n) + First::inner(batch, 0))
                        : second + (Second::outer(batch, n) + Second::inner(batch, 0));
  }
};

/// Behind another kernel the first blocks start while that one ends, and HBM has time: they have the L2 fetch the first
/// columns' weights, each its part.
template <class Config, class B>
__device__ __forceinline__ void fetchAhead(const B &b, unsigned bytes = Config::K * sizeof(typename B::Element)) {
  using Index = typename Config::Index;
  constexpr int perBlock = (Config::fetchedColumns + Config::fetchers - 1) / Config::fetchers;
  if (blockIdx.y != 0 || blockIdx.x >= Config::fetchers)
    return;
  for (int i = threadIdx.x; i < perBlock * B::products; i += Config::threads) {
    const Index n = Index(blockIdx.x) * perBlock + i / B::products;
    if (n < Config::fetchedColumns)
      fetchToL2(b.column(i % B::products, Index(0), n), bytes);
  }
}

} // namespace kfuse
