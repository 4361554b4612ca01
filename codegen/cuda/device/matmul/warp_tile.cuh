// From the accumulators of wgmma to a generated Epilogue, through shared memory of each warp's own.
#pragma once

#include <kfuse/epilogue.cuh>

namespace kfuse {

/// The 16 x `columns` part of a warpgroup's product that one warp holds: its lane has two neighbouring
/// columns of rows lane / 4 and lane / 4 + 8 in every eight columns.
///
/// The epilogue wants eight neighbours along N: the warp stages its rows and reads them back eight columns a
/// lane. There are no bank conflicts. `held` registers of accumulators stay live meanwhile: the more there are, the
/// fewer operands of the epilogue are in flight at a time. Each of several products has `columns` / products
/// of the accumulators, and is staged behind the one before.
template <class Config, int columns, int held> struct WarpTile {
  using Index = typename Config::Index;
  static constexpr int vector = 8;
  static constexpr int products = columns / Config::tileN, ofProduct = columns / products;
  static constexpr int chunk = ofProduct % 64 == 0 && products == 1 ? 64 : ofProduct % 32 == 0 ? 32 : 16;
  static constexpr int pitch = chunk + 8, partSize = 16 * pitch, bytes = products * partSize * 4;
  static_assert(ofProduct % chunk == 0 && Config::epilogueVector == vector);

  static constexpr bool bringsTiles = false;
  static constexpr int barrierBytes = 0;

  float *staged;

  __device__ __forceinline__ WarpTile(unsigned char *staged, unsigned) : staged(reinterpret_cast<float *>(staged)) {}

  /// It loads what the epilogue reads while the accumulators are staged.
  struct Ahead {};
  template <class Epilogue> __device__ __forceinline__ Ahead load(const Epilogue &, Index, Index, Index) const {
    return {};
  }

  /// Hands the accumulators of `blocks` parts, 64 rows apart from (row, column) on, to the epilogue.
  template <class Epilogue, int blocks>
  __device__ __forceinline__ void finish(const float (&accumulators)[blocks][columns / 2], const Epilogue &epilogue,
                                         Ahead, Index batch, Index row, Index column) {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
      finishBlock(accumulators[block], epilogue, batch, row + block * 64, column);
  }
  __device__ __forceinline__ void drain() const {}

private:
  /// accumulators[j * 4 ...] are of every eight columns j.
  template <class Epilogue>
  __device__ __forceinline__ void finishBlock(const float (&accumulators)[columns / 2], const Epilogue &epilogue,
                                              Index batch, Index row, Index column) {
#pragma unroll
    for (int first = 0; first < ofProduct; first += chunk) {
      __syncwarp();
#pragma unroll
      for (int i = 0; i < products; ++i)
#pragma unroll
        for (int j = 0; j < chunk / 8; ++j)
          stage(staged + i * partSize, j, &accumulators[i * ofProduct / 2 + (first / 8 + j) * 4]);
      __syncwarp();
      store(staged, epilogue, batch, row, column + first);
    }
  }

  static constexpr int perRow = chunk / vector, passes = 16 * perRow / 32;
  static constexpr int most = held > 128 ? 1 : held > 96 ? 2 : 4, inFlight = passes % most == 0 ? most : 1;
  static constexpr int oddHalf = chunk / 2 + 4; ///< Where the second four of every eight columns lie.

  static __device__ __forceinline__ void stage(float *staged, int j, const float *accumulators) {
    int row = threadIdx.x % 32 / 4, pair = threadIdx.x % 4;
    float *to = staged + row * pitch + pair / 2 * oddHalf + j * 4 + pair % 2 * 2;
    *reinterpret_cast<Vector<float, 2> *>(to) = {accumulators[0], accumulators[1]};
    *reinterpret_cast<Vector<float, 2> *>(to + 8 * pitch) = {accumulators[2], accumulators[3]};
  }

  struct Place {
    Index m, n;
    const float *low, *high; ///< Where the first and the second four accumulators are staged.
    bool exists;
  };
  template <class Epilogue>
  static __device__ __forceinline__ Place place(const float *staged, Index row, Index column, int pass) {
    const ChunkOf<Epilogue, 16, perRow> chunk(pass * 32 + threadIdx.x % 32);
    Place at{row + chunk.row, column + chunk.chunk * vector, staged + chunk.row * pitch + chunk.chunk * 4, nullptr,
             false};
    at.high = at.low + oddHalf;
    at.exists = at.m < Config::M && at.n < Config::N;
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
        if (Place at = place<Epilogue>(staged, row, column, first + u); at.exists)
          epilogue.load(x[u], batch, at.m, at.n, columnsAt<Config, vector>(at.n));
#pragma unroll
      for (int u = 0; u < inFlight; ++u)
        if (Place at = place<Epilogue>(staged, row, column, first + u); at.exists) {
          Vector<float, vector * products> acc;
#pragma unroll
          for (int i = 0; i < products; ++i) {
            Vector<float, 4> low = *reinterpret_cast<const Vector<float, 4> *>(at.low + i * partSize),
                             high = *reinterpret_cast<const Vector<float, 4> *>(at.high + i * partSize);
#pragma unroll
            for (int j = 0; j < 4; ++j)
              acc[i * vector + j] = low[j], acc[i * vector + 4 + j] = high[j];
          }
          epilogue.apply(x[u], acc, batch, at.m, at.n, columnsAt<Config, vector>(at.n));
        }
    }
  }
};

} // namespace kfuse
