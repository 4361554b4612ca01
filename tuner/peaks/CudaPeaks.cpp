#include "tuner/peaks/Peaks.h"

#include "tuner/record/Measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace kfuse::tuner {
namespace {

constexpr std::size_t arrayBytes = 512UL << 20; ///< Ten times an H200's L2, four times a B200's.
constexpr int samples = 9;
constexpr double warmupMs = 5;
constexpr double sustainedWarmupMs = 400; ///< The time in which the power limit brings the clock down.

/// Reads, writes or copies `{VECTORS}` 16-byte words per thread, `{THREADS}` apart.
constexpr const char *traffic = R"(
constexpr int vectors = {VECTORS}, threads = {THREADS};
__device__ long long first() {{ return (long long)blockIdx.x * vectors * threads + threadIdx.x; }}

extern "C" __global__ void __launch_bounds__(threads) probe(const uint4 *in, uint4 *out) {{
  uint4 word[vectors];
#pragma unroll
  for (int i = 0; i < vectors; ++i)
    word[i] = {LOAD};
{STORE}
}}
)";
constexpr const char *storeAll = R"(#pragma unroll
  for (int i = 0; i < vectors; ++i)
    out[first() + i * threads] = word[i];)";
constexpr const char *storeNever = R"(  unsigned sum = 0;
#pragma unroll
  for (int i = 0; i < vectors; ++i)
    sum |= word[i].x ^ word[i].y ^ word[i].z ^ word[i].w;
  if (sum == 0x12345678) // Never so: `in` holds one repeated byte.
    out[0] = word[0];)";

/// 16 independent chains hide the latency of 4 cycles.
constexpr const char *multiplyAdd = R"(
extern "C" __global__ void __launch_bounds__(256) probe(const float *in, float *out) {
  float factor = in[threadIdx.x], sum[16];
#pragma unroll
  for (int i = 0; i < 16; ++i)
    sum[i] = factor + i;
  for (int turn = 0; turn < 1024; ++turn)
#pragma unroll
    for (int i = 0; i < 16; ++i)
      sum[i] = sum[i] * factor + 0.5f;
  float total = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i)
    total += sum[i];
  if (total == 1.25f)
    out[0] = total;
}
)";
constexpr double multiplyAddFlops = 2.0 * 16 * 1024 * 256; ///< Per block.

/// Random bf16 operands near 1 with either sign: zeros would draw less power and clock higher.
constexpr const char *randomPair = R"(
__device__ unsigned randomPair(unsigned seed) {
  seed = (seed ^ 61) * 0x9e3779b1u;
  seed = (seed ^ seed >> 15) * 0x85ebca77u;
  return (seed & 0x807f807f) | 0x3f003f00;
}
)";

constexpr const char *mmaSync = R"(
extern "C" __global__ void __launch_bounds__(256) probe(const float *in, float *out) {
  unsigned a[4], b[8][2];
  float d[8][4] = {};
  for (int i = 0; i < 4; ++i)
    a[i] = randomPair(threadIdx.x * 32 + i);
  for (int i = 0; i < 16; ++i)
    b[i / 2][i % 2] = randomPair(threadIdx.x * 32 + 4 + i);
  for (int turn = 0; turn < 1024; ++turn)
#pragma unroll
    for (int i = 0; i < 8; ++i)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                   "{%8, %9}, {%0, %1, %2, %3};"
                   : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[i][0]), "r"(b[i][1]));
  float total = 0;
  for (int i = 0; i < 32; ++i)
    total += d[i / 4][i % 4];
  if (total == 1.25f)
    out[0] = total;
}
)";
constexpr double mmaSyncFlops = 2.0 * 16 * 8 * 16 * 8 * 1024 * 8; ///< Per block of 8 warps.

/// Two warpgroups, each with its 64x64 tile of A and a common 256x64 tile of B in shared memory
/// (K-major, 128-byte swizzle, 8-row groups 1024 bytes apart).
constexpr const char *wgmma = R"(
__device__ unsigned long long descriptor(const void *tile) {{
  unsigned address = (unsigned)__cvta_generic_to_shared(tile);
  return (unsigned long long)(address >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}}

extern "C" __global__ void __launch_bounds__(256, 1) probe(const float *in, float *out) {{
  __shared__ __align__(1024) unsigned a[2][2048], b[8192];
  for (int i = threadIdx.x; i < 4096; i += 256)
    a[0][i] = randomPair(i);
  for (int i = threadIdx.x; i < 8192; i += 256)
    b[i] = randomPair(i + 4096);
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  float d[128] = {{}};
  unsigned long long da = descriptor(a[threadIdx.x / 128]), db = descriptor(b);
#pragma unroll 1 // Unrolled, it takes ptxas 5 s.
  for (int turn = 0; turn < 512; ++turn) {{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k)
      asm volatile("{{ .reg .pred add; setp.ne.b32 add, %130, 0;\n"
                   "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {{{REGISTERS}}}, %128, %129, add, 1, 1, 0, 0; }}"
                   : {OUTPUTS}
                   : "l"(da + 2 * k), "l"(db + 2 * k), "r"(1));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  }}
  float total = 0;
#pragma unroll
  for (int i = 0; i < 128; ++i)
    total += d[i];
  if (total == 1.25f)
    out[0] = total;
}}
)";
constexpr double wgmmaFlops = 2.0 * 64 * 256 * 16 * 4 * 512 * 2; ///< Per block of 2 warpgroups.

constexpr const char *nothing = R"(extern "C" __global__ void probe(const float *, float *) {})";

std::string wgmmaSource() {
  std::string registers, outputs;
  for (int i = 0; i < 128; ++i) {
    registers += fmt::format("{}%{}", i ? ", " : "", i);
    outputs += fmt::format("{}\"+f\"(d[{}])", i ? ", " : "", i);
  }
  return randomPair + fmt::format(fmt::runtime(wgmma), fmt::arg("REGISTERS", registers), fmt::arg("OUTPUTS", outputs));
}

struct TrafficProbe {
  double Peaks::*bandwidth;
  const char *load;
  const char *store;
  double passes; ///< Over an array of arrayBytes.
};
constexpr std::array<TrafficProbe, 3> trafficProbes{
    {{&Peaks::readBytesPerUs, "in[first() + i * threads]", storeNever, 1},
     {&Peaks::writeBytesPerUs, "make_uint4(i, i, i, i)", storeAll, 1},
     {&Peaks::copyBytesPerUs, "in[first() + i * threads]", storeAll, 2}}};

struct MathProbe {
  double Peaks::*burst;
  double Peaks::*sustained;
  std::string source;
  double flopsPerBlock;
};
constexpr std::uint32_t mathThreads = 256;
constexpr std::uint32_t blocksPerSm = 16; ///< Many short ones, so that the last wave weighs little.

struct Rates {
  double burst = 0;
  double sustained = 0;
};

/// Datacentre Blackwell (sm_100, sm_103) multiplies through tcgen05 alone, for which there is no probe.
std::vector<MathProbe> mathProbes(const ir::Target &target) {
  std::vector<MathProbe> probes{{&Peaks::f32Burst, &Peaks::f32Sustained, multiplyAdd, multiplyAddFlops}};
  if (target.capability == 90)
    probes.push_back({&Peaks::halfBurst, &Peaks::halfSustained, wgmmaSource(), wgmmaFlops});
  else if (target.capability < 90 || target.capability >= 120)
    probes.push_back({&Peaks::halfBurst, &Peaks::halfSustained, std::string(randomPair) + mmaSync, mmaSyncFlops});
  return probes;
}

/// Compiles probes and times them on one pair of arrays.
class Prober {
public:
  static Result<Prober> make(runtime::Device &device, runtime::KernelCompiler &compiler, const ir::Target &target) {
    Prober prober(device, compiler, target);
    for (std::unique_ptr<runtime::DeviceBuffer> *array : {&prober.in, &prober.out}) {
      Result<std::unique_ptr<runtime::DeviceBuffer>> buffer = device.allocate(arrayBytes);
      if (!buffer)
        return buffer.error();
      *array = std::move(*buffer);
      if (Result<void> filled = device.fill((*array)->data(), 0x3f, arrayBytes); !filled)
        return filled.error();
    }
    return prober;
  }

  Result<std::unique_ptr<runtime::LoadedKernel>> load(const std::string &source, std::size_t blocks,
                                                      std::uint32_t threads) {
    codegen::KernelPlan plan;
    plan.name = "probe";
    plan.target = target.name;
    plan.source = source;
    codegen::BufferDesc array{DType::F32, {static_cast<std::int64_t>(arrayBytes / sizeof(float))}};
    plan.inputs = plan.outputs = {array};
    plan.inPlace = {-1};
    codegen::Launch launch;
    launch.entry = "probe";
    launch.grid[0] = static_cast<std::uint32_t>(blocks);
    launch.block[0] = threads;
    launch.args = {{codegen::KernelArg::Kind::Buffer, 0}, {codegen::KernelArg::Kind::Buffer, 1}};
    plan.launches = {launch};
    Result<runtime::CompiledKernel> compiled = compiler.compile(plan);
    if (!compiled)
      return compiled.error();
    return device.load(plan, *compiled);
  }

  /// Median microseconds with warm caches.
  Result<double> time(runtime::LoadedKernel &kernel, double warmupMs) {
    std::array<void *, 2> buffers{in->data(), out->data()};
    Result<std::vector<double>> times = device.measure(
        kernel, buffers, nullptr, {.repetitions = samples, .warmupMs = warmupMs, .maxSeconds = 2, .cold = false});
    if (!times)
      return times.error();
    return summarise(std::move(*times)).medianUs;
  }

  Result<double> time(const std::string &source, std::size_t blocks, std::uint32_t threads) {
    Result<std::unique_ptr<runtime::LoadedKernel>> kernel = load(source, blocks, threads);
    if (!kernel)
      return kernel.error();
    return time(**kernel, warmupMs);
  }

  /// Bytes per microsecond of the best of a few shapes.
  Result<double> bandwidth(const TrafficProbe &probe) {
    double best = 0;
    for (auto [vectors, threads] : {std::pair(1, 1024), std::pair(2, 512), std::pair(4, 256), std::pair(8, 256)}) {
      std::string source =
          fmt::format(fmt::runtime(traffic), fmt::arg("VECTORS", vectors), fmt::arg("THREADS", threads),
                      fmt::arg("LOAD", probe.load), fmt::arg("STORE", probe.store));
      std::size_t blocks = arrayBytes / 16 / static_cast<std::size_t>(vectors * threads);
      Result<double> us = time(source, blocks, static_cast<std::uint32_t>(threads));
      if (!us)
        return us;
      best = std::max(best, probe.passes * static_cast<double>(arrayBytes) / *us);
    }
    return best;
  }

  Result<Rates> rates(const MathProbe &probe) {
    std::uint32_t blocks = static_cast<std::uint32_t>(target.multiprocessors) * blocksPerSm;
    Result<std::unique_ptr<runtime::LoadedKernel>> kernel = load(probe.source, blocks, mathThreads);
    if (!kernel)
      return kernel.error();
    Result<double> burstUs = time(**kernel, 0);
    if (!burstUs)
      return burstUs.error();
    Result<double> sustainedUs = time(**kernel, sustainedWarmupMs);
    if (!sustainedUs)
      return sustainedUs.error();
    double flops = probe.flopsPerBlock * blocks;
    return Rates{flops / std::min(*burstUs, *sustainedUs), flops / *sustainedUs};
  }

private:
  Prober(runtime::Device &device, runtime::KernelCompiler &compiler, const ir::Target &target)
      : device(device), compiler(compiler), target(target) {}

  runtime::Device &device;
  runtime::KernelCompiler &compiler;
  const ir::Target &target;
  std::unique_ptr<runtime::DeviceBuffer> in, out;
};

} // namespace

Result<Peaks> measureCudaPeaks(runtime::Device &device, runtime::KernelCompiler &compiler, const ir::Target &target) {
  Result<Prober> prober = Prober::make(device, compiler, target);
  if (!prober)
    return prober.error();
  Peaks peaks = nominalPeaks(target);
  for (const TrafficProbe &probe : trafficProbes) {
    Result<double> bandwidth = prober->bandwidth(probe);
    if (!bandwidth)
      return bandwidth.error();
    peaks.*probe.bandwidth = *bandwidth;
  }
  for (const MathProbe &probe : mathProbes(target)) {
    Result<Rates> rates = prober->rates(probe);
    if (!rates)
      return rates.error();
    peaks.*probe.burst = rates->burst;
    peaks.*probe.sustained = rates->sustained;
  }
  Result<double> launch = prober->time(nothing, 1, 32);
  if (!launch)
    return launch.error();
  peaks.launchUs = *launch;
  peaks.measured = true;
  return peaks;
}

} // namespace kfuse::tuner
