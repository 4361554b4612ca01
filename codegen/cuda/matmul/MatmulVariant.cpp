#include "codegen/cuda/matmul/MatmulVariant.h"
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/matmul/MatmulProblem.h"

#include <algorithm>

namespace kfuse::codegen::cuda {

ir::FusionDecision MatmulVariant::match(const Region &region, const ir::Target &target) const {
  const std::optional<MatmulProblem> problem = MatmulProblem::of(region);
  const ir::FusionDecision counted = isCounted(region, problem);
  return counted ? takes(region, *problem, target) : counted;
}

std::vector<EstimatedConfig> MatmulVariant::estimated(const Region &region, const ir::Target &target) const {
  return configsOf(region, *MatmulProblem::of(region), target);
}

bool MatmulVariant::endsWithRun(const Region &region, const TileConfig &) const {
  return traits.rows == RowCount::Any && MatmulProblem::of(region)->endsRows();
}

std::vector<EstimatedConfig> MatmulVariant::configsOf(const Region &region, const MatmulProblem &problem,
                                                      const ir::Target &target) const {
  return fastest(space(region, problem, target), traits.mostCandidates);
}

TileWork MatmulVariant::leastWorkOf(const Region &region, const MatmulProblem &, const TileConfig &,
                                    const ir::Target &) const {
  return {region.flops, 0};
}

/// Some multiprocessor runs the most tiles, at best their number over that of multiprocessors, rounded up (but for
/// stream-K); it works at its own rate, so that the others may as well do the same. A cluster reads what its blocks
/// share once.
TileWork TiledMatmulVariant::leastWorkOf(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                                         const ir::Target &target) const {
  const int64_t m = config["m"], n = config["n"];
  const int64_t splits = config.valueOr("split_k", 1) * config.valueOr("blocks_k", 1);
  const int64_t tilesM = ceilDiv(problem.M, m), tilesN = ceilDiv(problem.N, n);
  const int64_t tiles = tilesM * tilesN * problem.batches * splits;
  const int64_t waves = ceilDiv(tiles, target.multiprocessors);
  const int64_t workedOff = config.has("segments") ? tiles : waves * target.multiprocessors;
  const double tileK = static_cast<double>(problem.K) / static_cast<double>(splits);
  // Rows and columns past the edge are not read. What an operand that is computed reads is not known here.
  const ir::ScalarNode &right = problem.graph[problem.operand(1)];
  const double rows = static_cast<double>(problem.M * tilesN) / static_cast<double>(config.valueOr("cluster_n", 1)),
               columns =
                   right.kind == ir::ScalarNode::Kind::Load
                       ? static_cast<double>(problem.N * tilesM) / static_cast<double>(config.valueOr("cluster_m", 1))
                       : 0;
  const auto bytes =
      static_cast<double>(std::min(byteWidth(problem.elementType(0)), byteWidth(problem.elementType(1))));
  return {std::max(region.flops, 2.0 * static_cast<double>(m * n * workedOff) * tileK),
          (rows + columns) * static_cast<double>(problem.K) * bytes * static_cast<double>(problem.batches)};
}

/// Tiles of one kind hold as much, share as much and split K alike. They may lie across each other, and differ in the
/// order in which they are worked off, in stages and in how warpgroups share them: most differ by 0 to 1 % in time,
/// and estimates do not tell which is ahead.
TileConfig TiledMatmulVariant::kind(const TileConfig &config) const {
  const auto [shortSide, longSide] = std::minmax({config["m"], config["n"]});
  const auto [fewBlocks, manyBlocks] = std::minmax({config.valueOr("cluster_m", 1), config.valueOr("cluster_n", 1)});
  return {{"m", shortSide},
          {"n", longSide},
          {"k", config["k"]},
          {"cluster_m", fewBlocks},
          {"cluster_n", manyBlocks},
          {"groups_k", config.valueOr("groups_k", 1)},
          {"blocks_k", config.valueOr("blocks_k", 1)},
          {"split_k", config.valueOr("split_k", 1)},
          {"segments", config.valueOr("segments", 0)}};
}

} // namespace kfuse::codegen::cuda
