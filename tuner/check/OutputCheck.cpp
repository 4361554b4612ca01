#include "tuner/check/OutputCheck.h"

#include "kfuse/half.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

namespace kfuse::tuner {
namespace {

constexpr std::size_t runLength = runtime::DifferenceSums::elements;
constexpr double runSlack = 4;

template <class T> T load(const std::byte *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

double valueAt(DType type, const std::byte *bytes) {
  if (isFloat(type))
    return readFloat(type, bytes);
  if (type == DType::I32)
    return load<std::int32_t>(bytes);
  return type == DType::I64 ? static_cast<double>(load<std::int64_t>(bytes)) : load<std::uint8_t>(bytes);
}

using Sums = runtime::DifferenceSums;

void add(Sums &sums, double value, double expected) {
  sums.size += std::isfinite(expected) ? expected * expected : 0;
  if (value == expected || (std::isnan(value) && std::isnan(expected)))
    return;
  const double difference = value - expected;
  sums.error += std::isfinite(difference) ? difference * difference : INFINITY;
}

/// The sum of finite values, eight at a time: what is not finite shows in the sums.
template <class Read> Sums sumFinite(const std::byte *bytes, const std::byte *expected, std::size_t count, Read read) {
  constexpr std::size_t lanes = 8;
  std::array<double, lanes> error{}, size{};
  for (std::size_t i = 0; i < count; ++i) {
    const double wanted = read(expected, i), difference = read(bytes, i) - wanted;
    error[i % lanes] += difference * difference;
    size[i % lanes] += wanted * wanted;
  }
  return {std::accumulate(error.begin(), error.end(), 0.0), std::accumulate(size.begin(), size.end(), 0.0)};
}

Sums sumExactly(DType type, const std::byte *bytes, const std::byte *expected, std::size_t count) {
  Sums sums;
  const std::size_t width = byteWidth(type);
  for (std::size_t i = 0; i < count; ++i)
    add(sums, valueAt(type, bytes + i * width), valueAt(type, expected + i * width));
  return sums;
}

Sums sumRun(DType type, const std::byte *bytes, const std::byte *expected, std::size_t count) {
  if (!isFloat(type) && std::memcmp(bytes, expected, count * byteWidth(type)) == 0)
    return {};
  Sums sums{INFINITY, INFINITY};
  if (type == DType::BF16) // The types of large outputs.
    sums = sumFinite(bytes, expected, count, [](const std::byte *from, std::size_t i) {
      return double(bf16ToFloat(load<std::uint16_t>(from + 2 * i)));
    });
  else if (type == DType::F32)
    sums = sumFinite(bytes, expected, count,
                     [](const std::byte *from, std::size_t i) { return double(load<float>(from + 4 * i)); });
  return std::isfinite(sums.error) && std::isfinite(sums.size) ? sums : sumExactly(type, bytes, expected, count);
}

/// Runs `body` on slices of [0, count), on all cores where that pays.
template <class Body> void inSlices(std::size_t count, std::size_t worthwhile, const Body &body) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t slices = std::clamp<std::size_t>(count / worthwhile, 1, cores);
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < slices; ++i)
    threads.emplace_back([&, i] { body(count * i / slices, count * (i + 1) / slices); });
  body(0, count / slices);
}

/// It has no branch, so that the compiler takes 16 bytes at a time.
template <class Word> bool holdsPoison(std::span<const std::byte> bytes) {
  bool holds = false;
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(Word))
    holds |= load<Word>(&bytes[i]) == std::numeric_limits<Word>::max();
  return holds;
}

bool holdsPoison(std::span<const std::byte> bytes, std::size_t width) {
  return width == 4   ? holdsPoison<std::uint32_t>(bytes)
         : width == 2 ? holdsPoison<std::uint16_t>(bytes)
                      : holdsPoison<std::uint8_t>(bytes);
}

constexpr std::size_t runsPerThread = 4096; // A million elements: a millisecond.

double relative(double error, double size) { return error == 0 ? 0 : std::sqrt(error / size); }

} // namespace

double tolerance(DType type) {
  if (type == DType::F32)
    return 1e-5;
  if (type == DType::F16)
    return 2e-3;
  if (type == DType::F8E4M3)
    return 4e-2;
  if (type == DType::F8E5M2)
    return 8e-2;
  return type == DType::BF16 || byteWidth(type) == 1 ? 1e-2
                                                     : 0; // The share of booleans and small integers that may differ.
}

std::optional<std::string> findPoison(const codegen::BufferDesc &desc, std::span<const std::byte> bytes) {
  if (!isFloat(desc.type) && desc.type != DType::Bool)
    return std::nullopt;
  const std::size_t width = byteWidth(desc.type), count = bytes.size() / width;
  std::atomic<std::size_t> first = count;
  inSlices((count + runLength - 1) / runLength, runsPerThread, [&](std::size_t begin, std::size_t end) {
    for (std::size_t run = begin; run < end && run * runLength < first; ++run) {
      std::span<const std::byte> here =
          bytes.subspan(run * runLength * width, std::min(runLength, count - run * runLength) * width);
      if (!holdsPoison(here, width))
        continue;
      for (std::size_t i = 0; i < here.size(); i += width)
        if (std::all_of(&here[i], &here[i] + width, [](std::byte byte) { return byte == std::byte{poison}; })) {
          std::size_t at = run * runLength + i / width;
          for (std::size_t least = first; at < least && !first.compare_exchange_weak(least, at);)
            ;
          break;
        }
    }
  });
  if (first < count)
    return fmt::format("element {} of {} was never written", first.load(), count);
  return std::nullopt;
}

double toleranceOf(const codegen::KernelPlan &plan, std::size_t output) {
  constexpr double ofFloat8Sums = 1e-2;
  bool multipliesFloat8 = std::any_of(plan.inputs.begin(), plan.inputs.end(),
                                      [](const codegen::BufferDesc &input) { return isFloat8(input.type); });
  DType type = plan.outputs[output].type;
  return multipliesFloat8 && isFloat(type) ? std::max(ofFloat8Sums, tolerance(type)) : tolerance(type);
}

std::optional<Difference> findDifference(const codegen::BufferDesc &desc, std::span<const std::byte> bytes,
                                         std::span<const std::byte> expected, double allowed) {
  std::size_t width = byteWidth(desc.type);
  std::size_t count = expected.size() / width;
  std::vector<Sums> runs((count + runLength - 1) / runLength);
  inSlices(runs.size(), runsPerThread, [&](std::size_t begin, std::size_t end) {
    for (std::size_t run = begin; run < end; ++run) {
      std::size_t start = run * runLength * width, length = std::min(runLength, count - run * runLength);
      runs[run] = sumRun(desc.type, &bytes[start], &expected[start], length);
    }
  });
  return findDifference(count, runs, allowed);
}

std::optional<Difference> findDifference(std::size_t count, std::span<const Sums> runs, double allowed) {
  Sums whole;
  for (const Sums &run : runs) {
    whole.error += run.error;
    whole.size += run.size;
  }
  const double runSize = count == 0 ? 0 : whole.size * runLength / static_cast<double>(count);
  // Sums of squares: there are millions of runs.
  auto share = [&](const Sums &run) { return run.error == 0 ? 0 : run.error / std::max(run.size, runSize); };
  std::size_t worst = 0;
  double worstShare = 0;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (const double own = share(runs[i]); own > worstShare) {
      worst = i;
      worstShare = own;
    }
  const double error = relative(whole.error, whole.size), worstError = std::sqrt(worstShare);
  if (error <= allowed && worstError <= runSlack * allowed)
    return std::nullopt;
  const std::size_t first = worst * runLength;
  return Difference{
      error > allowed
          ? fmt::format("differs from the first right candidate by {:.2g}, {:.0e} is allowed", error, allowed)
          : fmt::format("differs from the first right candidate by {:.2g} near element {}, {:.0e} is allowed",
                        worstError, first, runSlack * allowed),
      static_cast<std::int64_t>(first), static_cast<std::int64_t>(std::min(runLength, count - first))};
}

} // namespace kfuse::tuner
