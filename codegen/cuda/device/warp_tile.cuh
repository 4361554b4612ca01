// From the accumulators of wgmma to a generated Epilogue, through shared memory of each warp's own.
#pragma once

#include <kfuse/epilogue.cuh>

namespace kfuse {

/// The 16 x `columns` part of a warpgroup's product that one warp holds: its lane has two neighbouring
/// columns of rows lane / 4 and lane / 4 + 8 in every eight columns.
///
/// The epilogue wants eight neighbours along N. With rows along M they are columns: the warp stages its
/// rows and reads them back eight columns a lane. Swapped, rows lie along N: it stages columns instead.
/// Either way no two lanes meet in a bank when they write. `held` registers of sums stay live meanwhile: the
/// more there are, the fewer operands of the epilogue are in flight at a time.
template <class Config, int columns, int held> struct WarpTile {
  using Index = typename Config::Index;
  static constexpr int vector = 8;
  static constexpr int chunk = Config::swapped     ? columns
                               : columns % 64 == 0 ? 64
                               : columns % 32 == 0 ? 32
                               : columns % 16 == 0 ? 16
                                                   : 8;
  static constexpr int pitch = Config::swapped ? 20 : chunk + 8;
  static constexpr int bytes = (Config::swapped ? chunk : 16) * pitch * 4;

  /// Hands sums[j * 4 ...] of every eight columns j to the epilogue; (row, column) is the first of the
  /// warp's in the product whose rows and columns are Config's.
  template <class Epilogue>
  static __device__ __forceinline__ void finish(const float (&sums)[columns / 2], float *staged,
                                                const Epilogue &epilogue, Index batch, Index row, Index column) {
#pragma unroll
    for (int first = 0; first < columns; first += chunk) {
      __syncwarp();
#pragma unroll
      for (int j = 0; j < chunk / 8; ++j)
        stage(staged, j, &sums[(first / 8 + j) * 4]);
      __syncwarp();
      store(staged, epilogue, batch, row, column + first);
    }
  }

private:
  static constexpr int passes = (16 * chunk / vector + 31) / 32;
  static constexpr int most = held > 128 ? 1 : held > 96 ? 2 : 4, inFlight = passes % most == 0 ? most : 1;
  static constexpr int oddHalf = chunk / 2 + 4; ///< Where the second four of every eight columns lie.

  static __device__ __forceinline__ void stage(float *staged, int j, const float *sums) {
    int row = threadIdx.x % 32 / 4, pair = threadIdx.x % 4;
    if constexpr (Config::swapped) {
      float *to = staged + (j * 8 + pair * 2) * pitch + row;
      to[0] = sums[0], to[pitch] = sums[1], to[8] = sums[2], to[pitch + 8] = sums[3];
    } else {
      float *to = staged + row * pitch + pair / 2 * oddHalf + j * 4 + pair % 2 * 2;
      *reinterpret_cast<Vector<float, 2> *>(to) = {sums[0], sums[1]};
      *reinterpret_cast<Vector<float, 2> *>(to + 8 * pitch) = {sums[2], sums[3]};
    }
  }

  struct Place {
    Index m, n;
    const float *low, *high; ///< Where the first and the second four sums are staged.
    bool exists;
  };
  static __device__ __forceinline__ Place place(const float *staged, Index row, Index column, int pass) {
    int position = pass * 32 + threadIdx.x % 32;
    Place at;
    if constexpr (Config::swapped) {
      int m = position / 2, n = position % 2 * vector;
      at.m = column + m, at.n = row + n;
      at.low = staged + m * pitch + n, at.high = at.low + 4;
      at.exists = m < chunk;
    } else {
      constexpr int perRow = chunk / vector;
      int m = position / perRow, part = position % perRow;
      at.m = row + m, at.n = column + part * vector;
      at.low = staged + m * pitch + part * 4, at.high = at.low + oddHalf;
      at.exists = m < 16;
    }
    at.exists = at.exists && at.m < Config::M && at.n < Config::N;
    return at;
  }

  template <class Epilogue>
  static __device__ __forceinline__ void store(const float *staged, const Epilogue &epilogue, Index batch, Index row,
                                               Index column) {
#pragma unroll 1
    for (int first = 0; first < passes; first += inFlight) {
      typename Epilogue::Operands x[inFlight];
#pragma unroll
      for (int u = 0; u < inFlight; ++u)
        if (Place at = place(staged, row, column, first + u); at.exists)
          epilogue.load(x[u], batch, at.m, at.n, columnsAt<Config, vector>(at.n));
#pragma unroll
      for (int u = 0; u < inFlight; ++u)
        if (Place at = place(staged, row, column, first + u); at.exists) {
          Vector<float, 4> low = *reinterpret_cast<const Vector<float, 4> *>(at.low),
                           high = *reinterpret_cast<const Vector<float, 4> *>(at.high);
          Vector<float, vector> acc{{low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]}};
          epilogue.apply(x[u], acc, batch, at.m, at.n, columnsAt<Config, vector>(at.n));
        }
    }
  }
};

} // namespace kfuse
