// Totals of rows that the blocks of a cluster share, through distributed shared memory.
#pragma once

#include <kfuse/ptx_sm90.cuh>

namespace kfuse {

/// The totals of the rows that one warp shares with its peers: `blocks` times sixteen rows, of which the four lanes of
/// a row hold the same. Peers are at most one exchange ahead, so that two slots suffice: whoever sends the next but one
/// has this warp's next.
template <int peers, int blocks> struct ClusterExchange {
  static constexpr int slotBytes = peers * blocks * 16 * sizeof(float);
  static constexpr int barriersAt = 2 * slotBytes, bytes = peers > 1 ? barriersAt + 16 : 0;

  unsigned memory, firstPeer, own; ///< Shared address; blocks of the cluster.
  unsigned slot = 0, parity = 0;

  __device__ __forceinline__ explicit ClusterExchange(unsigned memory) : memory(memory) {
    const unsigned rank = peers > 1 ? blockInCluster() : 0;
    own = rank % peers, firstPeer = rank - own;
  }
  static __device__ __forceinline__ void initBarriers(unsigned memory) {
    for (int i = 0; i < 2; ++i)
      initBarrier(memory + barriersAt + i * 8, 1);
  }

  /// From this warp's totals to those of all peers, added up in one order.
  template <class Operation> __device__ __forceinline__ void meet(float (&values)[blocks][2]) {
    const int lane = threadIdx.x % 32, row = lane / 4;
    const unsigned here = memory + slot * slotBytes, barrier = memory + barriersAt + slot * 8;
    if (lane == 0)
      arriveExpecting(barrier, slotBytes);
    __syncwarp(); // All lanes have read what the peers will overwrite next.
#pragma unroll
    for (int first = 0; first < peers; first += 4)
      if (const int peer = first + lane % 4; peer < peers) {
        const unsigned to = inBlock(here, firstPeer + peer), toBarrier = inBlock(barrier, firstPeer + peer);
#pragma unroll
        for (int i = 0; i < blocks; ++i)
          sendPair(to + placeOf(own, i, row), values[i], toBarrier);
      }
    waitBarrier(barrier, parity);
#pragma unroll
    for (int peer = 0; peer < peers; ++peer)
#pragma unroll
      for (int i = 0; i < blocks; ++i) {
        float pair[2];
        loadPair(pair, here + placeOf(peer, i, row));
#pragma unroll
        for (int half = 0; half < 2; ++half)
          values[i][half] = peer == 0 ? pair[half] : Operation::combine(values[i][half], pair[half]);
      }
    parity ^= slot;
    slot ^= 1;
  }
  __device__ __forceinline__ void leave() const {}

private:
  static __device__ __forceinline__ unsigned placeOf(int peer, int block, int row) {
    return ((peer * blocks + block) * 8 + row) * 8;
  }
};

} // namespace kfuse
