// Host-side checks of a candidate's complete outputs.
#pragma once

#include "codegen/KernelPlan.h"
#include "runtime/Device.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace kfuse::tuner {

/// What outputs are filled with before a candidate runs: NaN as any float, -1 as an integer, neither
/// 0 nor 1 as a bool.
constexpr unsigned char poison = 0xff;

/// Largest relative error ||a - b|| / ||b|| in the L2 norm: 1e-5 for f32, 2e-3 for f16, 1e-2 for bf16
/// and bool (where a comparison may tip over), 4e-2 for E4M3, 8e-2 for E5M2; 0 for integers.
double tolerance(DType type);

/// An element that still holds poison, for people; nothing when all were written. Integers are
/// not looked at: -1 is a value of theirs.
std::optional<std::string> findPoison(const codegen::BufferDesc &desc, std::span<const std::byte> bytes);

/// The error allowed between two candidates' output: the type's tolerance, and at least 1e-2 where 8-bit floats
/// come in, whose sums in 14 bits depend on the order.
double toleranceOf(const codegen::KernelPlan &plan, std::size_t output);

/// How two outputs differ: for people, and the elements that differ most, of which there are `count`.
struct Difference {
  std::string message;
  std::int64_t first = 0, count = 0;
};

/// Compares two outputs of `count` elements by the sums of their differences in each run of elements; see below.
std::optional<Difference> findDifference(std::size_t count, std::span<const runtime::DifferenceSums> runs,
                                         double allowed);
/// How `bytes` disagrees with `expected`, or nothing. The error of the whole must be within `allowed`, and within
/// 4 times that in every run of 256 elements, so that a wrong corner of a big tensor is not averaged away. Both
/// NaN, or the same infinity, agree.
std::optional<Difference> findDifference(const codegen::BufferDesc &desc, std::span<const std::byte> bytes,
                                         std::span<const std::byte> expected, double allowed);

} // namespace kfuse::tuner
