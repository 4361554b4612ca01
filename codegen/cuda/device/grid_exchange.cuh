// Totals of rows that blocks of the whole grid share, through memory, which is the last-level cache. All blocks must be
// on the device at once, and share their rows in the same order.
#pragma once

#include <kfuse/reduce.cuh>

namespace kfuse {

/// Where blocks leave totals for each other; all zero at entry and exit. A team are the warps that have the same rows,
/// one of each peer.
struct SharedTotals {
  unsigned *left;             ///< [team]: how many of its warps have had their last exchange.
  unsigned long long *places; ///< [team][peer][slot][block][row of eight][half]
};

/// The totals of the rows that one warp shares with its peers: `blocks` times sixteen rows, of which the four lanes of
/// a row hold the same. A total lies in one word with the number of its exchange, so that nobody waits for a flag
/// before he reads: this costs one way to memory and one back. Peers are at most one exchange ahead, so that two slots
/// suffice: whoever writes the next but one has read this warp's next.
template <int peers, int blocks> struct GridExchange {
  static constexpr int slotWords = blocks * 16, placeWords = 2 * slotWords, teamWords = peers * placeWords;

  unsigned *left;
  unsigned long long *places; ///< Of this team.
  int own;                    ///< This warp among the peers.
  unsigned number = 0;        ///< Of the last exchange.

  __device__ __forceinline__ GridExchange(const SharedTotals &totals, int team, int own)
      : left(totals.left + team), places(totals.places + team * teamWords), own(own) {}

  /// From this warp's totals to those of all peers, added up in one order.
  template <class Operation> __device__ __forceinline__ void meet(float (&values)[blocks][2]) {
    // Each of a row's four lanes takes every fourth peer. Words on their way together take 32 registers at most: with
    // more the sums spill, with fewer 32 peers take another way to memory and back.
    constexpr int peersOfLane = (peers + 3) / 4, most = 8 / blocks, together = peersOfLane < most ? peersOfLane : most;
    const int lane = threadIdx.x % 32;
    unsigned long long *slot = places + ++number % 2 * slotWords + lane / 4 * 2;
    if (lane % 4 == 0)
#pragma unroll
      for (int i = 0; i < blocks; ++i)
        storeNumbered(slot + own * placeWords + i * 16, values[i], number);
#pragma unroll
    for (int i = 0; i < blocks; ++i)
      values[i][0] = values[i][1] = Operation::template identity<float>();
#pragma unroll 1
    for (int first = 0; first < peersOfLane; first += together) {
      float pairs[together][blocks][2];
      bool isThere;
      do {
        isThere = true;
#pragma unroll
        for (int u = 0; u < together; ++u)
#pragma unroll
          for (int i = 0; i < blocks; ++i)
            if (const int peer = (first + u) * 4 + lane % 4; peer < peers)
              isThere &= loadNumbered(pairs[u][i], slot + peer * placeWords + i * 16, number);
      } while (!isThere);
#pragma unroll
      for (int u = 0; u < together; ++u)
        if ((first + u) * 4 + lane % 4 < peers)
#pragma unroll
          for (int i = 0; i < blocks; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
              values[i][half] = Operation::combine(values[i][half], pairs[u][i][half]);
    }
#pragma unroll
    for (int i = 0; i < blocks; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        values[i][half] = reduceLanes<Operation, 4>(values[i][half]);
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
};

} // namespace kfuse
