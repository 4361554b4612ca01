#include "ir/import/checkpoint/PackedWords.h"

#include "ir/import/ColumnOrder.h"

namespace kfuse::ir::checkpoint {

PackedWords::PackedWords(const Layer &layer, std::string_view name, std::size_t axis, std::int64_t lines,
                         std::int64_t count, std::int64_t bits)
    : bits(bits) {
  const StoredTensor &tensor = layer.tensor(name, "I32", 2);
  const std::int64_t words = (count * bits - 1) / 32 + 1;
  const Shape expected = axis == 0 ? Shape{words, lines} : Shape{lines, words};
  if (tensor.shape != expected)
    throw Unreadable("has " + described(name, tensor) + ", expected " + toString(expected) + " for " +
                     std::to_string(bits) + " bits");
  bytes = tensor.bytes.data();
  lineStride = axis == 0 ? 1 : words;
  wordStride = axis == 0 ? lines : 1;
}

std::int64_t bitsOf(std::string_view name, std::int64_t words, std::int64_t count,
                    std::span<const std::int64_t> candidates) {
  std::int64_t found = 0;
  for (std::int64_t bits : candidates)
    if ((count * bits - 1) / 32 + 1 == words) {
      if (found != 0)
        throw Unreadable("has " + std::to_string(words) + " words in " + std::string(name) + " for " +
                         std::to_string(count) + " integers, which may be of " + std::to_string(found) + " or " +
                         std::to_string(bits) + " bits; the config has to say");
      found = bits;
    }
  if (found == 0)
    throw Unreadable("has " + std::to_string(words) + " words in " + std::string(name) + " for " +
                     std::to_string(count) + " integers; kfuse reads 2, 3, 4 and 8 bits packed without gaps");
  return found;
}

std::int64_t groupSize(std::int64_t said, std::int64_t k, std::int64_t groups) {
  if (said > 0 && (k - 1) / said + 1 == groups)
    return said;
  if (groups < 1 || k % groups != 0)
    throw Unreadable("has " + std::to_string(groups) + " groups for K = " + std::to_string(k) +
                     (said > 0 ? ", expected groups of " + std::to_string(said) : ", expected groups of one size"));
  return k / groups;
}

std::vector<std::int64_t> columnOrderOf(const Layer &layer, std::string_view name, std::int64_t k, std::int64_t group) {
  if (!layer.holds(name))
    return {};
  const std::vector<std::int64_t> groupOf = layer.integers(name);
  std::optional<std::vector<std::int64_t>> order = columnOrder(groupOf, group);
  if (std::ssize(groupOf) != k || !order)
    throw Unreadable("has a " + std::string(name) + " that does not give each group " + std::to_string(group) +
                     " of K = " + std::to_string(k) + " columns");
  return std::move(*order);
}

} // namespace kfuse::ir::checkpoint
