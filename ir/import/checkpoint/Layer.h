// The tensors of one layer of a checkpoint.
#pragma once

#include "ir/import/checkpoint/QuantisedMatrix.h"
#include "runtime/Safetensors.h"

#include <functional>
#include <string_view>

namespace kfuse::ir::checkpoint {

using runtime::StoredTensor;
using runtime::typeStoredAs;

/// A tensor of a file, and what keeps its bytes valid.
struct Located {
  const StoredTensor *tensor = nullptr;
  std::shared_ptr<const void> owner{};
};

/// Tensors of a layer by what follows the layer's name: "qweight". What is missing, or of another type or shape than a
/// format has it in, is Unreadable.
class Layer {
public:
  /// `find` gives a tensor by its last name, or one that is null.
  explicit Layer(std::function<Located(std::string_view)> find) : find(std::move(find)) {}

  bool holds(std::string_view name) const { return find(name).tensor != nullptr; }
  const StoredTensor &tensor(std::string_view name, std::string_view type, std::size_t rank) const;
  /// A tensor of any float type.
  Part floats(std::string_view name) const;
  /// A matrix of floats with its rows as columns.
  Part transposedFloats(std::string_view name) const;
  /// The elements of a tensor of I32 or I64.
  std::vector<std::int64_t> integers(std::string_view name) const;

private:
  Located located(std::string_view name) const;

  std::function<Located(std::string_view)> find;
};

/// "qweight of I32 16x4".
std::string described(std::string_view name, const StoredTensor &tensor);

} // namespace kfuse::ir::checkpoint
