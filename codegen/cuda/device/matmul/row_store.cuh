// From the accumulators of a product to its result, without shared memory.
#pragma once

#include <kfuse/epilogue.cuh>

namespace kfuse {

/// An epilogue that each lane runs on its own accumulators.
template <class Epilogue> struct ToRows {
  Epilogue epilogue;
};

/// A warp's 16 rows of Config::tileColumns columns: a lane has two neighbouring columns of rows lane / 4 and
/// lane / 4 + 8 in every eight columns. It stores four neighbours of every 16 columns, so that a warp writes whole
/// sectors of 32 bytes; in pairs, 20 layers of five times 256 x 1024 x 1024 took 5 us longer, and through f32 in shared
/// memory 15 us. Columns that TMA has permuted (loadPermutedTile) lie so; else four lanes of a row give each
/// other what makes neighbours, by 40 shuffles and 120 selects for 80 columns: 134.2 us where permuted columns, asked
/// whether they exist as below, take 124.1.
template <class Config, bool areColumnsPermuted> struct RowStore {
  using Index = typename Config::Index;
  static constexpr int columns = Config::tileColumns, groups = columns / 16, vector = 4;
  static_assert(columns % 16 == 0 && Config::epilogueVector == vector);

  /// What the epilogue reads, the same for all rows.
  template <class Epilogue> struct Ahead {
    typename Epilogue::Operands x[groups];
  };
  template <class Epilogue>
  static __device__ __forceinline__ Ahead<Epilogue> load(const Epilogue &epilogue, Index batch, Index row,
                                                         Index column) {
    Ahead<Epilogue> ahead;
#pragma unroll
    for (int group = 0; group < groups; ++group)
      if (const Index n = columnOf(column, group); n < Config::N)
        epilogue.load(ahead.x[group], batch, row, n, columnsAt<Config, vector>(n));
    return ahead;
  }

  /// The tile of 64 rows from (row, column) on whose accumulators this warpgroup has.
  template <class Epilogue>
  static __device__ __forceinline__ void finish(const float (&accumulators)[columns / 2], const Epilogue &epilogue,
                                                const Ahead<Epilogue> &ahead, Index batch, Index row, Index column) {
    const Index first = row + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int group = 0; group < groups; ++group) {
        const Vector<float, vector> four = neighbours(accumulators, group, half);
        const Index m = first + half * 8, n = columnOf(column, group);
        if (exists(m, column + group * 16, n))
          epilogue.apply(ahead.x[group], four, batch, m, n, columnsAt<Config, vector>(n));
      }
  }

private:
  /// Whether the column `n` of the 16 from `first` on lies in the result, at row `m`. Where whole clusters of tiles do,
  /// none need be asked; whole sixteens of columns are not asked lane by lane.
  static __device__ __forceinline__ bool exists(Index m, Index first, Index n) {
    return (Config::M % (Config::tileRows * Config::clusterRows) == 0 || m < Config::M) &&
           (Config::N % (columns * Config::clusterColumns) == 0 || (Config::N % 16 == 0 ? first : n) < Config::N);
  }
  static __device__ __forceinline__ Index columnOf(Index first, int group) {
    return first + group * 16 + threadIdx.x % 4 * vector;
  }
  /// A lane's four neighbours of 16 columns, in one of its two rows.
  static __device__ __forceinline__ Vector<float, vector> neighbours(const float (&accumulators)[columns / 2],
                                                                     int group, int half) {
    if constexpr (areColumnsPermuted) {
      const float *first = &accumulators[group * 4 + half * 2], *next = first + columns / 4;
      return {first[0], first[1], next[0], next[1]};
    } else {
      const float *own = &accumulators[group * 8 + half * 2];
      return exchanged({own[0], own[1]}, {own[4], own[5]});
    }
  }
  /// Where four lanes each have a pair of eight columns and the same pair of the next eight, the first two get the
  /// first eight, four columns each, and the others the next.
  static __device__ __forceinline__ Vector<float, vector> exchanged(const Vector<float, 2> &first,
                                                                    const Vector<float, 2> &next) {
    const bool isUpper = threadIdx.x & 2, isOdd = threadIdx.x & 1;
    Vector<float, vector> four;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float other = shuffleXor(isUpper ? first[i] : next[i], 2);
      const float low = isUpper ? other : first[i], high = isUpper ? next[i] : other; // Pairs 0 or 1, and 2 or 3.
      const float neighbour = shuffleXor(isOdd ? low : high, 1);
      four[i] = isOdd ? neighbour : low;
      four[2 + i] = isOdd ? high : neighbour;
    }
    return four;
  }
};

} // namespace kfuse
