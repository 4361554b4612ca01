// The blocks that are committed as text in examples/models.
#pragma once

#include "examples/blocks/Blocks.h"

#include <functional>
#include <string>
#include <vector>

namespace kfuse::examples {

struct Example {
  std::string name; ///< The file is NAME.mlir.
  std::function<Result<Graph>()> build;
};

/// Small enough that a test runs it on a CPU in no time.
constexpr LlamaDims tinyLlama{.d = 256, .queryHeads = 8, .keyHeads = 2, .headSize = 32, .hidden = 448};
/// Sizes that no tile, vector or warp divides.
constexpr LlamaDims oddLlama{.d = 196, .queryHeads = 9, .keyHeads = 3, .headSize = 22, .hidden = 333};

std::vector<Example> catalogue();

} // namespace kfuse::examples
