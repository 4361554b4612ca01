// PTX of Hopper: transaction barriers, TMA, clusters, warpgroup matrix products. One function each.
#pragma once

#include <kfuse/ptx.cuh>

namespace kfuse {

/// What the driver encodes of a tensor for TMA; a kernel takes it as a __grid_constant__ parameter.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

//===- Barriers in shared memory, by their shared address ----------------------------------------//

__device__ __forceinline__ void initBarrier(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised barriers visible to the cluster and to TMA. A fence of all memory would take 0.4 us.
__device__ __forceinline__ void fenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}
/// Arrives, and announces `bytes` that TMA will bring.
__device__ __forceinline__ void arriveExpecting(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives at a barrier of any block of the cluster (address from inBlock).
__device__ __forceinline__ void arriveInCluster(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Waits until the phase of this parity is complete. No time limit and no trap: a trap in a branch of
/// consumers makes ptxas ignore their register budget (1.3 KB of spills).
__device__ __forceinline__ void waitBarrier(unsigned barrier, unsigned parity) {
  unsigned isDone;
  do
    asm volatile(
        "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(isDone)
        : "r"(barrier), "r"(parity)
        : "memory");
  while (!isDone);
}

//===- Flags in memory, between blocks -----------------------------------------------------------//

/// Sets a flag: who sees it sees what this thread, and others of the block before a barrier, wrote.
__device__ __forceinline__ void setFlag(unsigned *flag) {
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}
__device__ __forceinline__ unsigned loadAcquire(const unsigned *flag) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
/// What another block wrote, past this multiprocessor's own cache.
__device__ __forceinline__ void loadRelaxed(float (&to)[4], const void *from) {
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "l"(from)
               : "memory");
}
/// Orders what this thread has seen or written in memory before its TMA copies of it.
__device__ __forceinline__ void fenceGlobalForTma() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

//===- TMA ---------------------------------------------------------------------------------------//

__device__ __forceinline__ void prefetchMap(const TensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// Brings the box at (x, y, z) to shared memory and counts its bytes at `barrier`. What lies outside the
/// tensor is zero.
__device__ __forceinline__ void loadBox(unsigned to, const TensorMap *map, int x, int y, int z, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
               "%4}], [%5];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
               : "memory");
}
/// The same to the same place in every block of the cluster whose bit is set in `blocks`.
__device__ __forceinline__ void loadBoxMulticast(unsigned to, const TensorMap *map, int x, int y, int z,
                                                 unsigned barrier, unsigned short blocks) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(blocks)
               : "memory");
}
/// The same of tensors of four dimensions.
__device__ __forceinline__ void loadBox(unsigned to, const TensorMap *map, int x, int y, int z, int w,
                                        unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
               "%4, %5}], [%6];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
               : "memory");
}
__device__ __forceinline__ void loadBoxMulticast(unsigned to, const TensorMap *map, int x, int y, int z, int w,
                                                 unsigned barrier, unsigned short blocks) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier), "h"(blocks)
               : "memory");
}

/// Has the L2 fetch the box at (x, y, z).
__device__ __forceinline__ void fetchBox(const TensorMap *map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(z)
               : "memory");
}

/// Writes shared memory to the box at (x, y, z) as one group of this thread's; what lies outside is not written.
__device__ __forceinline__ void storeBox(const TensorMap *map, int x, int y, int z, unsigned from) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];\n\t"
               "cp.async.bulk.commit_group;" ::"l"(map),
               "r"(x), "r"(y), "r"(z), "r"(from)
               : "memory");
}
/// Waits until all but this thread's latest `pending` groups have read their shared memory.
template <int pending> __device__ __forceinline__ void waitStores() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
/// Waits until all of them are in memory.
__device__ __forceinline__ void waitStored() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/// Makes this thread's writes to shared memory visible to TMA.
__device__ __forceinline__ void fenceForTma() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Four 8x8 matrices of 16-bit elements from registers; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void storeMatrices(unsigned row, unsigned a, unsigned b, unsigned c, unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}
/// The same, each matrix transposed: lane l gives the address of column l % 8 of matrix l / 8.
__device__ __forceinline__ void storeMatricesTransposed(unsigned column, unsigned a, unsigned b, unsigned c,
                                                        unsigned d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(column), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

//===- Clusters ----------------------------------------------------------------------------------//

__device__ __forceinline__ unsigned blockInCluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// A barrier of all threads of all blocks of the cluster: what each wrote before, all see after. The release is a fence
/// of the whole GPU's memory (MEMBAR.ALL.GPU in machine code).
__device__ __forceinline__ void syncCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// The same barrier without that fence, having written nothing for each other but barriers, which fenceBarrierInit()
/// has released (PTX ISA, fence.mbarrier_init). It has two halves, with work of one's own in between.
__device__ __forceinline__ void arriveAtCluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
/// The second half: behind it all have arrived.
__device__ __forceinline__ void waitForCluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void syncClusterRelaxed() {
  arriveAtCluster();
  waitForCluster();
}
/// The address in the cluster of `shared` in block `block`.
__device__ __forceinline__ unsigned inBlock(unsigned shared, unsigned block) {
  unsigned address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(block));
  return address;
}
__device__ __forceinline__ void loadCluster(float (&to)[4], unsigned address) {
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(address)
               : "memory");
}

/// Loads from this block's own shared memory: where it may be another's, the compiler uses generic addressing.
__device__ __forceinline__ void loadOwn(float (&to)[4], unsigned address) {
  asm volatile("ld.shared::cta.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "r"(address)
               : "memory");
}

/// Sends two floats to an address in the cluster and counts their bytes at a barrier beside it (addresses from
/// inBlock).
__device__ __forceinline__ void sendPair(unsigned to, const float (&pair)[2], unsigned barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to),
               "f"(pair[0]), "f"(pair[1]), "r"(barrier)
               : "memory");
}
/// The same for eight bytes of any type.
__device__ __forceinline__ void sendBits(unsigned to, unsigned long long bits, unsigned barrier) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to), "l"(bits),
               "r"(barrier)
               : "memory");
}
/// What was sent, after the wait at its barrier.
__device__ __forceinline__ void loadPair(float (&pair)[2], unsigned address) {
  asm volatile("ld.shared::cta.v2.f32 {%0, %1}, [%2];" : "=f"(pair[0]), "=f"(pair[1]) : "r"(address) : "memory");
}

//===- Warps and registers -----------------------------------------------------------------------//

/// This thread's warp in the block, by a shuffle: then the compiler knows that all lanes have the same, and keeps what
/// follows from it in uniform registers. From `threadIdx` it would move each descriptor there for each wgmma again.
__device__ __forceinline__ int warpInBlock() { return __shfl_sync(0xffffffff, threadIdx.x / 32, 0); }
/// The largest of all lanes' values, in a register that they share.
__device__ __forceinline__ unsigned largestInWarp(unsigned value) { return __reduce_max_sync(0xffffffff, value); }
/// One lane of each warp.
__device__ __forceinline__ bool leadsWarp() { return threadIdx.x % 32 == 0; }

/// A barrier of `threads` of this block, number `number` (0 is __syncthreads).
__device__ __forceinline__ void syncNamed(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void arriveNamed(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
template <int registers> __device__ __forceinline__ void releaseRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers> __device__ __forceinline__ void claimRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

/// Changes nothing, but for all that the compiler knows: what follows stays behind it.
__device__ __forceinline__ void warpgroupFenceOperand(float &value) { asm volatile("" : "+f"(value)::"memory"); }

//===- Warpgroup matrix products -----------------------------------------------------------------//

/// Two words as one.
__device__ __forceinline__ unsigned long long joined(unsigned low, unsigned high) {
  unsigned long long both;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "r"(low), "r"(high));
  return both;
}

__device__ __forceinline__ void fenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `pending` of this warpgroup's latest groups are under way.
template <int pending> __device__ __forceinline__ void waitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

} // namespace kfuse
