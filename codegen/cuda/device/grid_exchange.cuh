// Totals of rows that blocks of the whole grid share, through memory, which is the last-level cache. All blocks must be
// on the device at once, and share their rows in the same order.
#pragma once

#include <kfuse/reduce.cuh>

namespace kfuse {

/// Where blocks leave totals for each other; all zero at entry and exit. A team are the warps that have the same rows,
/// one of each peer.
struct SharedTotals {
  unsigned *left;             ///< [team]: how many of its warps have had their last exchange.
  unsigned long long *places; ///< [team][peer][slot][float][block][row of eight][half]
};

/// What is known of some values of a row: their mean, and the sum of their squared differences from it.
struct Moments {
  float mean, squares;

  /// Those of `mine` and `others` more, in this order (Chan, Golub and LeVeque, "Updating formulae and a pairwise
  /// algorithm for computing sample variances", 1979). `share`: of the others among all.
  static __device__ __forceinline__ Moments merge(const Moments &a, const Moments &b, float mine, float share) {
    const float apart = b.mean - a.mean;
    return {a.mean + apart * share, a.squares + b.squares + apart * apart * (mine * share)};
  }
};

/// The rows that one warp shares with its peers: `blocks` times sixteen, of which the four lanes of a row hold the same
/// `floats` at most. A float lies in one word with the number of its exchange, so that nobody waits for a flag before
/// he reads: this costs one way to memory and one back. Peers are at most one exchange ahead, so that two slots
/// suffice: whoever writes the next but one has read this warp's next.
template <int peers, int blocks, int floats> struct GridExchange {
  static constexpr int slotWords = floats * blocks * 16, placeWords = 2 * slotWords, teamWords = peers * placeWords;

  unsigned *left;
  unsigned long long *places; ///< Of this team.
  int own;                    ///< This warp among the peers.
  unsigned number = 0;        ///< Of the last exchange.

  __device__ __forceinline__ GridExchange(const SharedTotals &totals, int team, int own)
      : left(totals.left + team), places(totals.places + team * teamWords), own(own) {}

  /// From this warp's totals to those of all peers, added up in one order.
  template <class Operation> __device__ __forceinline__ void meet(float (&values)[blocks][2]) {
    float totals[blocks][2];
    forEach([&](int i, int half) { totals[i][half] = Operation::template identity<float>(); });
    exchange(values, [&](int, const float(&theirs)[blocks][2]) {
      forEach([&](int i, int half) { totals[i][half] = Operation::combine(totals[i][half], theirs[i][half]); });
    });
    forEach([&](int i, int half) { values[i][half] = reduceLanes<Operation, 4>(totals[i][half]); });
  }

  /// The same for moments of `countOf(peer)` values each.
  template <class Count> __device__ __forceinline__ void meet(Moments (&moments)[blocks][2], Count countOf) {
    static_assert(floats == 2);
    float values[2 * blocks][2], count = 0;
    forEach([&](int i, int half) {
      values[i][half] = moments[i][half].mean, values[blocks + i][half] = moments[i][half].squares;
      moments[i][half] = {};
    });
    exchange(values, [&](int peer, const float(&theirs)[2 * blocks][2]) {
      const float share = shareOf(count, countOf(peer));
      forEach([&](int i, int half) {
        moments[i][half] = Moments::merge(moments[i][half], {theirs[i][half], theirs[blocks + i][half]}, count, share);
      });
      count += countOf(peer);
    });
#pragma unroll
    for (int offset = 2; offset > 0; offset /= 2) {
      const bool isSecond = threadIdx.x & offset; // All lanes merge in one order.
      const float other = shuffleXor(count, offset), first = isSecond ? other : count,
                  share = shareOf(first, isSecond ? count : other);
      forEach([&](int i, int half) {
        const Moments mine = moments[i][half], theirs{shuffleXor(mine.mean, offset), shuffleXor(mine.squares, offset)};
        moments[i][half] = Moments::merge(isSecond ? theirs : mine, isSecond ? mine : theirs, first, share);
      });
      count += other;
    }
  }

  /// After the last exchange: whoever of the team leaves last clears its places for the next run.
  __device__ __forceinline__ void leave() const {
    const int lane = threadIdx.x % 32;
    __syncwarp(); // All lanes have read.
    unsigned before = lane == 0 ? countArrival(left) : 0;
    before = reduceLanes<Sum, 32>(before);
    if (before != peers - 1)
      return;
    constexpr float zero[2] = {};
#pragma unroll 1
    for (int i = lane * 2; i < teamWords; i += 64)
      storeNumbered(places + i, zero, 0);
    if (lane == 0)
      *left = 0;
  }

private:
  /// Hands out this warp's values, and gives each of a row's four lanes every fourth peer's: `visit(peer, theirs)`.
  template <int count, class Visit>
  __device__ __forceinline__ void exchange(const float (&values)[count][2], Visit visit) {
    static_assert(count <= floats * blocks);
    // Words on their way together take 32 registers at most: with more the sums spill, with fewer 32 peers take another
    // way to memory and back.
    constexpr int peersOfLane = (peers + 3) / 4, most = 8 / count, together = peersOfLane < most ? peersOfLane : most;
    const int lane = threadIdx.x % 32;
    unsigned long long *slot = places + ++number % 2 * slotWords + lane / 4 * 2;
    if (lane % 4 == 0)
#pragma unroll
      for (int i = 0; i < count; ++i)
        storeNumbered(slot + own * placeWords + i * 16, values[i], number);
#pragma unroll 1
    for (int first = 0; first < peersOfLane; first += together) {
      float theirs[together][count][2];
      bool isThere;
      do {
        isThere = true;
#pragma unroll
        for (int u = 0; u < together; ++u)
#pragma unroll
          for (int i = 0; i < count; ++i)
            if (const int peer = (first + u) * 4 + lane % 4; peer < peers)
              isThere &= loadNumbered(theirs[u][i], slot + peer * placeWords + i * 16, number);
      } while (!isThere);
#pragma unroll
      for (int u = 0; u < together; ++u)
        if (const int peer = (first + u) * 4 + lane % 4; peer < peers)
          visit(peer, theirs[u]);
    }
  }

  static __device__ __forceinline__ float shareOf(float mine, float others) {
    return others > 0 ? divideFull(others, mine + others) : 0;
  }
  template <class Visit> static __device__ __forceinline__ void forEach(Visit visit) {
#pragma unroll
    for (int i = 0; i < blocks; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        visit(i, half);
  }
};

} // namespace kfuse
