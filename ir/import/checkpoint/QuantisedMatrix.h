// A layer's weights as all formats of checkpoints become them.
#pragma once

#include "ir/import/ParameterData.h"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace kfuse::ir::checkpoint {

/// What is wrong with a checkpoint; becomes an Error at the edge of this folder.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A tensor under the name that the layer has it by, "qweight".
struct LayerTensor {
  std::string name;
  ParameterData data;
};

/// (codes - zeros) scales, where blocks[i] elements along dimension i share a scale and a zero, or all where it is 0.
/// In row-major order these are the weights [N, K] of a product x w^T.
struct QuantisedMatrix {
  LayerTensor codes;  ///< U8 or U4.
  LayerTensor scales; ///< Their type is a float.
  std::optional<LayerTensor> zeros{};
  double zero = 0; ///< Where there are no `zeros`, that of all blocks.
  Shape blocks;
  std::vector<std::int64_t> order{}; ///< Which column of the weights each of the codes is; empty: its own.
};

} // namespace kfuse::ir::checkpoint
