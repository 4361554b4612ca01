// Times that the blocks of kernels write down themselves (codegen/cuda/device/base/marks.cuh), by launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kfuse::tools {

// The same as in marks.cuh.
enum class Moment : std::uint8_t { Starts, Waits, GoesOn, HasTile, HasSums, Ends };
inline constexpr std::array<const char *, 6> momentNames = {"starts",           "waits", "goes on", "has tile",
                                                            "has accumulators", "ends"};
inline constexpr std::size_t momentRoom = 8; ///< In memory, of each block.
struct Mark {
  std::uint64_t nanoseconds, multiprocessor; ///< 0 nanoseconds: none.
};

/// Moments of one block of a launch.
struct BlockTimes {
  std::size_t step = 0, block = 0, multiprocessor = 0;
  std::array<std::uint64_t, momentNames.size()> at{}; ///< Nanoseconds; 0: not marked.
};

/// The times of a kernel's block `block` in each of `steps`, the launches of a run in order, from its marks
/// [moment][slot]. A block marks "starts", "waits" and "goes on" once in a launch. The others come as often as it has
/// tiles; they lie behind the launch's "goes on" and before that of the next, which waits for all of this one: the
/// first "has tile" counts and the last "has accumulators" and "ends". A slot is 2 us, in which a mark overwrites the
/// one before: of tiles closer than that the first "has tile" is that of a later one. Nothing where marks lie on top of
/// each other, so that which are whose is not known.
std::vector<BlockTimes> timesOfLaunches(std::span<const Mark> marks, std::size_t block,
                                        std::span<const std::size_t> steps);

} // namespace kfuse::tools
