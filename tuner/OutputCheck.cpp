#include "tuner/OutputCheck.h"

#include "kfuse/half.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kfuse::tuner {
namespace {

constexpr std::size_t runLength = 256;
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

/// Squared error and squared size of a stretch of elements.
struct Sums {
  double error = 0;
  double size = 0;

  void add(double value, double expected) {
    if (value == expected || (std::isnan(value) && std::isnan(expected))) {
      size += std::isfinite(expected) ? expected * expected : 0;
      return;
    }
    double difference = value - expected;
    error += std::isfinite(difference) ? difference * difference : INFINITY;
    size += std::isfinite(expected) ? expected * expected : 0;
  }
  void add(const Sums &other) {
    error += other.error;
    size += other.size;
  }
};

Sums sumRun(DType type, const std::byte *bytes, const std::byte *expected, std::size_t count) {
  Sums sums;
  std::size_t width = byteWidth(type);
  if (std::memcmp(bytes, expected, count * width) != 0 || isFloat(type))
    for (std::size_t i = 0; i < count; ++i)
      sums.add(valueAt(type, bytes + i * width), valueAt(type, expected + i * width));
  return sums;
}

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
  return type == DType::BF16 || type == DType::Bool ? 1e-2 : 0;
}

std::optional<std::string> findPoison(const codegen::BufferDesc &desc, std::span<const std::byte> bytes) {
  if (!isFloat(desc.type) && desc.type != DType::Bool)
    return std::nullopt;
  std::size_t width = byteWidth(desc.type);
  auto isPoison = [](std::byte byte) { return byte == std::byte{poison}; };
  for (std::size_t i = 0; i < bytes.size(); i += width)
    if (std::all_of(bytes.begin() + i, bytes.begin() + i + width, isPoison))
      return fmt::format("element {} of {} was never written", i / width, bytes.size() / width);
  return std::nullopt;
}

double toleranceOf(const codegen::KernelPlan &plan, std::size_t output) {
  constexpr double ofFloat8Sums = 1e-2;
  bool multipliesFloat8 = std::any_of(plan.inputs.begin(), plan.inputs.end(),
                                      [](const codegen::BufferDesc &input) { return isFloat8(input.type); });
  DType type = plan.outputs[output].type;
  return multipliesFloat8 && isFloat(type) ? std::max(ofFloat8Sums, tolerance(type)) : tolerance(type);
}

std::optional<std::string> findDifference(const codegen::BufferDesc &desc, std::span<const std::byte> bytes,
                                          std::span<const std::byte> expected, double allowed) {
  std::size_t width = byteWidth(desc.type);
  std::size_t count = expected.size() / width;
  std::vector<Sums> runs;
  Sums whole;
  for (std::size_t start = 0; start < count; start += runLength) {
    std::size_t length = std::min(runLength, count - start);
    runs.push_back(sumRun(desc.type, &bytes[start * width], &expected[start * width], length));
    whole.add(runs.back());
  }
  if (double error = relative(whole.error, whole.size); error > allowed)
    return fmt::format("differs from the first right candidate by {:.2g}, {:.0e} is allowed", error, allowed);
  double runSize = count == 0 ? 0 : whole.size * runLength / static_cast<double>(count);
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (double error = relative(runs[i].error, std::max(runs[i].size, runSize)); error > runSlack * allowed)
      return fmt::format("differs from the first right candidate by {:.2g} near element {}, {:.0e} is allowed", error,
                         i * runLength, runSlack * allowed);
  return std::nullopt;
}

} // namespace kfuse::tuner
