#include "tuner/peaks/Peaks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace kfuse::tuner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t perCache = 4; ///< Arrays take four times the last-level cache.
constexpr std::size_t minBytes = 64UL << 20;
constexpr std::size_t maxBytes = 256UL << 20; ///< Arrays are no larger than this: servers have caches of 1 GB.
constexpr int passes = 4;                     ///< The first one faults pages in; the fastest counts.
constexpr long fmaIterations = 50'000; ///< Iterations of a chunk: 300 K cycles at two chains a cycle, 0.1 ms at 3 GHz.
constexpr int fmaChunks = 400;

/// Microseconds of one run of `work(thread)` on every thread at once.
double timeOnAll(int threads, const std::function<void(int)> &work) {
  Clock::time_point start = Clock::now();
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread)
      others.emplace_back(work, thread);
    work(0);
  }
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double fastest(int rounds, int threads, const std::function<void(int)> &work) {
  double best = timeOnAll(threads, work);
  for (int round = 1; round < rounds; ++round)
    best = std::min(best, timeOnAll(threads, work));
  return best;
}

/// Keeps the compiler from dropping the computation of `value`.
template <class T> void keep(const T &value) { asm volatile("" : : "g"(&value) : "memory"); }

template <int Width> using Floats [[gnu::vector_size(Width * sizeof(float))]] = float;

/// `Chains` independent multiply-adds a turn: latency (4) times ports (2) need at least 8.
template <int Width, int Chains> [[gnu::always_inline]] inline void multiplyAdd(long iterations) {
  Floats<Width> factor, sums[Chains];
  std::memset(&factor, 0, sizeof factor);
  factor += 0.999F;
  for (Floats<Width> &sum : sums)
    sum = factor;
  for (long i = 0; i < iterations; ++i)
#pragma GCC unroll 16
    for (Floats<Width> &sum : sums)
      sum = sum * factor + factor;
  for (Floats<Width> &sum : sums)
    keep(sum);
}

constexpr int chains = 12;
[[gnu::target("avx512f")]] void multiplyAdd512(long iterations) { multiplyAdd<16, chains>(iterations); }
[[gnu::target("avx2,fma")]] void multiplyAdd256(long iterations) { multiplyAdd<8, chains>(iterations); }
void multiplyAdd128(long iterations) { multiplyAdd<4, chains>(iterations); }

/// The widest multiply-add of this processor.
struct Unit {
  void (*run)(long);
  int width;
};
Unit widestUnit() {
  if (__builtin_cpu_supports("avx512f"))
    return {multiplyAdd512, 16};
  return __builtin_cpu_supports("fma") ? Unit{multiplyAdd256, 8} : Unit{multiplyAdd128, 4};
}

/// FLOP per microsecond of all threads: of each, the median over chunks shorter than the turns that a
/// busy system's scheduler gives. A rate over all of the time would count the others' turns.
double multiplyAddRate(int threads) {
  Unit unit = widestUnit();
  std::vector<double> rates(static_cast<std::size_t>(threads));
  timeOnAll(threads, [&](int thread) {
    std::vector<double> times;
    for (int chunk = 0; chunk < fmaChunks; ++chunk) {
      Clock::time_point start = Clock::now();
      unit.run(fmaIterations);
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
    std::nth_element(times.begin(), times.begin() + fmaChunks / 2, times.end());
    rates[static_cast<std::size_t>(thread)] = 2.0 * chains * unit.width * fmaIterations / times[fmaChunks / 2];
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

std::uint64_t sumWords(const std::byte *bytes, std::size_t count) {
  using Words [[gnu::vector_size(64)]] = std::uint64_t;
  const auto *words = reinterpret_cast<const Words *>(bytes);
  Words sums[4] = {};
  for (std::size_t i = 0; i + 4 <= count / sizeof(Words); i += 4)
    for (std::size_t j = 0; j < 4; ++j)
      sums[j] += words[i + j];
  Words sum = sums[0] + sums[1] + sums[2] + sums[3];
  return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

struct Release {
  void operator()(std::byte *bytes) const { std::free(bytes); }
};
std::unique_ptr<std::byte[], Release> allocate(std::size_t bytes) {
  return std::unique_ptr<std::byte[], Release>(static_cast<std::byte *>(std::aligned_alloc(4096, bytes)));
}

} // namespace

Peaks measureCpuPeaks(int threads, const Peaks &nominal) {
  Peaks peaks = nominal;
  std::size_t cache = static_cast<std::size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  std::size_t slice =
      std::clamp(perCache * cache, minBytes, maxBytes) / static_cast<std::size_t>(threads) / 4096 * 4096;
  std::size_t bytes = slice * static_cast<std::size_t>(threads);
  auto from = allocate(bytes), to = allocate(bytes);
  if (from && to) {
    auto at = [&](const auto &array, int thread) { return array.get() + slice * static_cast<std::size_t>(thread); };
    peaks.writeBytesPerUs = bytes / fastest(passes, threads, [&](int t) { std::memset(at(from, t), 1, slice); });
    peaks.copyBytesPerUs =
        2 * bytes / fastest(passes, threads, [&](int t) { std::memcpy(at(to, t), at(from, t), slice); });
    peaks.readBytesPerUs = bytes / fastest(passes, threads, [&](int t) { keep(sumWords(at(from, t), slice)); });
  }
  peaks.f32Burst = peaks.f32Sustained = multiplyAddRate(threads);
  peaks.halfBurst = peaks.f32Burst;
  peaks.halfSustained = peaks.f32Sustained;
  peaks.measured = true;
  return peaks;
}

} // namespace kfuse::tuner
