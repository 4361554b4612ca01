#include "runtime/Lengths.h"

#include "runtime/Program.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace kfuse::runtime {

Shape shapeAt(const LengthAxes &axes, std::span<const std::int64_t> lengths) {
  Shape shape;
  for (const std::vector<LengthFactor> &axis : axes) {
    std::int64_t &size = shape.emplace_back(1);
    for (const LengthFactor &factor : axis) {
      const std::int64_t count =
          factor.dim < 0 ? factor.size : factor.times * lengths[std::size_t(factor.dim)] + factor.plus;
      if (__builtin_mul_overflow(size, count, &size)) // No pack that kfuse wrote has such sizes.
        size = std::numeric_limits<std::int64_t>::max();
    }
  }
  return shape;
}

void placeArguments(const Program &program, const LengthEdges &edges, std::span<void *const> inputs,
                    std::span<void *const> states, std::span<void *const> outputs, void *lengths,
                    std::span<void *> arguments) {
  std::size_t input = 0, state = 0, output = 0;
  for (std::size_t i = 0; i < program.arguments.size(); ++i) {
    if (program.roles[i] == Role::Input) {
      arguments[i] = input < inputs.size() ? inputs[input] : lengths;
      ++input;
    } else if (program.roles[i] == Role::State && state < states.size()) {
      arguments[i] = states[state++];
    } else if (program.roles[i] == Role::State) {
      while (!edges.storedInPlace[output])
        ++output;
      arguments[i] = outputs[output++];
    }
  }
}

Result<void> writeLengths(Device &device, void *stream, std::span<const std::int64_t> lengths, void *memory) {
  for (std::size_t i = 0; i < lengths.size(); ++i) // Below 2^32; the upper words stay 0.
    if (Result<void> written =
            device.writeWord(stream, static_cast<std::int64_t *>(memory) + i, static_cast<std::uint32_t>(lengths[i]));
        !written)
      return written;
  return {};
}

Result<void> checkLengths(const std::vector<Dim> &dims, std::span<const std::int64_t> lengths) {
  auto usage = [](std::string message) { return Error{ErrorCode::Usage, std::move(message)}; };
  if (lengths.size() != dims.size())
    return usage("got " + std::to_string(lengths.size()) + " lengths, expected " + std::to_string(dims.size()) +
                 (dims.empty() ? "" : ", of " + rangesOf(dims)));
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (lengths[i] < dims[i].low || lengths[i] > dims[i].high)
      return usage("'" + dims[i].name + "' is " + std::to_string(lengths[i]) + "; the model is compiled for " +
                   rangesOf({dims[i]}) + ", load it with another range");
  return {};
}

std::string rangesOf(const std::vector<Dim> &lengths) {
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
    return Error{ErrorCode::Internal, "internal error: the buckets leave lengths of " + rangesOf(dims) + " out"};
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

} // namespace kfuse::runtime
