// Contents of tensors that kernels and whole runs are timed on.
#pragma once

#include "kfuse/types.h"

#include "mlir/IR/Block.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace kfuse::tuner {

/// [low, high).
struct IndexRange {
  std::int64_t low, high;
};

/// The range of the integers that a block takes. They are small: positions in tables and caches of any size. Where it
/// attends to a cache they are late in it, up to which a kernel reads: it is tuned for long sequences.
IndexRange indexRange(mlir::Block &block);

/// Noise of large tensors, made once: kernels that are tuned one after the other have the same, and 4 M elements take
/// 20 ms. Several threads may ask. Each type, range, seed and deviation holds 4 to 34 MB as long as this lives, which
/// is while the programs of one compile() are tuned.
class LargeNoise {
public:
  const std::vector<std::byte> &of(DType type, IndexRange indices, std::uint64_t seed, double deviation);

private:
  std::mutex mutex;
  std::map<std::tuple<DType, std::int64_t, std::int64_t, std::uint64_t, double>, std::vector<std::byte>> made;
};

/// Normal noise for floats, integers of the range for all else; the same bytes at each call. A large
/// tensor has its first elements alone, to be repeated.
std::vector<std::byte> noise(DType type, const Shape &shape, IndexRange indices, std::uint64_t seed,
                             double deviation = 1, LargeNoise *large = nullptr);

/// The same for an argument of a block. Indices that gathers alone take (a table of pages, tokens) are any of what is
/// gathered; of lengths that end what is computed (kfuse.prefix) it is the largest ones.
std::vector<std::byte> argumentNoise(mlir::BlockArgument argument, IndexRange indices, std::uint64_t seed,
                                     double deviation = 1, LargeNoise *large = nullptr);

} // namespace kfuse::tuner
