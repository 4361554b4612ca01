#include "runtime/pack/SessionMemory.h"

#include <algorithm>

namespace kfuse::runtime {
namespace {

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + contextAlignment - 1) / contextAlignment * contextAlignment;
}

} // namespace

std::uint64_t lengthBytes(std::size_t dims) { return aligned(dims * sizeof(std::int64_t)); }

std::uint64_t arenaBytes(std::span<const VariantPrograms> programs) {
  std::uint64_t most = 0;
  for (const VariantPrograms &bucket : programs)
    most = std::max(most, bucket.main.arenaBytes);
  return aligned(most);
}

std::uint64_t sessionBytes(std::span<const VariantPrograms> programs, std::size_t dims) {
  std::uint64_t bytes = lengthBytes(dims) + arenaBytes(programs);
  for (const VariantPrograms &bucket : programs)
    bytes += contextBytes(bucket.main, /*hasOwnArena=*/false);
  return bytes;
}

} // namespace kfuse::runtime
