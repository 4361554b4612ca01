// The instructions of codegen/cuda/device/base/ptx_sm90.cuh, as the PTX manual describes them, in plain C++.
#pragma once

#include <kfuse/ptx.cuh>

namespace kfuse {

struct TensorMap {
  const void *map; ///< The emulator's.
};

//===- Barriers in shared memory -----------------------------------------------------------------//

inline void initBarrier(unsigned barrier, unsigned arrivals) { emulator->initBarrier(barrier, arrivals); }
inline void fenceBarrierInit() {}
inline void arriveExpecting(unsigned barrier, unsigned bytes) { emulator->arrive(barrier, bytes); }
inline void arrive(unsigned barrier) { emulator->arrive(barrier, 0); }
inline void arriveInCluster(unsigned barrier) { emulator->arriveInCluster(barrier); }
inline void waitBarrier(unsigned barrier, unsigned parity) { emulator->waitBarrier(barrier, parity); }

//===- Flags in memory ---------------------------------------------------------------------------//

inline void setFlag(unsigned *flag) { *flag = 1; }
inline unsigned loadAcquire(const unsigned *flag) {
  emulator->yield();
  return *flag;
}
inline void loadRelaxed(float (&to)[4], const void *from) { std::memcpy(to, from, sizeof(to)); }
inline void fenceGlobalForTma() {}

//===- TMA ---------------------------------------------------------------------------------------//

inline void prefetchMap(const TensorMap *) {}
inline void loadBoxMulticast(unsigned to, const TensorMap *map, int x, int y, int z, unsigned barrier,
                             unsigned short blocks) {
  const int place[] = {x, y, z};
  emulator->loadBox(to, map->map, place, 3, barrier, blocks);
}
inline void loadBoxMulticast(unsigned to, const TensorMap *map, int x, int y, int z, int w, unsigned barrier,
                             unsigned short blocks) {
  const int place[] = {x, y, z, w};
  emulator->loadBox(to, map->map, place, 4, barrier, blocks);
}
inline void loadBox(unsigned to, const TensorMap *map, int x, int y, int z, unsigned barrier) {
  loadBoxMulticast(to, map, x, y, z, barrier, 1u << emulator->blockInCluster());
}
inline void loadBox(unsigned to, const TensorMap *map, int x, int y, int z, int w, unsigned barrier) {
  loadBoxMulticast(to, map, x, y, z, w, barrier, 1u << emulator->blockInCluster());
}
inline void fetchBox(const TensorMap *, int, int, int) {}
inline void storeBox(const TensorMap *map, int x, int y, int z, unsigned from) {
  const int place[] = {x, y, z};
  emulator->storeBox(map->map, place, 3, from);
}
template <int pending> inline void waitStores() { emulator->waitStores(pending, false); }
inline void waitStored() { emulator->waitStores(0, true); }
inline void fenceForTma() {}

/// Lane l holds elements (l / 4, l % 4 * 2) and the next of each 8x8 matrix; rows and columns swap if transposed.
inline void storeMatrices(unsigned row, const unsigned (&words)[4], bool transposed) {
  const unsigned lane = threadIdx.x % 32;
  exchangeTogether(reinterpret_cast<unsigned short *>(emulator->at(row, 16)), [&](auto rowOf) {
    for (unsigned matrix = 0; matrix < 4; ++matrix)
      for (unsigned i = 0; i < 2; ++i) {
        unsigned y = lane / 4, x = lane % 4 * 2 + i;
        if (transposed)
          std::swap(x, y);
        rowOf(matrix * 8 + y)[x] = static_cast<unsigned short>(words[matrix] >> i * 16);
      }
  });
}
inline void storeMatrices(unsigned row, unsigned a, unsigned b, unsigned c, unsigned d) {
  storeMatrices(row, {a, b, c, d}, false);
}
inline void storeMatricesTransposed(unsigned column, unsigned a, unsigned b, unsigned c, unsigned d) {
  storeMatrices(column, {a, b, c, d}, true);
}

//===- Clusters ----------------------------------------------------------------------------------//

inline unsigned blockInCluster() { return emulator->blockInCluster(); }
inline void arriveAtCluster() { emulator->arriveAtCluster(); }
inline void waitForCluster() { emulator->waitForCluster(); }
inline void syncClusterRelaxed() { arriveAtCluster(), waitForCluster(); }
inline void syncCluster() { syncClusterRelaxed(); }
inline unsigned inBlock(unsigned shared, unsigned block) {
  return shared % (1u << kfuse::test::blockBits) | (block + 1) << kfuse::test::blockBits;
}
inline void loadCluster(float (&to)[4], unsigned address) { std::memcpy(to, emulator->inCluster(address, 16), 16); }
inline void loadOwn(float (&to)[4], unsigned address) { std::memcpy(to, emulator->at(address, 16), 16); }
inline void sendPair(unsigned to, const float (&pair)[2], unsigned barrier) { emulator->send(to, pair, 8, barrier); }
inline void sendBits(unsigned to, unsigned long long bits, unsigned barrier) { emulator->send(to, &bits, 8, barrier); }
inline void loadPair(float (&pair)[2], unsigned address) { std::memcpy(pair, emulator->at(address, 8), 8); }

//===- Warps and registers -----------------------------------------------------------------------//

inline int warpInBlock() { return threadIdx.x / 32; }
inline unsigned largestInWarp(unsigned value) {
  for (int mask = 16; mask > 0; mask /= 2)
    value = std::max(value, shuffleXor(value, mask));
  return value;
}
inline bool leadsWarp() { return threadIdx.x % 32 == 0; }
inline void syncNamed(int number, int threads) { emulator->syncNamed(number, threads); }
inline void arriveNamed(int number, int threads) { emulator->arriveNamed(number, threads); }
template <int registers> inline void releaseRegisters() {}
template <int registers> inline void claimRegisters() {}
inline void warpgroupFenceOperand(float &) {}

//===- Warpgroup matrix products -----------------------------------------------------------------//

inline unsigned long long joined(unsigned low, unsigned high) {
  return low | static_cast<unsigned long long>(high) << 32;
}
/// Words i and i + 2 of a lane are of row lane / 4 and of that 8 below, elements lane % 4 * 2 and the next, and those 8
/// further.
struct RowWords {
  unsigned words[4];
};
inline void multiplyRows(const char *instruction, float *sums, const unsigned (&rows)[4], unsigned long long columns,
                         int accumulate) {
  unsigned short values[2][16];
  exchange(RowWords{{rows[0], rows[1], rows[2], rows[3]}}, [&](auto of) {
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned k = 0; k < 16; ++k)
        values[half][k] = static_cast<unsigned short>(
            of(threadIdx.x % 32 / 4 * 4 + k % 8 / 2).words[half + k / 8 * 2] >> k % 2 * 16);
  });
  emulator->multiplyRows(instruction, sums, values[0], columns, accumulate);
}
// A warp's lanes execute these together.
inline void fenceProducts() { emulator->syncWarp(); }
inline void commitProducts() {
  emulator->syncWarp();
  emulator->commitProducts();
}
template <int pending> inline void waitProducts() {
  emulator->waitProducts(pending);
  emulator->syncWarp();
}

} // namespace kfuse
