// Any bytes as a checkpoint, the length of config.json in 4 bytes, then its text, then a safetensors file:
// an error, or matrices whose tensors have the sizes that they say.
#include "tuner/api/CheckpointFiles.h"

#include <cstdlib>
#include <cstring>

using namespace kfuse;

namespace {

void require(bool holds) {
  if (!holds)
    std::abort();
}

void checkTensor(const ir::checkpoint::LayerTensor &tensor) {
  require(!tensor.name.empty() && tensor.data.bytes.size() == byteSize(tensor.data.type, tensor.data.shape));
}

/// Each block of `shape` has one of `scales`.
bool fits(const Shape &shape, const Shape &blocks, const Shape &scales) {
  if (blocks.size() != shape.size() || scales.size() != shape.size())
    return false;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (scales[i] != (blocks[i] == 0 ? 1 : (shape[i] - 1) / blocks[i] + 1))
      return false;
  return true;
}

void check(const ir::checkpoint::QuantisedMatrix &matrix, std::int64_t n, std::int64_t k) {
  checkTensor(matrix.codes);
  checkTensor(matrix.scales);
  require(elementCount(matrix.codes.data.shape) == n * k);
  require(fits(matrix.codes.data.shape, matrix.blocks, matrix.scales.data.shape));
  require(matrix.order.empty() || std::ssize(matrix.order) == k);
  if (matrix.zeros) {
    checkTensor(*matrix.zeros);
    require(matrix.zeros->data.shape == matrix.scales.data.shape);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  std::uint32_t configBytes = 0;
  if (size < sizeof configBytes)
    return 0;
  std::memcpy(&configBytes, data, sizeof configBytes);
  if (configBytes > size - sizeof configBytes)
    return 0;
  const auto *text = reinterpret_cast<const char *>(data + sizeof configBytes);
  const std::size_t start = sizeof configBytes + configBytes;
  Result<runtime::Safetensors> file =
      runtime::Safetensors::parse({reinterpret_cast<const std::byte *>(data + start), size - start}, "fuzz");
  if (!file) {
    require(!file.error().message.empty());
    return 0;
  }
  Result<std::shared_ptr<const ir::Checkpoint>> read =
      ir::Checkpoint::parse({text, configBytes}, tuner::tensorsOf(std::move(*file)), "fuzz");
  if (!read) {
    require(!read.error().message.empty());
    return 0;
  }
  for (auto [n, k] : {std::pair<std::int64_t, std::int64_t>{32, 64}, {24, 64}, {20, 64}, {32, 20}}) {
    for (const std::string &tensor : (*read)->tensors()) {
      const std::string layer = tensor.substr(0, tensor.rfind('.'));
      if (!(*read)->quantises(layer))
        (void)(*read)->tensor(tensor);
      else if (auto matrix = (*read)->matrix(layer, n, k); matrix)
        check(**matrix, n, k);
      else
        require(!matrix.error().message.empty());
    }
  }
  return 0;
}
