#include "ir/import/checkpoint/Layer.h"

#include <cstring>

namespace kfuse::ir::checkpoint {
namespace {

template <class Int> std::vector<std::int64_t> readIntegers(std::span<const std::byte> bytes) {
  std::vector<std::int64_t> integers(bytes.size() / sizeof(Int));
  for (std::size_t i = 0; i < integers.size(); ++i) {
    Int value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    integers[i] = value;
  }
  return integers;
}

} // namespace

std::string described(std::string_view name, const StoredTensor &tensor) {
  return std::string(name) + " of " + tensor.type + " " + toString(tensor.shape);
}

const StoredTensor &Layer::existing(std::string_view name) const {
  const StoredTensor *found = find(name);
  if (!found)
    throw Unreadable("has no " + std::string(name));
  return *found;
}

const StoredTensor &Layer::tensor(std::string_view name, std::string_view type, std::size_t rank) const {
  const StoredTensor &tensor = existing(name);
  if (tensor.type != type || tensor.shape.size() != rank || tensor.bytes.empty())
    throw Unreadable("has " + described(name, tensor) + ", expected " + std::string(type) + " of " +
                     std::to_string(rank) + " dimensions");
  return tensor;
}

LayerTensor Layer::floats(std::string_view name) const {
  const StoredTensor &tensor = existing(name);
  if (!tensor.kind || !isFloat(*tensor.kind) || isFloat8(*tensor.kind) || tensor.bytes.empty())
    throw Unreadable("has " + described(name, tensor) + ", expected F32, F16 or BF16");
  return {std::string(name), {*tensor.kind, tensor.shape, tensor.bytes, tensor.owner}};
}

LayerTensor Layer::transposedFloats(std::string_view name) const {
  LayerTensor tensor = floats(name);
  if (tensor.data.shape.size() != 2)
    throw Unreadable("has " + std::string(name) + " of " + toString(tensor.data.shape) + ", expected two dimensions");
  const std::size_t width = byteWidth(tensor.data.type), rows = tensor.data.shape[0], columns = tensor.data.shape[1];
  auto transposed = std::make_shared<std::vector<std::byte>>(tensor.data.bytes.size());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      std::memcpy(transposed->data() + (column * rows + row) * width,
                  tensor.data.bytes.data() + (row * columns + column) * width, width);
  tensor.data.shape = {tensor.data.shape[1], tensor.data.shape[0]};
  tensor.data.bytes = *transposed;
  tensor.data.owner = transposed;
  return tensor;
}

std::vector<std::int64_t> Layer::integers(std::string_view name) const {
  const StoredTensor &tensor = existing(name);
  if (tensor.type == "I32")
    return readIntegers<std::int32_t>(tensor.bytes);
  if (tensor.type == "I64")
    return readIntegers<std::int64_t>(tensor.bytes);
  throw Unreadable("has " + described(name, tensor) + ", expected I32 or I64");
}

} // namespace kfuse::ir::checkpoint
