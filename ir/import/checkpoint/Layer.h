// The tensors of one layer of a checkpoint.
#pragma once

#include "ir/import/checkpoint/QuantisedMatrix.h"
#include "ir/import/checkpoint/StoredTensor.h"

#include <functional>
#include <string_view>

namespace kfuse::ir::checkpoint {

/// Tensors of a layer by what follows the layer's name: "qweight". What is missing, or of another type or shape than a
/// format has it in, is Unreadable.
class Layer {
public:
  /// `find` gives a tensor by its last name, or null.
  explicit Layer(std::function<const StoredTensor *(std::string_view)> find) : find(std::move(find)) {}

  bool holds(std::string_view name) const { return find(name) != nullptr; }
  const StoredTensor &tensor(std::string_view name, std::string_view type, std::size_t rank) const;
  /// A tensor of any float type.
  LayerTensor floats(std::string_view name) const;
  /// A matrix of floats with its rows as columns.
  LayerTensor transposedFloats(std::string_view name) const;
  /// The elements of a tensor of I32 or I64.
  std::vector<std::int64_t> integers(std::string_view name) const;

private:
  const StoredTensor &existing(std::string_view name) const;

  std::function<const StoredTensor *(std::string_view)> find;
};

/// "qweight of I32 16x4".
std::string described(std::string_view name, const StoredTensor &tensor);

} // namespace kfuse::ir::checkpoint
