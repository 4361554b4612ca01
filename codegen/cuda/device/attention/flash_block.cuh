// Which rows a block of an attention of many has, and which keys they see.
#pragma once

#include <kfuse/math.cuh>

namespace kfuse {

/// Bounds that a batch's body reads (Config::readsBounds): keys from `firstKey` to `endKey`, and those that move with
/// the row's number. With Config::readsOfRow there are more for each row.
template <class Body, bool areRead> struct ReadBounds {
  template <class Index> __device__ __forceinline__ ReadBounds(const Body &, Index) {}
};
template <class Body> struct ReadBounds<Body, true> : Body::Bounds {
  template <class Index>
  __device__ __forceinline__ ReadBounds(const Body &body, Index batch) : Body::Bounds(body.bounds(batch)) {}
};
template <class Body, bool areRead> struct BoundsOfRows {
  template <class Index> __device__ __forceinline__ BoundsOfRows(const Body &, Index) {}
};
template <class Body> struct BoundsOfRows<Body, true> {
  const Body &body;
  decltype(Body::Bounds::firstKey) batch;
  template <class Index>
  __device__ __forceinline__ BoundsOfRows(const Body &body, Index batch) : body(body), batch(batch) {}
  __device__ __forceinline__ auto boundsOf(decltype(batch) row) const { return body.bounds(batch, row); }
};

/// Keys that some of several rows see, and those that all of them see.
template <class Index> struct KeySpan {
  Index first, end, wholeFirst, wholeEnd;
};

/// Keys that a row of a batch may see: from first to end.
template <class Config, class Body>
struct SeenKeys : ReadBounds<Body, Config::readsBounds>, BoundsOfRows<Body, Config::readsOfRow> {
  using Index = typename Config::Index;
  /// Whether rows see keys from others than 0 on, and whether there are keys of tiles that a row does not see the end
  /// of.
  static constexpr bool haveFirst = Config::hasLowest || Config::chunk > 0 || Config::readsFirst,
                        haveEnd = Config::hasHighest || Config::chunk > 0 || Config::keys % Config::tileKeys != 0 ||
                                  Config::readsBounds;

  __device__ __forceinline__ SeenKeys(const Body &body, Index batch)
      : ReadBounds<Body, Config::readsBounds>(body, batch), BoundsOfRows<Body, Config::readsOfRow>(body, batch) {}

  __device__ __forceinline__ Index first(Index row) const {
    if constexpr (Config::period > 0)
      row %= Config::period;
    Index key = 0;
    if constexpr (Config::hasLowest)
      key = maximum(row + Config::lowest, Index(0));
    if constexpr (Config::chunk > 0)
      key = maximum(key, chunkOf(row));
    if constexpr (Config::readsFirst)
      key = maximum(key, maximum(this->firstKey, row + this->firstOfRow));
    if constexpr (Config::readsFirst && Config::readsOfRow) {
      const auto own = this->boundsOf(row);
      key = maximum(key, maximum(own.firstKey, row + own.firstOfRow));
    }
    return key;
  }
  __device__ __forceinline__ Index end(Index row) const {
    if constexpr (Config::period > 0)
      row %= Config::period;
    Index key = Config::keys;
    if constexpr (Config::hasHighest)
      key = minimum(row + Config::highest + 1, key);
    if constexpr (Config::chunk > 0)
      key = minimum(chunkOf(row) + Config::chunk, key);
    if constexpr (Config::readsBounds)
      key = minimum(key, minimum(this->endKey, row + this->endOfRow));
    if constexpr (Config::readsOfRow) {
      const auto own = this->boundsOf(row);
      key = minimum(key, minimum(own.endKey, row + own.endOfRow));
    }
    return key;
  }

  /// Those of the rows from one to another, all of which are compared where each has bounds of its own: a whole warp
  /// asks. Else bounds grow with the row's number. Of several heads' rows it is as if there were all of a head.
  __device__ __forceinline__ KeySpan<Index> span(Index from, Index to) const {
    if constexpr (Config::readsOfRow)
      return spanOfWarp(from, to);
    if constexpr (Config::period > 0)
      from = 0, to = Config::period - 1;
    return {first(from), end(to), first(to), end(from)};
  }

private:
  __device__ __forceinline__ KeySpan<Index> spanOfWarp(Index from, Index to) const {
    KeySpan<Index> span{Config::keys, 0, 0, Config::keys};
    for (Index row = from + Index(threadIdx.x % 32); row <= to; row += 32) {
      const Index first = this->first(row), end = this->end(row);
      span.first = minimum(span.first, first), span.end = maximum(span.end, end);
      span.wholeFirst = maximum(span.wholeFirst, first), span.wholeEnd = minimum(span.wholeEnd, end);
    }
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      span.first = minimum(span.first, shuffleXor(span.first, lanes));
      span.end = maximum(span.end, shuffleXor(span.end, lanes));
      span.wholeFirst = maximum(span.wholeFirst, shuffleXor(span.wholeFirst, lanes));
      span.wholeEnd = minimum(span.wholeEnd, shuffleXor(span.wholeEnd, lanes));
    }
    return span;
  }
  static __device__ __forceinline__ Index chunkOf(Index row) {
    return (row + Config::rowInChunks) / Config::chunk * Config::chunk - Config::keyInChunks;
  }
};

/// The rows of a block, and the tiles of keys that some of them see. Blocks with most keys start first; where all have
/// as many and heads take turns, those that are full of rows. `together` heads do, whose keys and values the last-level
/// cache holds.
template <class Config, class Body> struct FlashBlock {
  using Index = typename Config::Index;
  Index batch, firstRow, beginTile, endTile, endKey; ///< Its rows see keys before endKey.
  SeenKeys<Config, Body> seen;

  __device__ __forceinline__ FlashBlock(const Body &body, unsigned block) : FlashBlock(body, placeOf(block)) {}

  /// Whether nobody reads its rows: a run has fewer, or fewer sequences. They see no keys.
  __device__ __forceinline__ bool isBehindRun(const Body &body) const {
    if constexpr (requires { body.isBehindRun(batch, firstRow); })
      return body.isBehindRun(batch, firstRow);
    return false;
  }

private:
  struct Place {
    Index batch, firstRow;
  };
  static __device__ __forceinline__ Place placeOf(unsigned block) {
    constexpr unsigned tiles = (Config::rows + Config::tileRows - 1) / Config::tileRows,
                       ofGroup = tiles * Config::together;
    constexpr bool seeAll = !SeenKeys<Config, Body>::haveFirst && !Config::hasHighest && !Config::readsBounds,
                   areFullFirst = seeAll && Config::together > 1 && Config::rows % Config::tileRows != 0;
    const unsigned group = block / ofGroup, within = block % ofGroup;
    return {Index(group * Config::together + within % Config::together),
            Index(areFullFirst ? within / Config::together : tiles - 1 - within / Config::together) * Config::tileRows};
  }
  __device__ __forceinline__ FlashBlock(const Body &body, Place place)
      : batch(place.batch), firstRow(place.firstRow), seen(body, place.batch) {
    const Index lastRow = minimum(firstRow + Config::tileRows, Index(Config::rows)) - 1;
    const KeySpan<Index> span = seen.span(firstRow, lastRow);
    endKey = span.end;
    beginTile = span.first / Config::tileKeys;
    endTile = endKey > 0 ? (endKey + Config::tileKeys - 1) / Config::tileKeys : Index(0);
    if (isBehindRun(body))
      endTile = beginTile;
  }
};

/// The keys of a warp's rows: kept where a warp has to ask for them, else made each time, which takes no registers.
template <class Seen, bool isKept> struct HeldSpan {
  using Index = typename Seen::Index;
  __device__ __forceinline__ HeldSpan(const Seen &, Index, Index) {}
  static __device__ __forceinline__ KeySpan<Index> span(const Seen &seen, Index from, Index to) {
    return seen.span(from, to);
  }
};
template <class Seen> struct HeldSpan<Seen, true> {
  using Index = typename Seen::Index;
  const KeySpan<Index> kept;
  __device__ __forceinline__ HeldSpan(const Seen &seen, Index from, Index to) : kept(seen.span(from, to)) {}
  __device__ __forceinline__ KeySpan<Index> span(const Seen &, Index, Index) const { return kept; }
};

} // namespace kfuse
