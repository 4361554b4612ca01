// Dimensions of tensors that follow the lengths of a run.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <optional>

namespace kfuse::passes {

/// `size` elements at the bounds, of which times * length + plus count in a run; all where it follows no length.
struct Factor {
  std::int64_t size = 1;
  int dim = -1; ///< The number of the length, or -1.
  std::int64_t times = 0, plus = 0;

  bool isFixed() const { return dim < 0; }
  /// How many count where the lengths are these.
  std::int64_t at(llvm::ArrayRef<std::int64_t> lengths) const { return isFixed() ? size : times * lengths[dim] + plus; }
  friend bool operator==(const Factor &, const Factor &) = default;
};

/// One dimension: an index of it is one of each factor, row-major. [batch, tokens, 64] as one dimension has three.
/// No factor is 1, and none stands beside one that it could be merged with, so that equal dimensions are equal.
class Axis {
public:
  Axis() = default;
  Axis(Factor factor) { append(factor); }
  static Axis fixed(std::int64_t size) { return Factor{size}; }

  void append(Factor factor);
  llvm::ArrayRef<Factor> factors() const { return list; }
  bool isFixed() const;
  std::int64_t size() const;
  std::int64_t at(llvm::ArrayRef<std::int64_t> lengths) const;
  friend bool operator==(const Axis &a, const Axis &b) { return a.list == b.list; }

private:
  llvm::SmallVector<Factor, 2> list;
};

using Axes = llvm::SmallVector<Axis, 4>;

/// The dimensions of sizes `sizes` that the same elements have, row-major; nothing where one would split what follows
/// a length.
std::optional<Axes> regroup(llvm::ArrayRef<Axis> axes, llvm::ArrayRef<std::int64_t> sizes);

} // namespace kfuse::passes
