// From accumulators to outputs: what a generated Epilogue is called with.
#pragma once

#include <kfuse/math.cuh>

namespace kfuse {

/// How many of `vector` columns from `n` on exist.
template <class Config, int vector> __device__ __forceinline__ int columnsAt(typename Config::Index n) {
  if constexpr (Config::N % vector == 0)
    return vector;
  else
    return Config::N - n < vector ? static_cast<int>(Config::N - n) : vector;
}

/// The row and the chunk of columns of a warp's tile of `rows` x `chunks` that come at a position: neighbouring lanes
/// have neighbouring chunks, or, where results lie in memory so, neighbouring rows.
template <class Epilogue, int rows, int chunks> struct ChunkOf {
  int row, chunk;
  __device__ __forceinline__ explicit ChunkOf(int position)
      : row(Epilogue::lanesAlongRows ? position % rows : position / chunks),
        chunk(Epilogue::lanesAlongRows ? position / rows : position % chunks) {}
};

/// The epilogue of split K's first launch: partial sums to the workspace, [split, batch, M, N] in f32.
template <class Config> struct StorePartials {
  static constexpr int vector = Config::epilogueVector;
  static constexpr int aligned = Config::N % vector == 0 ? vector : Config::N % 4 == 0 ? 4 : Config::N % 2 == 0 ? 2 : 1;
  using Index = typename Config::Index;
  static constexpr bool lanesAlongRows = false;
  struct Operands {};
  float *workspace;

  static __device__ __forceinline__ long long offset(int split, Index batch, Index m, Index n) {
    return ((static_cast<long long>(split) * Config::batches + batch) * Config::M + m) * Config::N + n;
  }
  __device__ __forceinline__ void load(Operands &, Index, Index, Index, int) const {}
  __device__ __forceinline__ void apply(const Operands &, const Vector<float, vector> &acc, Index batch, Index m,
                                        Index n, int lanes) const {
    storeVector<vector, aligned>(workspace + offset(blockIdx.y, batch, m, n), acc, lanes);
  }
};

/// Split K's second launch: adds the partial sums in order, one chunk of columns a thread, and finishes; of the first
/// `runRows` rows, the ones that a run computes.
template <class Config, class Epilogue>
__device__ __forceinline__ void finishSplits(const float *workspace, const Epilogue &epilogue,
                                             typename Config::Index runRows = Config::M) {
  waitForPredecessor();
  using Index = typename Config::Index;
  using Partials = StorePartials<Config>;
  constexpr int vector = Partials::vector;
  constexpr Index chunksOfRow = (Config::N + vector - 1) / vector;
  Index chunk = Index(blockIdx.x) * Config::finishThreads + Index(threadIdx.x);
  if (chunk >= Config::batches * Index(Config::M) * chunksOfRow)
    return;
  Index n = chunk % chunksOfRow * vector, row = chunk / chunksOfRow, m = row % Config::M, batch = row / Config::M;
  if (m >= runRows)
    return;
  int lanes = columnsAt<Config, vector>(n);
  typename Epilogue::Operands x;
  epilogue.load(x, batch, m, n, lanes);
  Vector<float, vector> acc{};
#pragma unroll(Config::splitK < 8 ? Config::splitK : 8)
  for (int split = 0; split < Config::splitK; ++split) {
    Vector<float, vector> part =
        loadVector<vector, Partials::aligned>(workspace + Partials::offset(split, batch, m, n), lanes);
#pragma unroll
    for (int j = 0; j < vector; ++j)
      acc[j] += part[j];
  }
  epilogue.apply(x, acc, batch, m, n, lanes);
}

/// Which tile of which product a block computes. Blocks run along columns of `Config::tileSwizzle` tiles:
/// those on the device together then share rows of A and columns of B in L2.
template <class Config> struct BlockTile {
  using Index = typename Config::Index;
  static constexpr int tilesM = (Config::M + Config::tileM - 1) / Config::tileM;
  static constexpr int tilesN = (Config::N + Config::tileN - 1) / Config::tileN;
  static constexpr int tilesK = (Config::K + Config::tileK - 1) / Config::tileK;
  Index batch, m, n; ///< First row and column.
  int firstK, endK;  ///< Tiles along K.

  __device__ __forceinline__ BlockTile() {
    constexpr unsigned tiles = tilesM * tilesN, group = Config::tileSwizzle * tilesN;
    unsigned tile = blockIdx.x % tiles, inGroup = tile % group, firstM = tile / group * Config::tileSwizzle;
    unsigned height = tilesM - firstM < Config::tileSwizzle ? tilesM - firstM : Config::tileSwizzle;
    batch = blockIdx.x / tiles;
    m = Index(firstM + inGroup % height) * Config::tileM;
    n = Index(inGroup / height) * Config::tileN;
    int split = blockIdx.y;
    firstK = static_cast<int>(static_cast<long long>(tilesK) * split / Config::splitK);
    endK = static_cast<int>(static_cast<long long>(tilesK) * (split + 1) / Config::splitK);
  }
};

/// Whether a run that computes so many rows has none of this block's, which then has waited for the kernel ahead.
template <class Config> __device__ __forceinline__ bool isBehindRun(typename Config::Index runRows) {
  if (BlockTile<Config>().m < runRows)
    return false;
  waitForPredecessor();
  return true;
}

} // namespace kfuse
