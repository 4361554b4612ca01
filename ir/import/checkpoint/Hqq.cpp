#include "ir/import/checkpoint/Formats.h"
#include "ir/import/checkpoint/PackedWords.h"

namespace kfuse::ir::checkpoint {
namespace {

/// A matrix whose rows lie in `parts` equal parts beside each other in the bits of a word, the first in the high ones.
class RowParts {
public:
  RowParts(const Layer &layer, std::int64_t bits, std::int64_t rows, std::int64_t columns) : bits(bits) {
    parts = bits == 3 ? 10 : bits > 4 ? 1 : 8 / bits; // Ten of 3 bits are in a word of 32.
    wordBytes = bits == 3 ? 4 : 1;
    step = (rows - 1) / parts + 1;
    const StoredTensor &tensor = layer.tensor("W_q", bits == 3 ? "I32" : "U8", 2);
    if (tensor.shape != Shape{step, columns} || (bits != 3 && rows % parts != 0))
      throw Unreadable("has " + described("W_q", tensor) + " for " + std::to_string(rows) + " rows of " +
                       std::to_string(columns) + " integers of " + std::to_string(bits) + " bits");
    bytes = tensor.bytes.data();
    this->columns = columns;
  }

  unsigned at(std::int64_t row, std::int64_t column) const {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes + (row % step * columns + column) * wordBytes, static_cast<std::size_t>(wordBytes));
    const std::int64_t width = parts == 1 ? 8 : bits;
    return word >> (width * (parts - 1 - row / step)) & ((1U << width) - 1);
  }

private:
  const std::byte *bytes;
  std::int64_t bits, parts, wordBytes, step, columns;
};

std::int64_t number(const Layer &layer, std::string_view name) {
  const std::vector<std::int64_t> values = layer.integers(name);
  if (values.size() != 1)
    throw Unreadable("has " + std::to_string(values.size()) + " numbers in " + std::string(name) + ", expected one");
  return values[0];
}

/// One scale, or zero, for each of `count` groups, as the matrix of groups has them.
LayerTensor ofGroups(const Layer &layer, std::string_view name, const Shape &expected) {
  LayerTensor tensor = layer.floats(name);
  if (elementCount(tensor.data.shape) != elementCount(expected))
    throw Unreadable("has " + std::string(name) + " of " + toString(tensor.data.shape) + ", expected " +
                     toString(expected) + "; quantise without quant_scale and quant_zero");
  tensor.data.shape = expected;
  return tensor;
}

} // namespace

QuantisedMatrix readHqq(const Layer &layer, const Scheme &, std::int64_t n, std::int64_t k) {
  if (layer.integers("shape") != std::vector{n, k})
    throw Unreadable("has another shape than " + toString(Shape{n, k}));
  const std::int64_t bits = number(layer, "nbits"), axis = number(layer, "axis"), group = number(layer, "group_size");
  if (bits < 1 || bits > 8 || bits == 7 || axis < 0 || axis > 1 || group < 1 || n * k % group != 0)
    throw Unreadable("has " + std::to_string(bits) + " bits in groups of " + std::to_string(group) + " along axis " +
                     std::to_string(axis));
  // Rows are groups (axis 1) or columns are (axis 0), over the elements of the weights in their order.
  const std::int64_t rows = axis == 1 ? n * k / group : group, columns = n * k / rows;
  const RowParts parts(layer, bits, rows, columns);
  const bool areRowsWhole = axis == 1 && k % group == 0; // Then groups are those of [N, K].
  const Shape scales = areRowsWhole ? Shape{n, k / group} : axis == 1 ? Shape{rows, 1} : Shape{1, columns};
  QuantisedMatrix matrix{.codes = {"W_q", {}},
                         .scales = ofGroups(layer, "scale", scales),
                         .zeros = ofGroups(layer, "zero", scales),
                         .blocks = areRowsWhole ? Shape{1, group}
                                   : axis == 1  ? Shape{1, 0}
                                                : Shape{0, 1}};
  const std::int64_t width = areRowsWhole ? k : columns;
  matrix.codes.data = smallIntegers(codeType(bits), n * k / width, width, [&](std::int64_t row, std::int64_t column) {
    const std::int64_t element = row * width + column;
    return parts.at(element / columns, element % columns);
  });
  return matrix;
}

} // namespace kfuse::ir::checkpoint
