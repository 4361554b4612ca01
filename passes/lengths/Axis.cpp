#include "passes/lengths/Axis.h"

#include "llvm/ADT/STLExtras.h"

namespace kfuse::passes {

void Axis::append(Factor factor) {
  if (factor.isFixed() && factor.size == 1)
    return;
  // Fixed rows below a length are a longer length: the first 64 n elements of 64 for each of n.
  if (!list.empty() && factor.isFixed() && (list.back().isFixed() || list.back().plus == 0)) {
    list.back().size *= factor.size;
    list.back().times *= factor.size;
    return;
  }
  list.push_back(factor);
}

bool Axis::isFixed() const {
  return llvm::all_of(list, [](const Factor &factor) { return factor.isFixed(); });
}

std::int64_t Axis::size() const {
  std::int64_t product = 1;
  for (const Factor &factor : list)
    product *= factor.size;
  return product;
}

std::int64_t Axis::at(llvm::ArrayRef<std::int64_t> lengths) const {
  std::int64_t product = 1;
  for (const Factor &factor : list)
    product *= factor.at(lengths);
  return product;
}

namespace {

/// The first part of a factor, `size` elements of what its rest counts, and leaves the rest in it; nothing where it
/// does not come apart there.
std::optional<Factor> splitFirst(Factor &factor, std::int64_t size) {
  if (size <= 0 || factor.size % size != 0)
    return std::nullopt;
  const std::int64_t rest = factor.size / size;
  Factor first{size, factor.dim};
  if (!factor.isFixed()) {
    if (factor.plus != 0 || factor.times % rest != 0)
      return std::nullopt;
    first.times = factor.times / rest;
  }
  factor = {rest};
  return first;
}

} // namespace

std::optional<Axes> regroup(llvm::ArrayRef<Axis> axes, llvm::ArrayRef<std::int64_t> sizes) {
  llvm::SmallVector<Factor> rest;
  for (const Axis &axis : llvm::reverse(axes))
    for (const Factor &factor : llvm::reverse(axis.factors()))
      rest.push_back(factor); // The next one last.
  Axes result;
  for (std::int64_t size : sizes) {
    Axis axis;
    while (size > 1) {
      if (rest.empty())
        return std::nullopt;
      if (rest.back().size <= size) {
        if (size % rest.back().size != 0)
          return std::nullopt;
        size /= rest.back().size;
        axis.append(rest.pop_back_val());
        continue;
      }
      std::optional<Factor> first = splitFirst(rest.back(), size);
      if (!first)
        return std::nullopt;
      axis.append(*first);
      size = 1;
    }
    result.push_back(std::move(axis));
  }
  return rest.empty() ? std::optional(std::move(result)) : std::nullopt;
}

} // namespace kfuse::passes
