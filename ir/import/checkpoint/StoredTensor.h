// A tensor in a file of a checkpoint, whatever reads the file.
#pragma once

#include "kfuse/error.h"
#include "kfuse/types.h"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace kfuse::ir::checkpoint {

struct StoredTensor {
  std::string type;          ///< As the file spells it: "BF16".
  std::optional<DType> kind; ///< kfuse's type of that name; none where it has no such type.
  Shape shape;
  std::span<const std::byte> bytes;    ///< Row-major; begins anywhere in memory.
  std::shared_ptr<const void> owner{}; ///< Keeps `bytes` valid.
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;
/// Reads the tensors of the file of that path.
using ReadTensors = std::function<Result<StoredTensors>(const std::string &)>;

} // namespace kfuse::ir::checkpoint
