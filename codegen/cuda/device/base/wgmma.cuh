// Operands of warpgroup matrix products in shared memory, and the TMA copies that bring them.
//
// An operand's tile is `extent` rows (of A, or columns of B) by 128 bytes of K (Config::tileK elements),
// swizzled by 128 bytes. With K contiguous in memory a line is a row's K block; else, for elements of 16
// bits, a line is 64 neighbouring rows at one k, and 64 lines make a panel of 8 KB. Either way 64 rows lie
// 8 KB apart. Products that share their rows have their columns one behind the other in a tile.
#pragma once

#include <kfuse/ptx_sm90.cuh>

namespace kfuse {

constexpr int lineBytes = 128;   ///< The width of the swizzle.
constexpr int stepBytes = 32;    ///< The bytes of a line that one instruction takes: 16 elements of 16 bits, 32 of 8.
constexpr int panelBytes = 8192; ///< 64 lines.

/// The lower half of the descriptor of a tile's first step of K at shared address `address` (PTX ISA, "Matrix
/// descriptor format"), the only one that changes from step to step. In a cluster, bits of the address above the 18 say
/// which block's memory it is.
template <class Operand> __device__ __forceinline__ unsigned describe(unsigned address) {
  constexpr unsigned leading = Operand::contiguousK ? 1 : panelBytes / 16;
  return (address & 0x3ffff) / 16 + (leading << 16);
}
/// The whole of it: eight lines are 1024 bytes apart in both layouts, panels 8 KB; bit 62 says 128-byte swizzle.
__device__ __forceinline__ unsigned long long descriptor(unsigned low) {
  constexpr unsigned stride = 1024 / 16, swizzle = 1u << 30;
  return joined(low, stride | swizzle);
}
/// How far the descriptor moves for the next step of K: 32 bytes along a line, or 16 lines.
template <class Operand> constexpr unsigned stepOfK = Operand::contiguousK ? stepBytes / 16 : 16 * lineBytes / 16;

/// accumulators += A B over a tile of K, `blocks` times 64 rows, `blockBytes` apart. Product::multiplyAdd is the
/// instruction.
template <class Rows, class Columns, class Product, int blockBytes = panelBytes, int blocks, int accumulatorCount>
__device__ __forceinline__ void multiplyTile(float (&accumulators)[blocks][accumulatorCount], unsigned rows,
                                             unsigned columns, bool accumulate) {
  const unsigned a = describe<Rows>(rows), b = describe<Columns>(columns);
  fenceProducts();
#pragma unroll
  for (int step = 0; step < lineBytes / stepBytes; ++step)
#pragma unroll
    for (int i = 0; i < blocks; ++i)
      Product::multiplyAdd(accumulators[i], descriptor(a + step * stepOfK<Rows> + i * (blockBytes / 16)),
                           descriptor(b + step * stepOfK<Columns>), step > 0 || accumulate);
  commitProducts();
}

/// What a stage has of K: a line of both operands, but where Config says otherwise. Rows of integers of few bits take
/// fewer bytes than columns of floats, of which a stage then has several lines, one behind the other.
template <class Config> struct StageOf {
  static constexpr int rowBytes = lineBytes, columnLines = 1;
};
template <class Config>
  requires requires { Config::columnLines; }
struct StageOf<Config> {
  static constexpr int rowBytes = Config::rowBytes, columnLines = Config::columnLines;
};

/// How a warpgroup multiplies the stages of a tile: rows and columns lie in shared memory, as the instruction takes
/// them, `blocks` times 64 rows. (Rows that are computed in registers: low_bit_rows.cuh.)
template <class Config, class Rows, class Columns, class Product, int blocks> struct StageProducts {
  /// Blocks are neighbours, or of two products, whose rows lie one behind the other.
  static constexpr int blockBytes = Rows::operands == 2 && blocks == 2 ? Config::tileRows / 2 * lineBytes : panelBytes;

  const unsigned first; ///< Where in a stage this warpgroup's rows begin.

  /// For the rows from `inTile` on of a tile that begins at row `row` of the operand.
  __device__ __forceinline__ StageProducts(const Rows &, int, int inTile) : first(inTile * lineBytes) {}
  /// Asks for what the stage at `k` takes that TMA does not bring.
  __device__ __forceinline__ void ask(int) {}
  /// accumulators += the rows times the columns of the stage; `nextK` is that of the warpgroup's next one.
  template <int accumulatorCount>
  __device__ __forceinline__ void add(float (&accumulators)[blocks][accumulatorCount], unsigned rows, unsigned columns,
                                      int, int, bool accumulate) const {
    multiplyTile<Rows, Columns, Product, blockBytes>(accumulators, rows + first, columns, accumulate);
  }
};

/// Keeps readers of the accumulators below the wait for them (as CUTLASS's warpgroup_fence_operand).
template <int blocks, int accumulatorCount>
__device__ __forceinline__ void warpgroupFenceOperand(float (&accumulators)[blocks][accumulatorCount]) {
#pragma unroll
  for (int i = 0; i < blocks; ++i)
#pragma unroll
    for (int j = 0; j < accumulatorCount; ++j)
      warpgroupFenceOperand(accumulators[i][j]);
}

/// Zeroes the accumulators here and now.
template <int blocks, int accumulatorCount>
__device__ __forceinline__ void clear(float (&accumulators)[blocks][accumulatorCount]) {
#pragma unroll
  for (int i = 0; i < blocks; ++i)
#pragma unroll
    for (int j = 0; j < accumulatorCount; ++j)
      accumulators[i][j] = 0;
  warpgroupFenceOperand(accumulators);
}

/// Brings part `part` of `parts` of the tile of `extent` rows from `first` on, at `k` of batch `z`, to the
/// tile at `to` in this block, or in all `blocks` when there are several parts.
template <class Operand, int extent, int parts>
__device__ __forceinline__ void loadTile(unsigned to, const TensorMap *map, int first, int k, int z, int part,
                                         unsigned barrier, unsigned short blocks) {
  constexpr int mine = extent / parts, boxRows = Operand::contiguousK ? mine : 64;
  static_assert(extent % parts == 0 && mine % (Operand::contiguousK ? 8 : 64) == 0, "parts are whole swizzle atoms");
#pragma unroll
  for (int row = 0; row < mine; row += boxRows) {
    int at = part * mine + row, x = Operand::contiguousK ? k : first + at, y = Operand::contiguousK ? first + at : k;
    unsigned box = to + at * lineBytes;
    if constexpr (parts == 1)
      loadBox(box, map, x, y, z, barrier);
    else
      loadBoxMulticast(box, map, x, y, z, barrier, blocks);
  }
}

/// The same for an operand whose columns are permuted: of every four columns the first two come to the tile's first
/// half, the others to its second one. A lane has two neighbouring columns of every eight, and so four neighbours in
/// both halves together.
template <class Operand, int extent, int parts>
__device__ __forceinline__ void loadPermutedTile(unsigned to, const TensorMap *map, int first, int k, int z, int part,
                                                 unsigned barrier, unsigned short blocks) {
  constexpr int mine = extent / parts;
  static_assert(Operand::contiguousK && extent % parts == 0 && mine % 16 == 0, "parts are whole swizzle atoms");
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const unsigned box = to + (half * extent + part * mine) / 2 * lineBytes;
    const int four = (first + part * mine) / 4;
    if constexpr (parts == 1)
      loadBox(box, map, k, half * 2, four, z, barrier);
    else
      loadBoxMulticast(box, map, k, half * 2, four, z, barrier, blocks);
  }
}

/// Where a grid leaves SMs idle, the first blocks of the kernel behind it start there at once. Before they wait they
/// have the L2 fetch the operand, if it is fixed: `boxRows` rows by a K block at a time, in the order of use.
template <class Operand, int boxRows, int line> __device__ __forceinline__ void fetchEarly(const TensorMap *map) {
  if constexpr (Operand::fetchers > 0) {
    constexpr int height = Operand::contiguousK ? boxRows : line, down = (Operand::rows + height - 1) / height,
                  along = (Operand::depth + line - 1) / line, boxes = down * along * Operand::batches;
    if (blockIdx.x >= Operand::fetchers)
      return;
#pragma unroll 1
    for (int i = blockIdx.x; i < boxes; i += Operand::fetchers) {
      const int row = i % down * height, k = i / down % along * line;
      fetchBox(map, Operand::contiguousK ? k : row, Operand::contiguousK ? row : k, i / (down * along));
    }
  }
}

/// One side of a product as a kernel loads it: the map of its operand.
template <class Operand> struct Side {
  static constexpr int operands = 1;
  static constexpr bool contiguousK = Operand::contiguousK, isFixed = Operand::isFixed,
                        isPermuted = Operand::isPermuted;
  const TensorMap *map;

  __device__ __forceinline__ void prefetch() const { prefetchMap(map); }
  template <int boxRows, int line> __device__ __forceinline__ void fetch() const {
    fetchEarly<Operand, boxRows, line>(map);
  }
  template <int extent, int parts>
  __device__ __forceinline__ void load(unsigned to, int first, int k, int batch, int part, unsigned barrier,
                                       unsigned short blocks) const {
    if constexpr (Operand::isPermuted)
      loadPermutedTile<Operand, extent, parts>(to, map, first, k, Operand::batch(batch), part, barrier, blocks);
    else
      loadTile<Operand, extent, parts>(to, map, first, k, Operand::batch(batch), part, barrier, blocks);
  }
};
/// A side with two products' operands, each with half of a tile.
template <class First, class Second> struct TwoSides {
  static constexpr int operands = 2;
  static constexpr bool contiguousK = First::contiguousK, isFixed = First::isFixed && Second::isFixed,
                        isPermuted = false;
  static_assert(First::contiguousK == Second::contiguousK, "one instruction reads both");
  static_assert(!First::isPermuted && !Second::isPermuted, "columns of both are one behind the other in a tile");
  Side<First> first;
  Side<Second> second;

  __device__ __forceinline__ void prefetch() const { first.prefetch(), second.prefetch(); }
  template <int boxRows, int line> __device__ __forceinline__ void fetch() const {
    first.template fetch<boxRows / 2, line>(), second.template fetch<boxRows / 2, line>();
  }
  template <int extent, int parts>
  __device__ __forceinline__ void load(unsigned to, int at, int k, int batch, int part, unsigned barrier,
                                       unsigned short blocks) const {
    first.template load<extent / 2, parts>(to, at, k, batch, part, barrier, blocks);
    second.template load<extent / 2, parts>(to + extent / 2 * lineBytes, at, k, batch, part, barrier, blocks);
  }
};

/// The blocks of a cluster that share operands: Config::clusterRows tiles down by Config::clusterColumns across, of one
/// split of K. Blocks side by side read the same rows, blocks above each other the same columns: each brings its
/// share and multicasts it to those that read the same.
template <class Config> struct TileCluster {
  static constexpr int tall = Config::clusterRows, wide = Config::clusterColumns, blocks = tall * wide;
  static constexpr int sharers = tall + wide - 1; ///< Blocks that write to this one's ring, itself included.

  int first, row, column; ///< The rank of the first of the blocks; this one's place among them.

  __device__ __forceinline__ explicit TileCluster(int rank)
      : first(rank / blocks * blocks), row(rank % blocks / wide), column(rank % wide) {}
  /// The block at this one's place that has split `split` of K.
  __device__ __forceinline__ int ofSplit(int split) const { return split * blocks + row * wide + column; }
  /// The blocks that read the same rows.
  __device__ __forceinline__ unsigned short sameRow() const { return ((1u << wide) - 1) << (first + row * wide); }
  /// The blocks that read the same columns.
  __device__ __forceinline__ unsigned short sameColumn() const {
    unsigned mask = 0;
#pragma unroll
    for (int i = 0; i < tall; ++i)
      mask |= 1u << (first + i * wide + column);
    return mask;
  }
  /// Sharer `i` of this block; i < sharers.
  __device__ __forceinline__ int sharer(int i) const {
    const int other = i - wide;
    return first + (i < wide ? row * wide + i : (other + (other >= row)) * wide + column);
  }
};

/// What tells the sharers that a stage has been read: lane i of a warp tells the i-th.
template <class Config> struct StageRelease {
  using Cluster = TileCluster<Config>;
  unsigned empty; ///< The first stage's barrier, in the block that this lane tells.
  bool tells;

  __device__ __forceinline__ StageRelease(const Cluster &cluster, unsigned own) {
    const int lane = threadIdx.x % 32;
    tells = lane < Cluster::sharers;
    empty = Cluster::blocks > 1 ? inBlock(own, tells ? cluster.sharer(lane) : cluster.first) : own;
  }
  __device__ __forceinline__ void operator()(int stage) const {
    if (!tells)
      return;
    if constexpr (Cluster::blocks > 1)
      arriveInCluster(empty + stage * 8);
    else
      arrive(empty + stage * 8);
  }
};

/// A ring of `stages` pairs of tiles with a barrier for "full" and one for "empty" each.
template <class Config> struct Ring {
  static constexpr int rowsBytes = Config::tileRows * StageOf<Config>::rowBytes,
                       columnsBytes = Config::tileColumns * StageOf<Config>::columnLines * lineBytes;
  static constexpr int stageBytes = rowsBytes + columnsBytes, tilesBytes = Config::stages * stageBytes;
  static constexpr int barrierBytes = Config::stages * 16;

  unsigned tiles, barriers;
  int stage = 0;
  unsigned parity = 0;

  __device__ __forceinline__ unsigned rows() const { return tiles + stage * rowsBytes; }
  __device__ __forceinline__ unsigned columns() const {
    return tiles + Config::stages * rowsBytes + stage * columnsBytes;
  }
  __device__ __forceinline__ unsigned full() const { return barriers + stage * 8; }
  __device__ __forceinline__ unsigned empty(int of) const { return barriers + (Config::stages + of) * 8; }

  /// Makes the barriers ready for all threads of the cluster: a thread for each side fills a stage, and `readers` warps
  /// empty it.
  __device__ __forceinline__ void start(bool leads, int readers) const {
    if (leads) {
      for (int i = 0; i < Config::stages; ++i)
        initBarrier(barriers + i * 8, 2), initBarrier(empty(i), readers);
      fenceBarrierInit();
    }
    __syncwarp();
    if constexpr (TileCluster<Config>::blocks > 1)
      syncClusterRelaxed();
    else
      __syncthreads();
  }
  /// Brings one side's tile to the next stage: `load` does, `bytes` of it.
  template <class Load> __device__ __forceinline__ void fill(unsigned bytes, Load load) {
    waitBarrier(empty(stage), parity ^ 1);
    arriveExpecting(full(), bytes);
    load();
    advance();
  }
  /// All that was brought has been read, here and by all that share it: none of them tells this block any more.
  __device__ __forceinline__ void drain() {
#pragma unroll 1
    for (int i = 0; i < Config::stages; ++i, advance())
      waitBarrier(empty(stage), parity ^ 1);
  }
  /// `count` stages on, no more than there are.
  __device__ __forceinline__ void advance(int count = 1) {
    if ((stage += count) >= Config::stages)
      stage -= Config::stages, parity ^= 1;
  }
  /// Any number of them.
  __device__ __forceinline__ void skip(int count) {
    int at = stage + count;
    parity ^= at / Config::stages & 1;
    stage = at % Config::stages;
  }
};

} // namespace kfuse
