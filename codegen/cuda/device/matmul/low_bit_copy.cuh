// Tiles of weights that are integers of 4 or 8 bits, on their way to shared memory as the floats that mma.sync takes.
#pragma once

#include <kfuse/copy.cuh>
#include <kfuse/low_bit_weights.cuh>

namespace kfuse {

/// The right operands of a product, or of two.
template <class Weights> struct LowBitMatrix {
  static constexpr int products = Weights::products;
  static constexpr bool contiguousK = true, isFixed = Weights::isFixed;
  Weights weights;
  __device__ __forceinline__ const Weights &of(int) const { return weights; }
};

/// Copies tiles of one product's weights along K, as TileCopy does: a thread makes floats of sixteen bytes of a column
/// at a time. Those of a tile are loaded while the one before is multiplied, and wait in registers with their scales.
template <class Config, class Weights, int product> struct LowBitCopy {
  using T = typename Config::Element;
  using Index = typename Config::Index;
  using Codes = typename Weights::template Codes<T>;
  using Tile = SharedTile<Config::tileN, Config::tileK>;
  static constexpr int elements = Codes::elements, perColumn = Config::tileK / elements;
  static constexpr int total = Config::tileN * perColumn, count = (total + Config::threads - 1) / Config::threads;
  static constexpr int eights = elements / 8; ///< What has one scale at least.
  static constexpr int scales = Weights::blocksOfRow == 1 || Weights::blockSize % elements == 0 ? 1 : eights;
  static_assert(Config::tileK % elements == 0 && (Weights::blocksOfRow == 1 || Weights::blockSize % 8 == 0));

  const Weights &weights;
  const Index first; ///< The tile's first column.
  unsigned words[count][4];
  typename Weights::Scale storedScales[count][scales];
  unsigned zeroBytes[count][scales];
  Index loaded = -1; ///< Where in K they lie.

  __device__ __forceinline__ LowBitCopy(const Weights &weights, Index, Index first) : weights(weights), first(first) {}

  /// Puts the tile at `k` to shared address `to`, and asks for the next one.
  __device__ __forceinline__ void start(unsigned to, Index k) {
    if (loaded != k)
      load(k);
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (const Piece piece(i); piece.exists)
        store(to, piece, i, k + piece.inColumn * elements);
    load(k + Config::tileK);
  }

private:
  struct Piece {
    int column, inColumn;
    bool exists;
    __device__ __forceinline__ explicit Piece(int i)
        : column((i * Config::threads + threadIdx.x) / perColumn),
          inColumn((i * Config::threads + threadIdx.x) % perColumn),
          exists(total % Config::threads == 0 || i * Config::threads + threadIdx.x < total) {}
  };
  /// Past the edge, the last column again.
  __device__ __forceinline__ Index columnOf(const Piece &piece) const {
    const Index n = first + piece.column;
    return n < Config::N ? n : Config::N - 1;
  }

  __device__ __forceinline__ void load(Index k) {
    loaded = k;
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (const Piece piece(i); piece.exists && k < Config::K) {
        const Index n = columnOf(piece), first = k + piece.inColumn * elements;
        if (first < Config::K)
          loadStreaming<Weights::isFixed>(words[i], weights.column(product, Index(0), n) + first / elements * 16);
#pragma unroll
        for (int j = 0; j < scales; ++j) {
          storedScales[i][j] = weights.storedScale(product, n, placeOf(first, j));
          zeroBytes[i][j] = weights.template zeroByte<Codes>(product, n, placeOf(first, j));
        }
      }
  }

  /// What lies past K is multiplied by 0: any numbers, with the scale of the last element.
  static __device__ __forceinline__ Index placeOf(Index k, int eight) {
    return k + eight * 8 < Config::K ? k + eight * 8 : Config::K - 1;
  }

  __device__ __forceinline__ void store(unsigned to, const Piece &piece, int i, Index k) const {
#pragma unroll
    for (int eight = 0; eight < eights; ++eight) {
      const int of = scales == 1 ? 0 : eight;
      const float scale = decode(storedScales[i][of]);
      const unsigned both = wordOf(T{}, scale, scale),
                     zero = weights.template zeroIn<Codes>(product, zeroBytes[i][of], placeOf(k, of)),
                     minusZero = Codes::minus(zero);
      Vector<unsigned, 4> pairs;
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const unsigned bits = Codes::neighbours(words[i] + eight * Codes::wordsOfEight, Codes::chosen(pair));
        pairs[pair] = scaledPair(T{}, Codes::widened(bits, minusZero), both, 0);
      }
      const unsigned chunk = to + Tile::offset(piece.column, piece.inColumn * eights + eight);
      *reinterpret_cast<Vector<unsigned, 4> *>(dynamicShared() + (chunk - sharedAddress(dynamicShared()))) = pairs;
    }
  }
};

} // namespace kfuse
