// Where a chain's results between its layers lie.
#pragma once

#include "codegen/cuda/chain/ChainProblem.h"

namespace kfuse::codegen::cuda {

struct ChainMemory {
  /// Where a result is: an output of the plan, or bytes of the workspace.
  struct Place {
    int output = -1;
    std::uint64_t offset = 0;
  };

  std::vector<std::vector<Place>> results; ///< For each layer, its results in order.
  std::uint64_t bytes = 0;

  explicit ChainMemory(const ChainProblem &chain);
};

} // namespace kfuse::codegen::cuda
