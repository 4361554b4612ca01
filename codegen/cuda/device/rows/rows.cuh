// Rows shared out over threads: which columns are whose, where a row is kept, and row totals.
#pragma once

#include <kfuse/reduce.cuh>

namespace kfuse {

/// The blocks that share a row. One needs nothing; more are in cluster.cuh.
template <int blocks> struct Cluster;
template <> struct Cluster<1> {
  static __device__ __forceinline__ int rank() { return 0; }
  template <class Operation, class T> __device__ __forceinline__ T reduce(T value) { return value; }
};

/// A row that this thread works on with `Config::threads` - 1 others, a warp's part or some warps;
/// `Config::rows` rows make a block, or `Config::cluster` blocks a row. Threads beyond the last row repeat it and
/// store nothing. With Config::stream, the grid passes over the rows.
template <class Config> struct Row {
  using Index = typename Config::Index;
  using Blocks = Cluster<Config::cluster>;
  static constexpr int threads = Config::threads, vector = Config::vector;
  static constexpr Index step = Index(threads) * Config::cluster * vector;
  static constexpr int chunks = (Config::columns + step - 1) / step;
  static constexpr bool full = Config::columns % step == 0;

  int thread = threadIdx.x % threads, number = threadIdx.x / threads;
  Index first = Index(blockIdx.x) / Config::cluster * Config::rows + number;
  Index index = minimum(first, Index(Config::rowCount - 1));
  bool valid = first < Config::rowCount;
  int rank = Blocks::rank();
  Blocks blocks;
  int turn = 0; ///< Which memory for totals is next: one turn's are read while the next one's are written.

  __device__ __forceinline__ Index next() const { return first + Index(gridDim.x) / Config::cluster * Config::rows; }
  __device__ __forceinline__ void advance() {
    first = index = next();
    valid = first < Config::rowCount;
    turn ^= 1;
  }

  /// Turns to another row, which may be beyond the last.
  __device__ __forceinline__ void moveTo(Index row) {
    first = row;
    index = minimum(first, Index(Config::rowCount - 1));
    valid = first < Config::rowCount;
  }

  /// First column of this thread's chunk `i`; how many of its columns exist.
  __device__ __forceinline__ Index column(int i) const {
    return Index(i) * step + Index(rank * threads + thread) * vector;
  }
  __device__ __forceinline__ int lanes(Index column) const {
    return static_cast<int>(minimum(Index(vector), Index(Config::columns) - column));
  }
  __device__ __forceinline__ bool holds(int i) const { return full || column(i) < Config::columns; }

  /// Fills a cache with this thread's part of the row.
  template <class Cache, class Load> __device__ __forceinline__ void fill(Cache &cache, Load load) const {
    forEach([&](int i, Index column) { load(cache[i], column); });
  }

  /// Operands of some chunks on their way. In a block's own loop over the row that is half of Config::unroll: the other
  /// half comes while these are used.
  static constexpr bool loops = !Config::unrollAll && chunks > Config::unroll, turns = loops && Config::cluster == 1;
  static constexpr int batch = turns ? Config::unroll / 2 : Config::unroll;
  template <class Operands> struct Batch {
    Operands of[batch];
  };

  /// Fetches what only one pass needs, of the chunks from `first` on: `load(w, column)`.
  template <class Operands, class Load>
  __device__ __forceinline__ Batch<Operands> fetch(Load load, int first = 0) const {
    Batch<Operands> w;
#pragma unroll
    for (int u = 0; u < batch; ++u)
      if (first + u < chunks && holds(first + u))
        load(w.of[u], column(first + u));
    return w;
  }

  /// One pass over the row, `apply(w, i, column)`, whose first operands are fetched.
  template <class Operands, class Load, class Apply>
  __device__ __forceinline__ void forEach(Batch<Operands> w, Load load, Apply apply) const {
    auto use = [&](const Batch<Operands> &w, int first) {
#pragma unroll
      for (int u = 0; u < batch; ++u)
        if (first + u < chunks && holds(first + u))
          apply(w.of[u], first + u, column(first + u));
    };
    if constexpr (turns) {
#pragma unroll 1
      for (int first = 0; first < chunks; first += 2 * batch) {
        const Batch<Operands> next = fetch<Operands>(load, first + batch);
        use(w, first);
        w = fetch<Operands>(load, first + 2 * batch);
        use(next, first + batch);
      }
    } else if constexpr (loops) {
#pragma unroll 1
      for (int first = 0; first < chunks; first += batch)
        use(fetch<Operands>(load, first), first); // The first, too: nothing waits for `w`, which is not loaded then.
    } else {
#pragma unroll
      for (int first = 0; first < chunks; first += batch) {
        use(w, first);
        w = fetch<Operands>(load, first + batch);
      }
    }
  }
  /// A pass that needs nothing but what was kept: `apply(i, column)`.
  template <class Apply> __device__ __forceinline__ void forEach(Apply apply) const {
    struct Nothing {};
    forEach(Batch<Nothing>{}, [](Nothing &, Index) {}, [&](const Nothing &, int i, Index column) { apply(i, column); });
  }

  /// Whether this thread writes what the row has once.
  __device__ __forceinline__ bool writesRow() const { return valid && thread == 0 && rank == 0; }

  /// The row's total in all of its threads. `slot` is another for each call: no total waits for the
  /// readers of the one before.
  template <int slot, class Operation, class T, int lanes>
  __device__ __forceinline__ T reduce(const Partial<Operation, T, lanes> &partial) {
    return reduce<slot, Operation>(partial.total());
  }
  /// The totals of a sum, and of the squares beside it.
  template <int slot, int lanes>
  __device__ __forceinline__ Moments reduce(const Partial<Sum, float, lanes> &sum,
                                            const Partial<Sum, float, lanes> &squares) {
    return reduce<slot, AddMoments>(Moments{sum.total(), squares.total()});
  }

  /// Whether `holds` in one of the rows that share a barrier, or more; a row's threads agree on it.
  static __device__ __forceinline__ bool any(bool holds) {
    if constexpr (threads <= 32)
      return anyInWarp(holds);
    else if constexpr (Config::rows > 1)
      return anyInBlock(holds);
    else
      return holds;
  }

private:
  template <int slot, class Operation, class T> __device__ __forceinline__ T reduce(T value) {
    value = reduceLanes<Operation, (threads < 32 ? threads : 32)>(value);
    if constexpr (threads > 32) {
      __shared__ T totals[1 + Config::stream][Config::rows][threads / 32];
      T *mine = totals[Config::stream ? turn : 0][number];
      if (thread % 32 == 0)
        mine[thread / 32] = value;
      __syncthreads();
      value = mine[0];
#pragma unroll
      for (int warp = 1; warp < threads / 32; ++warp)
        value = Operation::combine(value, mine[warp]);
    }
    return blocks.template reduce<Operation>(value);
  }
};

/// This thread's part of a row in registers: every pass is unrolled.
template <class Config, class Operands> struct RegisterCache {
  Operands chunks[Row<Config>::chunks];
  __device__ __forceinline__ Operands &operator[](int i) { return chunks[i]; }
};

/// In shared memory, each thread reading only what it wrote: no barrier.
template <class Config, class Operands> struct SharedCache {
  Operands *chunks = reinterpret_cast<Operands *>(dynamicShared()) + threadIdx.x;
  __device__ __forceinline__ Operands &operator[](int i) { return chunks[i * Config::threads * Config::rows]; }
};

/// Two rows in shared memory: while the passes run over one, the next is under way. Each thread reads only what it
/// copied.
template <class Config, class Operands> struct RowStream {
  static constexpr int size = Row<Config>::chunks * Config::threads; ///< A row's, in chunks.
  Operands *chunks = reinterpret_cast<Operands *>(dynamicShared()) + threadIdx.x;
  int current = 0;

  __device__ __forceinline__ Operands &operator[](int i) { return chunks[current * size + i * Config::threads]; }

  /// Starts the copies of row `index`, if it exists, beside the current one: `load(x, index, column)`.
  template <class Load>
  __device__ __forceinline__ void start(const Row<Config> &row, typename Config::Index index, Load load) {
    if (index < Config::rowCount)
#pragma unroll 4
      for (int i = 0; i < Row<Config>::chunks; ++i)
        if (row.holds(i))
          load(chunks[(current ^ 1) * size + i * Config::threads], index, row.column(i));
    commitCopies();
  }
  /// Turns to the row that was started, and starts the one after it.
  template <class Load> __device__ __forceinline__ void turn(const Row<Config> &row, Load load) {
    current ^= 1;
    start(row, row.next(), load);
    waitCopies<1>();
  }
};

} // namespace kfuse
