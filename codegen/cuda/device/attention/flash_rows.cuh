// What a warp has of its query rows in an attention of many: accumulators of weighted values, and what scales them.
#pragma once

#include <kfuse/flash_block.cuh>
#include <kfuse/math.cuh>

namespace kfuse {

/// The body reads its masks itself.
struct NoMask {
  struct Pair {};
  __device__ __forceinline__ Pair pair(int, int) const { return {}; }
};

/// A mask that stays in registers: what each lane has of it beside its accumulators; nothing where none is held.
template <class Config, class Body, int fragments, bool isHeld> struct HeldMask : NoMask {
  template <class Index> __device__ __forceinline__ void read(const Body &, Index, Index) {}
};
template <class Config, class Body, int fragments> struct HeldMask<Config, Body, fragments, true> {
  using Index = typename Config::Index;
  using Pair = Vector<typename Config::Mask, 2>;
  Pair pairs[fragments * 2][Config::tileKeys / 8];

  /// The rows of a warp from `firstRow` on; those behind the last one, and such keys, are as the last one.
  __device__ __forceinline__ void read(const Body &body, Index batch, Index firstRow) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < fragments * 2; ++r)
#pragma unroll
      for (int n = 0; n < Config::tileKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          pairs[r][n][i] = body.mask(batch, minimum(firstRow + r * 8 + lane / 4, Index(Config::rows - 1)),
                                     minimum(Index(n * 8 + lane % 4 * 2 + i), Index(Config::keys - 1)));
  }
  /// The pair of a lane in rows and columns that are multiples of eight.
  __device__ __forceinline__ const Pair &pair(int row, int column) const { return pairs[row / 8][column / 8]; }
};

/// 16 * `fragments` rows of a warp, as accumulators of mma and wgmma hold them: a lane has two neighbours of every
/// eight columns in rows lane / 4 and lane / 4 + 8. Of a row it knows `maximum`, which no score so far exceeds by more
/// than `slack`, the sum of the weights e^(score - maximum), up to 2^8 each, and that of the weighted values in
/// `columns` columns; both are scaled when a score comes that does, as in "FlashAttention-2" (Dao, 2023), where any
/// larger one counts.
template <class Config, class Body, int fragments, int columns, class Mask = NoMask> struct FlashRows {
  using Index = typename Config::Index;
  using Element = typename Config::Element;
  using Seen = SeenKeys<Config, Body>;
  static constexpr int tileKeys = Config::tileKeys, scoreCount = tileKeys / 2, accumulatorCount = columns / 2;
  static constexpr float log2e = 1.44269504f, slack = 8 / log2e;
  using Products = float[fragments][scoreCount];
  using Weights = unsigned[fragments][tileKeys / 16][4];
  using Factors = float[fragments][2];

  const Body &body;
  const Seen seen;
  int lane = threadIdx.x % 32;
  Index batch, firstRow, endRow; ///< The rows of this warp; none where all its rows lie past the last.
  const HeldSpan<Seen, Config::readsOfRow> held{seen, firstRow, endRow - 1};
  Mask mask; ///< The mask of the tile that is weighed.
  float accumulators[fragments][accumulatorCount];
  float maximum[fragments][2], weight[fragments][2];

  __device__ __forceinline__ FlashRows(const Body &body, const FlashBlock<Config, Body> &block, Index firstRow)
      : body(body), seen(block.seen), batch(block.batch), firstRow(firstRow),
        endRow(minimum(firstRow + fragments * 16, Index(Config::rows))) {
    clear();
  }
  /// The state before the first key.
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int f = 0; f < fragments; ++f) {
#pragma unroll
      for (int i = 0; i < accumulatorCount; ++i)
        accumulators[f][i] = 0;
#pragma unroll
      for (int half = 0; half < 2; ++half)
        maximum[f][half] = -infinity, weight[f][half] = 0;
    }
  }

  /// Whether a row of this warp sees a key of the tile, and whether all of them see all of its keys.
  __device__ __forceinline__ bool sees(Index tile) const {
    const Index first = tile * tileKeys;
    const KeySpan<Index> span = held.span(seen, firstRow, endRow - 1);
    return firstRow < endRow && first < span.end && first + tileKeys > span.first;
  }
  __device__ __forceinline__ bool seesWhole(Index tile) const {
    const Index first = tile * tileKeys;
    const KeySpan<Index> span = held.span(seen, firstRow, endRow - 1);
    return first + tileKeys <= span.wholeEnd && first >= span.wholeFirst;
  }

  /// From products with the keys of a tile to weights; `factors` are what the warp's accumulators are to be scaled by.
  template <bool isLazy> __device__ __forceinline__ void weigh(Products &products, Index tile, Factors &factors) {
    if (seesWhole(tile))
      weigh<isLazy, false>(products, tile, factors);
    else
      weigh<isLazy, true>(products, tile, factors);
  }
  /// The same of a tile whose keys not all rows see, or the whole of which all do.
  template <bool isLazy, bool isMasked>
  __device__ __forceinline__ void weigh(Products &products, Index tile, Factors &factors) {
    if constexpr (isMasked || !Config::isScaled)
      score<isMasked>(products, tile * tileKeys);
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float shift = moveBase<isLazy>(products, f, half, factors[f][half]);
        weighKeys(products, f, half, shift, 0, tileKeys);
      }
  }

  /// The two steps of weigh(): to scores and the bases of their weights, which scales the accumulators, and to the
  /// weights of 16 keys.
  using Shifts = float[fragments][2];
  __device__ __forceinline__ void scoreAll(Products &products, Index tile, Shifts &shifts) {
    if (!seesWhole(tile))
      score<true>(products, tile * tileKeys);
    else if constexpr (!Config::isScaled)
      score<false>(products, tile * tileKeys);
    Factors factors;
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        shifts[f][half] = moveBase<true>(products, f, half, factors[f][half]);
    rescale<true>(factors);
  }
  __device__ __forceinline__ void weighNext(unsigned (&weights)[fragments][4], Products &scores, const Shifts &shifts,
                                            int n) {
#pragma unroll
    for (int f = 0; f < fragments; ++f) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        weighKeys(scores, f, half, shifts[f][half], n * 16, n * 16 + 16);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        weights[f][i] = wordOf(Element{}, scores[f][n * 8 + i * 2], scores[f][n * 8 + i * 2 + 1]);
    }
  }

  /// Behind the first tiles all factors are 1 of bases that move lazily, nearly always: then there is nothing to do.
  template <bool isLazy> __device__ __forceinline__ void rescale(const Factors &factors) {
    if constexpr (isLazy) {
      bool moves = false;
#pragma unroll
      for (int f = 0; f < fragments; ++f)
        moves |= factors[f][0] != 1.0f || factors[f][1] != 1.0f;
      if (!anyInWarp(moves))
        return;
    }
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int i = 0; i < accumulatorCount; ++i)
        accumulators[f][i] *= factors[f][i / 2 % 2];
  }

  /// Operands of the second product: accumulators of the first lie as its rows do.
  static __device__ __forceinline__ void pack(Weights &weights, const Products &from) {
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int n = 0; n < tileKeys / 16; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          weights[f][n][i] = wordOf(Element{}, from[f][n * 8 + i * 2], from[f][n * 8 + i * 2 + 1]);
  }

  /// What a lane of a warp has found among its keys, at `at[i * stride]`.
  static constexpr int heldFloats = fragments * (accumulatorCount + 4);
  __device__ __forceinline__ void leave(float *at, int stride) const {
#pragma unroll
    for (int f = 0; f < fragments; ++f) {
#pragma unroll
      for (int half = 0; half < 2; ++half, at += 2 * stride)
        at[0] = maximum[f][half], at[stride] = weight[f][half];
#pragma unroll
      for (int i = 0; i < accumulatorCount; ++i, at += stride)
        *at = accumulators[f][i];
    }
  }
  /// Adds what another warp left of the same rows among other keys.
  __device__ __forceinline__ void add(const float *at, int stride) {
#pragma unroll
    for (int f = 0; f < fragments; ++f) {
      float mine[2], other[2];
#pragma unroll
      for (int half = 0; half < 2; ++half, at += 2 * stride) {
        const float highest = fmaxf(maximum[f][half], at[0]), base = highest == -infinity ? 0.0f : highest;
        mine[half] = powerOfTwo((maximum[f][half] - base) * log2e), other[half] = powerOfTwo((at[0] - base) * log2e);
        weight[f][half] = weight[f][half] * mine[half] + at[stride] * other[half];
        maximum[f][half] = highest;
      }
#pragma unroll
      for (int i = 0; i < accumulatorCount; ++i, at += stride)
        accumulators[f][i] = accumulators[f][i] * mine[i / 2 % 2] + *at * other[i / 2 % 2];
    }
  }

  /// By eight neighbours of a row.
  __device__ __forceinline__ void store() const {
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Index row = firstRow + f * 16 + half * 8 + lane / 4;
        const Quotient quotient(totalWeight(f, half, row));
#pragma unroll
        for (int first = 0; first < columns / 8; first += 4) {
          float pairs[4][2] = {};
#pragma unroll
          for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int i = 0; i < 2; ++i)
              if (first + j < columns / 8)
                pairs[j][i] = quotient(accumulators[f][(first + j) * 4 + half * 2 + i]);
          exchange(pairs);
          Vector<float, 8> values;
#pragma unroll
          for (int i = 0; i < 8; ++i)
            values[i] = pairs[i / 2][i % 2];
          const int d = (first + lane % 4) * 8;
          if (row < Config::rows && d < Config::valueSize)
            body.store(batch, row, d, values);
        }
      }
  }

  /// Each element by itself.
  __device__ __forceinline__ void storeEach() const {
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Index row = firstRow + f * 16 + half * 8 + lane / 4;
        const Quotient quotient(totalWeight(f, half, row));
#pragma unroll
        for (int i = 0; i < columns / 8 * 2; ++i) {
          const int d = i / 2 * 8 + lane % 4 * 2 + i % 2;
          if (row < Config::rows && d < Config::valueSize)
            body.store(batch, row, d, quotient(accumulators[f][i / 2 * 4 + half * 2 + i % 2]));
        }
      }
  }

private:
  /// The sum of a row's weights, of which each lane has a part, and that of its sink, which has no value.
  __device__ __forceinline__ float totalWeight(int f, int half, Index row) const {
    float total = weight[f][half];
    total += shuffleXor(total, 1);
    total += shuffleXor(total, 2);
    if constexpr (Config::hasSink)
      total += powerOfTwo((body.sink(batch, minimum(row, Index(Config::rows - 1))) - maximum[f][half]) * log2e);
    return total;
  }

  /// What is left of a row's accumulators once they are divided by that of its weights.
  struct Quotient {
    float factor;
    bool isEmpty;

    __device__ __forceinline__ explicit Quotient(float total) {
      isEmpty = Config::emptyIsZero && !(total > 0.0f); // No keys, or scores that are no numbers.
      factor = 1.0f / total;
    }
    __device__ __forceinline__ float operator()(float sum) const { return isEmpty ? 0.0f : sum * factor; }
  };

  /// From products to scores of keys from `first` on: of those that a row sees what the body says, but for the factor
  /// Config::scale where that is all; -infinity of the others.
  template <bool isMasked> __device__ __forceinline__ void score(Products &scores, Index first) const {
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Index row = minimum(firstRow + f * 16 + half * 8 + lane / 4, Index(Config::rows - 1));
        // Counted from the lane's first column, so that columns are constants.
        const Index column = first + lane % 4 * 2, seenFirst = seen.first(row) - column,
                    seenEnd = seen.end(row) - column;
        const auto ofRow = rowOf(row);
#pragma unroll
        for (int n = 0; n < tileKeys / 8; ++n) {
          const auto &masks = mask.pair(f * 16 + half * 8, n * 8);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            float &at = scores[f][n * 4 + half * 2 + i];
            if constexpr (!Config::isScaled) {
              const Index key = column + n * 8 + i,
                          read = isMasked && Config::keys % tileKeys != 0 ? minimum(key, Index(Config::keys - 1)) : key;
              if constexpr (requires { masks[i]; })
                at = body.seen(ofRow, at, batch, row, read, masks[i]);
              else
                at = body.seen(ofRow, at, batch, row, read);
            }
            if constexpr (isMasked && Seen::haveFirst)
              at = n * 8 + i >= seenFirst ? at : -infinity;
            if constexpr (isMasked && Seen::haveEnd)
              at = n * 8 + i < seenEnd ? at : -infinity;
          }
        }
      }
  }
  /// What the body reads of a row.
  __device__ __forceinline__ auto rowOf(Index row) const {
    if constexpr (Config::isScaled)
      return 0;
    else
      return body.row(batch, row);
  }

  /// The base of a row's weights after these scores, as what is added to a score times log2(e); `factor` is what the
  /// weights and accumulators so far are to be scaled by.
  template <bool isLazy> __device__ __forceinline__ float moveBase(Products &scores, int f, int half, float &factor) {
    float highest = scores[f][half * 2];
#pragma unroll
    for (int n = 0; n < tileKeys / 8; ++n)
      highest = fmaxf(highest, fmaxf(scores[f][n * 4 + half * 2], scores[f][n * 4 + half * 2 + 1]));
    highest = fmaxf(highest, shuffleXor(highest, 1));
    highest = fmaxf(highest, shuffleXor(highest, 2));
    if constexpr (Config::isScaled)
      highest *= Config::scale;
    if constexpr (!isLazy)
      highest = fmaxf(highest, maximum[f][half]);
    else if (!(highest > maximum[f][half] + slack))
      highest = maximum[f][half];
    const float base = highest == -infinity ? 0.0f : highest; // No key counts yet: its weights are zeros, not NaN.
    factor = powerOfTwo((maximum[f][half] - base) * log2e);
    maximum[f][half] = highest;
    weight[f][half] *= factor;
    // Masks go down to the lowest float. From scores as far as that the base is subtracted first: times log2(e) it
    // would be infinite, and at 8192 its rounding has reached 2^-12.
    if (!Config::isScaled && fabsf(base) > 8192.0f) {
#pragma unroll
      for (int n = 0; n < tileKeys / 8; ++n)
        scores[f][n * 4 + half * 2] -= base, scores[f][n * 4 + half * 2 + 1] -= base;
      return 0;
    }
    return base * -log2e;
  }

  /// From a row's scores of the keys from `first` to `end` to their weights.
  __device__ __forceinline__ void weighKeys(Products &scores, int f, int half, float shift, int first, int end) {
    float sum = 0;
#pragma unroll
    for (int n = first / 8; n < end / 8; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float &at = scores[f][n * 4 + half * 2 + i];
        at = powerOfTwo(fmaf(at, (Config::isScaled ? Config::scale : 1.0f) * log2e, shift));
        sum += at;
      }
    weight[f][half] += sum; // This lane's columns; added up at the end.
  }

  /// Transposes pairs among four neighbouring lanes, which have four each: lane q gets pair q of each.
  __device__ __forceinline__ void exchange(float (&pairs)[4][2]) const {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2)
#pragma unroll
      for (int low = 0; low < 4; ++low)
        if ((low & bit) == 0)
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const bool isHigh = lane & bit;
            const float got = shuffleXor(isHigh ? pairs[low][i] : pairs[low | bit][i], bit);
            pairs[low][i] = isHigh ? got : pairs[low][i];
            pairs[low | bit][i] = isHigh ? pairs[low | bit][i] : got;
          }
  }
};

} // namespace kfuse
