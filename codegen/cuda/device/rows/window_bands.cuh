// Sums of windows as products: a row of taps is a band of a matrix.
//
// For one row of positions and one row of taps, eight neighbouring results are a product [sequences, 16] x [16, 8]
// whose right operand has the taps along its diagonals. Images that share their weights, the sequences, are its
// rows, 16 of them. A block has 16 sequences, all results across and Config::rows of them down. Rows of positions
// come through a ring in shared memory; a warp, which has eight results across, multiplies each by every row of
// taps, so that Config::rowTaps rows of results are under way. A row that is complete goes through shared memory,
// too, and is stored as whole lines while the next one is worked on: eight results a warp straight to memory, half
// a sector, took 27.1 to 28.1 us on an H100 where this takes 20.2 (32 x 96 images of 56 x 56, 7 x 7 taps).
#pragma once

#include <kfuse/math.cuh>
#include <kfuse/mma.cuh>

namespace kfuse {

template <class Config, class Body> class WindowBands {
  using T = typename Config::Element;
  static constexpr int sequences = 16, across = 8, deep = 16; ///< Sizes of a product.
  static constexpr int tiles = (Config::results + across - 1) / across, threads = tiles * 32;
  /// Zeros ahead of a row's positions, so that a warp's 16 begin at 16 bytes.
  static constexpr int lead = (Config::before + 3) / 4 * 4;
  static_assert(lead - Config::before + across + Config::taps - 1 <= deep, "they hold its windows");
  static constexpr int ofTiles = tiles * across + deep - across, ofCopies = lead + Config::width,
                       pieces = ((ofTiles > ofCopies ? ofTiles : ofCopies) + 7) / 8;
  static constexpr int pitch = (pieces | 1) * 8; ///< An odd number of 16 bytes: no bank conflicts.
  static constexpr int stageElements = sequences * pitch, stageBytes = stageElements * static_cast<int>(sizeof(T));
  /// Stride of results; 8 more than a multiple of 32 keeps sequences apart in the banks.
  static constexpr int rowPitch = (tiles * across + 23) / 32 * 32 + 8;
  static constexpr int fours = (Config::results + 3) / 4; ///< Vectors that a row of results is stored as.
  static constexpr int rowsRead = Config::rows + Config::rowTaps - 1;
  static constexpr int ofRow = Config::width / Config::piece, copies = sequences * ofRow,
                       ofThread = (copies + threads - 1) / threads;
  static_assert(Config::width % Config::piece == 0);

public:
  __device__ __forceinline__ explicit WindowBands(const Body &body)
      : body(body), ring(reinterpret_cast<T *>(dynamicShared())), lane(threadIdx.x % 32), tile(threadIdx.x / 32) {}

  __device__ __forceinline__ void run() {
    clear();
    loadBands();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ofThread; ++i)
      findCopy(i);
#pragma unroll
    for (int down = 0; down < Config::stages - 1; ++down)
      start(down, down * stageBytes);
    unsigned reading = 0, writing = (Config::stages - 1) * stageBytes;
    const unsigned fragment = sharedAddress(ring) + (lane % 16 * pitch + tile * across + lane / 16 * 8) * sizeof(T);
    float sums[Config::rowTaps][4] = {};
    bool hasNan = false; // Among this thread's results.
#pragma unroll 1
    for (int first = 0; first < rowsRead; first += Config::rowTaps)
#pragma unroll
      for (int i = 0; i < Config::rowTaps; ++i) // Which sums a row adds to is known.
        if (const int down = first + i; down < rowsRead) {
          waitCopies<Config::stages - 2>();
          __syncthreads();
          const int h = down - (Config::rowTaps - 1);
          if (h >= 1)
            hasNan |= finish(h - 1);
          start(down + Config::stages - 1, writing);
          unsigned positions[4];
          loadMatrices(positions, fragment + reading);
          reading = behind(reading), writing = behind(writing);
#pragma unroll
          for (int j = 0; j < 4; ++j)
            sums[i][j] = 0;
#pragma unroll
          for (int rowTap = 0; rowTap < Config::rowTaps; ++rowTap)
            multiplyAdd(T{}, sums[(i - rowTap + Config::rowTaps) % Config::rowTaps], positions, bands[rowTap][0],
                        bands[rowTap][1]);
          if (h >= 0)
            stage(sums[(i + 1) % Config::rowTaps], h);
        }
    __syncthreads();
    hasNan |= finish(Config::rows - 1);
    if (hasNan)
      finishAgain();
  }

private:
  /// What is beside the positions stays 0.
  __device__ __forceinline__ void clear() {
    for (int i = threadIdx.x; i < Config::stages * stageElements / 2; i += threads)
      reinterpret_cast<unsigned *>(ring)[i] = 0;
  }

  /// Element (k, n) of a row's matrix is tap k - n, less what is led by.
  __device__ __forceinline__ void loadBands() {
#pragma unroll
    for (int rowTap = 0; rowTap < Config::rowTaps; ++rowTap)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        T pair[2] = {};
#pragma unroll
        for (int j = 0; j < 2; ++j)
          if (const int tap = lane % 4 * 2 + half * 8 + j - lane / 4 - (lead - Config::before);
              tap >= 0 && tap < Config::taps)
            pair[j] = body.weight(rowTap, tap);
        bands[rowTap][half] = pair[0].bits | static_cast<unsigned>(pair[1].bits) << 16;
      }
  }

  /// A piece of a row that this thread copies.
  __device__ __forceinline__ void findCopy(int i) {
    const int number = i * threads + threadIdx.x, row = number / ofRow, at = number % ofRow * Config::piece;
    exists[i] = number < copies && body.hasSequence(row);
    from[i] = body.row(exists[i] ? row : 0) + at;
    to[i] = sharedAddress(ring + row * pitch + lead + at);
  }
  static __device__ __forceinline__ unsigned behind(unsigned stage) {
    return stage + stageBytes < Config::stages * stageBytes ? stage + stageBytes : 0;
  }
  /// Brings row `down` to a stage.
  __device__ __forceinline__ void start(int down, unsigned stage) {
    if (down < rowsRead) {
      const bool isInside = body.isInside(down);
#pragma unroll
      for (int i = 0; i < ofThread; ++i)
        if (i * threads + static_cast<int>(threadIdx.x) < copies) {
          const bool isThere = isInside && exists[i];
          constexpr int bytes = Config::piece * sizeof(T);
          copyAsync<bytes>(to[i] + stage,
                           isThere ? from[i] + static_cast<long long>(down) * Config::rowStride : from[i],
                           isThere ? bytes : 0);
        }
    }
    commitCopies();
  }

  /// A lane has two neighbours of sequences lane / 4 and lane / 4 + 8.
  __device__ __forceinline__ void stage(const float (&sums)[4], int h) const {
    float *to = staged(h) + lane / 4 * rowPitch + tile * across + lane % 4 * 2;
    *reinterpret_cast<Vector<float, 2> *>(to) = {sums[0], sums[1]};
    *reinterpret_cast<Vector<float, 2> *>(to + 8 * rowPitch) = {sums[2], sums[3]};
  }
  /// Stores a row, four neighbours a thread; tells whether NaN is among those of this thread.
  __device__ __forceinline__ bool finish(int h) const {
    bool hasNan = false;
#pragma unroll
    for (int first = 0; first < sequences * fours; first += threads)
      if (const int number = first + threadIdx.x, sequence = number / fours, column = number % fours * 4;
          sequence < sequences && body.hasSequence(sequence)) {
        const auto &sums = *reinterpret_cast<const Vector<float, 4> *>(staged(h) + sequence * rowPitch + column);
        const float all = sums[0] + sums[1] + sums[2] + sums[3];
        hasNan |= all != all;
        body.finish(sums, sequence, h, column);
      }
    return hasNan;
  }
  /// A product reads positions beside a result's window, where 0 times an infinity or NaN is NaN: a thread that had NaN
  /// sums its results over their own windows. Rare, and at the end, where it takes no registers from the products.
  __device__ __forceinline__ void finishAgain() const {
#pragma unroll 1
    for (int h = 0; h < Config::rows; ++h)
#pragma unroll 1
      for (int number = threadIdx.x; number < sequences * fours; number += threads)
        if (const int sequence = number / fours; body.hasSequence(sequence))
          body.finish(sumWindows(sequence, h, number % fours * 4), sequence, h, number % fours * 4);
  }
  __device__ __forceinline__ Vector<float, 4> sumWindows(int sequence, int h, int column) const {
    Vector<float, 4> sums = {};
#pragma unroll 1
    for (int tap = 0; tap < Config::rowTaps * Config::taps; ++tap) {
      const int down = h + tap / Config::taps, first = column + tap % Config::taps - Config::before;
      const bool isInside = body.isInside(down);
      const T *row = body.row(sequence) + down * Config::rowStride;
      const float weight = decode(body.weight(tap / Config::taps, tap % Config::taps));
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sums[j] += weight * (isInside && first + j >= 0 && first + j < Config::width ? decode(row[first + j]) : 0.0f);
    }
    return sums;
  }
  __device__ __forceinline__ float *staged(int h) const {
    return reinterpret_cast<float *>(ring + Config::stages * stageElements) + h % 2 * (sequences * rowPitch);
  }

  const Body &body;
  T *const ring;
  const int lane, tile;
  unsigned bands[Config::rowTaps][2];
  const T *from[ofThread];
  unsigned to[ofThread];
  bool exists[ofThread];
};

} // namespace kfuse
