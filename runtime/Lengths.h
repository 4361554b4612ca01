// Sizes that each run of a program gives: what follows them, and which of several programs takes them. Plain data.
#pragma once

#include "kfuse/error.h"
#include "kfuse/types.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kfuse::runtime {

class Device;
struct Program;

/// `size` elements, of which times * length + plus count in a run; all where it follows no length.
struct LengthFactor {
  std::int64_t size = 1;
  std::int32_t dim = -1; ///< The number of the length, or -1.
  std::int64_t times = 0, plus = 0;
  friend bool operator==(const LengthFactor &, const LengthFactor &) = default;
};

/// The dimensions of a tensor, each a product of factors.
using LengthAxes = std::vector<std::vector<LengthFactor>>;

/// The shape in a run of these lengths.
Shape shapeAt(const LengthAxes &axes, std::span<const std::int64_t> lengths);

/// How a program's tensors follow the lengths of a run. Empty of a program for which nothing does.
struct LengthEdges {
  /// Whether the last input is an i64 of each length, in order.
  bool readsLengths = false;
  /// Per result: whether it is the caller's memory as a state, the last ones among the arguments, in their order.
  std::vector<bool> storedInPlace;
  std::vector<LengthAxes> inputs, results; ///< Without that input; of the model's.
  friend bool operator==(const LengthEdges &, const LengthEdges &) = default;
};

/// Writes what a run is given into `arguments`, the program's, whose parameters are there already. `lengths` is memory
/// of the device, which the program reads if it reads lengths.
void placeArguments(const Program &program, const LengthEdges &edges, std::span<void *const> inputs,
                    std::span<void *const> states, std::span<void *const> outputs, void *lengths,
                    std::span<void *> arguments);

/// In the order of the stream: kernels that run there still read the lengths of the run before. `memory` is the
/// device's, an i64 for each, zero at first.
Result<void> writeLengths(Device &device, void *stream, std::span<const std::int64_t> lengths, void *memory);

/// All buckets: the product of each dimension's intervals. Row-major, the first dimension outermost.
class BucketTable {
public:
  /// `rungs` of each dimension. Internal where they leave a length of its range out.
  static Result<BucketTable> make(const std::vector<Dim> &dims, std::vector<std::vector<std::int64_t>> rungs);

  std::size_t size() const;
  /// The lengths that bucket `i` takes.
  std::vector<Dim> lengths(std::size_t i) const;
  /// The bucket of these lengths, the first that is as large in every dimension. Usage outside the ranges, or for
  /// another number of lengths.
  Result<std::size_t> find(std::span<const std::int64_t> lengths) const;
  const std::vector<std::vector<std::int64_t>> &all() const { return rungs; } ///< In the order given.

private:
  std::vector<Dim> dims;
  std::vector<std::vector<std::int64_t>> rungs;
};

/// Usage where a length is outside its range, or their number is another.
Result<void> checkLengths(const std::vector<Dim> &dims, std::span<const std::int64_t> lengths);
/// "tokens=129..256, batch=1".
std::string rangesOf(const std::vector<Dim> &lengths);

} // namespace kfuse::runtime
