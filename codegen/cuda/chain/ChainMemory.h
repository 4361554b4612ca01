// What lies in a chain's workspace: flags, and results between links.
#pragma once

#include "codegen/cuda/chain/ChainShape.h"

namespace kfuse::codegen::cuda {

struct ChainMemory {
  /// Where a result is: an output of the plan, or bytes of the workspace.
  struct Place {
    int output = -1;
    std::uint64_t offset = 0;
  };

  static constexpr std::int64_t flagsOffset = 128; ///< Behind the counter of blocks that have left.

  std::vector<std::vector<Place>> results; ///< Of each link.
  std::vector<std::int64_t> firstFlag;     ///< Of each link, a flag for each of its tiles; none within clusters.
  std::int64_t flags = 0;
  std::uint64_t zeroedBytes = 0; ///< As in KernelPlan.
  std::uint64_t bytes = 0;

  ChainMemory(const ChainProblem &chain, const ChainShape &shape, const ir::Target &target);

private:
  void placeFlags(const ChainProblem &chain, const ChainShape &shape, const ir::Target &target);
  void placeResults(const ChainProblem &chain);
};

} // namespace kfuse::codegen::cuda
