// Rows of a wgmma product that are integers of 4 or 8 bits: TMA brings them to shared memory as they lie in memory, and
// each lane makes of them the floats that the instruction takes of its registers.
//
// A lane needs two neighbours of every eight elements of K, of two rows. Four lanes load the same sixteen bytes of a
// row, which costs no more than each its own, and take their bytes of every word: so activations keep their order, and
// weights that of their file. That is 2.5 instructions a weight, scale included, of which tensor cores hide all: a
// warp's 16 rows of 64 weights take 90 issue slots, while the products of 128 columns with the four warps' 64 rows take
// 256 clocks.
#pragma once

#include <kfuse/low_bit_weights.cuh>
#include <kfuse/wgmma.cuh>

namespace kfuse {

/// The rows as a kernel loads them, for products of type T: the map of each product's integers, and what makes floats
/// of these. The operands of two products have half of a tile's rows each.
template <class T, class Weights> struct LowBitSide {
  using Codes = typename Weights::template Codes<T>;
  using Multiplied = T;
  using Operand = Weights;
  static constexpr int operands = Weights::products;
  static constexpr bool contiguousK = true, isFixed = Weights::isFixed, isPermuted = false;
  static constexpr int depth = 128, perByte = Codes::elements / 16, rowBytes = depth / perByte; ///< Those of a stage.

  const TensorMap *maps[operands];
  Weights weights;

  __device__ __forceinline__ void prefetch() const {
#pragma unroll
    for (int i = 0; i < operands; ++i)
      prefetchMap(maps[i]);
  }
  template <int boxRows, int line> __device__ __forceinline__ void fetch() const {}
  /// Brings part `part` of `parts` of a stage's rows, counted in bytes along K.
  template <int extent, int parts>
  __device__ __forceinline__ void load(unsigned to, int first, int k, int, int part, unsigned barrier,
                                       unsigned short blocks) const {
    constexpr int ofOperand = extent / operands, mine = ofOperand / parts;
    static_assert(extent % (operands * parts) == 0 && mine % 8 == 0, "parts are whole swizzle atoms");
#pragma unroll
    for (int i = 0; i < operands; ++i) {
      const unsigned box = to + (i * ofOperand + part * mine) * rowBytes;
      if constexpr (parts == 1)
        loadBox(box, maps[i], k / perByte, first + part * mine, 0, barrier);
      else
        loadBoxMulticast(box, maps[i], k / perByte, first + part * mine, 0, barrier, blocks);
    }
  }
};

/// A warpgroup's products with such rows, `blocks` times 64 of them: 64 below each other, or 64 of each of two
/// products. It makes floats of 64 rows and a K block while those before are multiplied.
template <class Config, class T, class Weights, class Columns, class Product, int blocks>
struct StageProducts<Config, LowBitSide<T, Weights>, Columns, Product, blocks> {
  using Rows = LowBitSide<T, Weights>;
  using Codes = typename Rows::Codes;
  static constexpr int rowBytes = Rows::rowBytes, lines = StageOf<Config>::columnLines;
  static constexpr int steps = lineBytes / stepBytes, stepK = stepBytes / sizeof(T), lineK = steps * stepK;
  static constexpr int chunksOfLine = lineK / Codes::elements, stepsOfChunk = Codes::elements / stepK;
  /// Scales of a row in a stage. Where blocks of one scale end within, each step of K has its own.
  static constexpr bool isOneBlock = Weights::blocksOfRow == 1 || Weights::blockSize % Config::tileK == 0;
  static constexpr int scales = isOneBlock                                ? 1
                                : Config::tileK % Weights::blockSize == 0 ? Config::tileK / Weights::blockSize
                                                                          : lines * steps;
  static constexpr int scaleK = Config::tileK / scales;
  static_assert(Config::tileK == Rows::depth && Config::tileK == lines * lineK &&
                rowBytes == StageOf<Config>::rowBytes);
  static_assert(Weights::blocksOfRow == 1 || Weights::blockSize % stepK == 0, "a step's weights have one scale");

  const Weights &weights;
  const unsigned place;  ///< Where in a stage the first of this lane's rows begins, swizzled.
  const unsigned chosen; ///< The lane's two of eight elements.
  const int product, row;
  typename Weights::Scale storedScales[blocks][scales][2];
  unsigned zeroBytes[blocks][scales][2];

  __device__ __forceinline__ StageProducts(const Rows &side, int row, int inTile)
      : StageProducts(side, row, inTile + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4, 0) {}

  __device__ __forceinline__ void ask(int k) {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
#pragma unroll
      for (int i = 0; i < scales; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) { // Past the edge, the last ones again.
          const int n = row + (isPair ? 0 : block * 64) + half * 8, last = Config::N - 1, at = placeOf(k, i);
          storedScales[block][i][half] = weights.storedScale(productOf(block), n < last ? n : last, at);
          zeroBytes[block][i][half] = weights.template zeroByte<Codes>(productOf(block), n < last ? n : last, at);
        }
  }

  template <int accumulatorCount>
  __device__ __forceinline__ void add(float (&accumulators)[blocks][accumulatorCount], unsigned rows, unsigned columns,
                                      int k, int nextK, bool accumulate) {
    unsigned scale[blocks][scales][2], minusZero[blocks][scales][2];
#pragma unroll
    for (int block = 0; block < blocks; ++block)
#pragma unroll
      for (int i = 0; i < scales; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float value = decode(storedScales[block][i][half]);
          scale[block][i][half] = wordOf(T{}, value, value);
          minusZero[block][i][half] =
              Codes::minus(weights.template zeroIn<Codes>(productOf(block), zeroBytes[block][i][half], placeOf(k, i)));
        }
    if (nextK < Config::K)
      ask(nextK);
#pragma unroll
    for (int line = 0; line < lines; ++line)
#pragma unroll
      for (int block = 0; block < blocks; ++block) {
        if (line > 0 || block > 0)
          waitProducts<1>();         // The registers of the rows before the last are free.
        unsigned pairs[2][steps][2]; // Row `half`'s, of a step's first and second eight.
#pragma unroll
        for (int half = 0; half < 2; ++half)
          widen(pairs[half], rows + block * blockBytes + half * 8 * rowBytes, line, half, minusZero[block],
                scale[block]);
        const unsigned b = describe<Columns>(columns + line * Config::tileColumns * lineBytes);
        fenceProducts();
#pragma unroll
        for (int step = 0; step < steps; ++step) {
          const unsigned fragment[4] = {pairs[0][step][0], pairs[1][step][0], pairs[0][step][1], pairs[1][step][1]};
          Product::multiplyAdd(accumulators[block], fragment, descriptor(b + step * stepOfK<Columns>),
                               line > 0 || step > 0 || accumulate);
        }
        commitProducts();
      }
  }

private:
  static constexpr bool isPair = Weights::products > 1 && blocks > 1; ///< A block of rows for each product.
  static constexpr int ofProduct = Config::tileRows / Weights::products;
  static constexpr int blockBytes = (isPair ? ofProduct : 64) * rowBytes;

  __device__ __forceinline__ StageProducts(const Rows &side, int row, int inTile, int)
      : weights(side.weights), place(inTile * rowBytes ^ (inTile * rowBytes >> 3 & (rowBytes - 16))),
        chosen(Codes::chosen(threadIdx.x % 4)), product(inTile / ofProduct), row(row + inTile % ofProduct) {}

  __device__ __forceinline__ int productOf(int block) const { return isPair ? block : product; }

  /// A K block of the lane's row `half`, from the stage's rows at `rows` on.
  __device__ __forceinline__ void widen(unsigned (&pairs)[steps][2], unsigned rows, int line, int half,
                                        const unsigned (&minusZero)[scales][2],
                                        const unsigned (&scale)[scales][2]) const {
#pragma unroll
    for (int chunk = 0; chunk < chunksOfLine; ++chunk) {
      unsigned words[4];
      loadShared(words, rows + (place ^ (line * chunksOfLine + chunk) * 16));
#pragma unroll
      for (int i = 0; i < 2 * stepsOfChunk; ++i) {
        const int step = chunk * stepsOfChunk + i / 2, of = (line * lineK + step * stepK) / scaleK;
        const unsigned bits = Codes::neighbours(words + i * Codes::wordsOfEight, chosen);
        pairs[step][i % 2] = scaledPair(T{}, Codes::widened(bits, minusZero[of][half]), scale[of][half], 0);
      }
    }
  }

  /// Where in K the stage's scale `i` is; past the end that of the last element.
  static __device__ __forceinline__ int placeOf(int k, int i) {
    const int at = k + i * scaleK;
    return Config::K % Config::tileK == 0 || at < Config::K ? at : Config::K - 1;
  }
};

} // namespace kfuse
