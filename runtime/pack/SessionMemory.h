// What a session of a variant's programs takes of its device's memory: the lengths of a run, one arena for values
// between steps, of the largest program, for they run one after the other, and each program's constants and workspace.
#pragma once

#include "runtime/pack/Pack.h"

#include <cstdint>
#include <span>

namespace kfuse::runtime {

/// To contextAlignment, as are all of these.
std::uint64_t lengthBytes(std::size_t dims);
std::uint64_t arenaBytes(std::span<const VariantPrograms> programs);
/// All of it.
std::uint64_t sessionBytes(std::span<const VariantPrograms> programs, std::size_t dims);

} // namespace kfuse::runtime
