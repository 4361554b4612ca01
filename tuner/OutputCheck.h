// Host-side checks of a candidate's complete outputs.
#pragma once

#include "codegen/KernelPlan.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace kfuse::tuner {

/// What outputs are filled with before a candidate runs: NaN as any float, -1 as an integer, neither
/// 0 nor 1 as a bool.
constexpr unsigned char poison = 0xff;

/// Largest relative error ||a - b|| / ||b|| in the L2 norm: 1e-5 for f32, 2e-3 for f16, 1e-2 for bf16
/// and bool (where a comparison may tip over); 0 for integers.
double tolerance(DType type);

/// An element that still holds poison, for people; nothing when all were written. Integers are
/// not looked at: -1 is a value of theirs.
std::optional<std::string> findPoison(const codegen::BufferDesc &desc, std::span<const std::byte> bytes);

/// Why `bytes` disagrees with `expected`, or nothing. The error of the whole must be within the type's
/// tolerance, and within 4 times that in every run of 256 elements, so that a wrong corner of a big
/// tensor is not averaged away. Both NaN, or the same infinity, agree.
std::optional<std::string> findDifference(const codegen::BufferDesc &desc, std::span<const std::byte> bytes,
                                          std::span<const std::byte> expected);

} // namespace kfuse::tuner
