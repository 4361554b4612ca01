#include "tuner/model/Buckets.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kfuse::tuner {
namespace {

constexpr double worthKeeping = 0.03;    ///< A program of its own has to save as much.
constexpr std::int64_t powersUpTo = 256; ///< Up to here weights take most of a layer's time.

} // namespace

std::vector<std::int64_t> ladder(std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> rungs;
  for (std::int64_t power = 1; power < high; power *= 2)
    for (std::int64_t rung = power; rung < std::min(2 * power, high); rung += power < powersUpTo ? power : power / 4)
      if (rung >= low)
        rungs.push_back(rung);
  rungs.push_back(high);
  return rungs;
}

std::vector<double> weightsOf(std::span<const std::int64_t> rungs, std::int64_t low, std::size_t dim,
                              std::span<const LengthCount> histogram) {
  std::vector<double> weights(rungs.size());
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    const std::int64_t above = i == 0 ? low - 1 : rungs[i - 1];
    if (histogram.empty())
      weights[i] = std::log((static_cast<double>(rungs[i]) + 0.5) / (static_cast<double>(above) + 0.5));
    for (const LengthCount &one : histogram)
      weights[i] += one.lengths[dim] > above && one.lengths[dim] <= rungs[i] ? one.count : 0;
  }
  return weights;
}

std::vector<std::int64_t> mergeRungs(std::span<const std::int64_t> rungs, std::span<const double> weights,
                                     const std::function<double(std::size_t rung, std::size_t top)> &us) {
  std::vector<std::int64_t> kept;
  for (std::size_t next = rungs.size(); next > 0;) {
    const std::size_t top = --next;
    kept.push_back(rungs[top]);
    double apart = weights[top] * us(top, top), together = apart;
    for (; next > 0; --next) { // The one below joins.
      apart += weights[next - 1] * us(next - 1, next - 1);
      together += weights[next - 1] * us(next - 1, top);
      if (together > apart * (1 + worthKeeping))
        break;
    }
  }
  std::ranges::reverse(kept);
  return kept;
}

Result<void> checkLengths(const std::vector<Dim> &dims, std::span<const std::int64_t> lengths) {
  auto usage = [](std::string message) { return Error{ErrorCode::Usage, std::move(message)}; };
  if (lengths.size() != dims.size())
    return usage("got " + std::to_string(lengths.size()) + " lengths, expected " + std::to_string(dims.size()) +
                 (dims.empty() ? "" : ", of " + toString(dims)));
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (lengths[i] < dims[i].low || lengths[i] > dims[i].high)
      return usage("'" + dims[i].name + "' is " + std::to_string(lengths[i]) + "; the model is compiled for " +
                   toString({dims[i]}) + ", load it with another range");
  return {};
}

std::string toString(const std::vector<Dim> &lengths) {
  std::string text;
  for (const Dim &dim : lengths)
    text += (text.empty() ? "" : ", ") + dim.name + "=" + std::to_string(dim.low) +
            (dim.low == dim.high ? "" : ".." + std::to_string(dim.high));
  return text;
}

Result<BucketTable> BucketTable::make(const std::vector<Dim> &dims, std::vector<std::vector<std::int64_t>> rungs) {
  bool isTotal = dims.size() == rungs.size();
  for (std::size_t i = 0; isTotal && i < dims.size(); ++i)
    isTotal = !rungs[i].empty() && std::ranges::is_sorted(rungs[i], std::less_equal()) &&
              rungs[i].front() >= dims[i].low && rungs[i].back() == dims[i].high;
  if (!isTotal)
    return Error{ErrorCode::Internal, "internal error: the buckets leave lengths of " + toString(dims) + " out"};
  BucketTable table;
  table.dims = dims;
  table.rungs = std::move(rungs);
  return table;
}

std::size_t BucketTable::size() const {
  std::size_t product = 1;
  for (const std::vector<std::int64_t> &each : rungs)
    product *= each.size();
  return product;
}

std::vector<Dim> BucketTable::lengths(std::size_t i) const {
  std::vector<Dim> bucket = dims;
  for (std::size_t dim = dims.size(); dim-- > 0;) {
    const std::size_t rung = i % rungs[dim].size();
    i /= rungs[dim].size();
    bucket[dim].high = rungs[dim][rung];
    if (rung > 0)
      bucket[dim].low = rungs[dim][rung - 1] + 1;
  }
  return bucket;
}

Result<std::size_t> BucketTable::find(std::span<const std::int64_t> lengths) const {
  if (Result<void> inside = checkLengths(dims, lengths); !inside)
    return inside.error();
  std::size_t found = 0;
  for (std::size_t dim = 0; dim < dims.size(); ++dim)
    found = found * rungs[dim].size() +
            static_cast<std::size_t>(std::ranges::lower_bound(rungs[dim], lengths[dim]) - rungs[dim].begin());
  return found;
}

} // namespace kfuse::tuner
