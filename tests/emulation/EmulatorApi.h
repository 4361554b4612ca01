// What emulated kernels ask of the emulator. Shared by both sides of a dlopen.
//
// Addresses in shared memory are offsets: of the dynamic part from its start, of `__shared__` variables from
// `staticShared` on. In a cluster the bits from `blockBits` on say whose: 0 is the thread's own block, i + 1 the i-th.
#pragma once

namespace kfuse::test {

struct Index3 {
  unsigned x, y, z;
};

/// Where a thread is.
struct Place {
  Index3 thread, block, grid;
};

/// What mma.sync multiplies: 16x8x16 halves, or 16x8x8 floats that it cuts.
enum class MmaType { Bf16, F16, Tf32 };

constexpr unsigned blockBits = 24, staticShared = 1U << 23;

struct EmulatorApi {
  const Place *place; ///< That of the thread that runs.
  void (*syncBlock)();
  void (*syncWarp)();
  void (*yield)(); ///< Lets other threads run.
  /// 64 bytes for each lane of the current warp, alternately one of two places: a lane that gives its next value has
  /// seen that all have given this one, not that all have read it.
  unsigned char *(*warpScratch)();
  unsigned char *(*shared)();
  /// The address of what lies in shared memory, and what lies at one: `bytes`, aligned to them, of this block or of
  /// any of the cluster.
  unsigned (*addressOf)(const void *pointer);
  unsigned char *(*at)(unsigned address, unsigned bytes);
  unsigned char *(*inCluster)(unsigned address, unsigned bytes);
  /// cp.async of `size` bytes of which `bytes` are read; its group; waiting for all but `pending` groups.
  void (*copy)(void *to, const void *from, int size, int bytes);
  void (*commit)();
  void (*wait)(int pending);
  void (*fail)(const char *message);

  // mma.sync, which adds to the thread's four sums, and ldmatrix from the row of 16 bytes that the thread names.
  void (*mma)(MmaType type, float *sums, const unsigned *rows, const unsigned *columns);
  void (*loadMatrices)(unsigned *to, unsigned row, bool isTransposed);

  // Hopper's named barriers, clusters and transaction barriers.
  void (*syncNamed)(int number, int threads);
  void (*arriveNamed)(int number, int threads);
  unsigned (*blockInCluster)();
  void (*arriveAtCluster)();
  void (*waitForCluster)();
  void (*initBarrier)(unsigned barrier, unsigned arrivals);
  void (*arrive)(unsigned barrier, unsigned expectedBytes);
  void (*arriveInCluster)(unsigned barrier);
  void (*waitBarrier)(unsigned barrier, unsigned parity);
  void (*send)(unsigned to, const void *from, unsigned bytes, unsigned barrier);
  // TMA (`map` is a TensorMap's), and products of warpgroups.
  void (*loadBox)(unsigned to, const void *map, const int *place, int rank, unsigned barrier, unsigned blocks);
  void (*storeBox)(const void *map, const int *place, int rank, unsigned from);
  void (*waitStores)(int pending, bool inMemory);
  void (*multiply)(const char *instruction, float *sums, unsigned long long rows, unsigned long long columns,
                   bool accumulate);
  /// With rows from registers: two of sixteen elements, those of the thread's sums.
  void (*multiplyRows)(const char *instruction, float *sums, const unsigned short *rows, unsigned long long columns,
                       bool accumulate);
  void (*commitProducts)();
  void (*waitProducts)(int pending);
};

} // namespace kfuse::test
