// cuda.chain: products in a row, of the same rows, in one launch, and norms of what they give.
#include "codegen/KernelLimits.h"
#include "codegen/cuda/chain/ChainKernel.h"
#include "codegen/cuda/chain/RunRows.h"
#include "codegen/cuda/chain/Templates.h"
#include "codegen/cuda/cost/Estimates.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace kfuse::codegen::cuda {
namespace {

constexpr int64_t mostStages = 24;
constexpr int64_t mostClusterBlocks = 16; ///< The most that an H100 allows; 8 are portable.
constexpr size_t mostCandidates = 48;
constexpr int64_t mostTurns = 4; ///< Tiles of a layer that a block computes. Beyond this, chaining gains nothing.

class ChainTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.chain"; }

  bool isForFormOf(const Region &region) const override { return region.chain() != nullptr; }
  ir::FusionDecision match(const Region &region, const ir::Target &target) const override {
    Result<ChainProblem> chain = ChainProblem::of(region, target);
    if (!chain)
      return ir::FusionDecision::no(chain.error().message);
    // A map of each weight, three of what is between them, at most three addresses a layer, and that of a run's
    // lengths.
    const auto layers = static_cast<int64_t>(chain->layers.size());
    if (!fitParameters(layers + 3, 3 * layers + 1))
      return ir::FusionDecision::no(std::to_string(layers) + " layers, more than parameters fit a kernel");
    if (estimated(*chain, target).empty())
      return ir::FusionDecision::no("is large: launches of their own fill the device");
    return ir::FusionDecision::yes();
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    return estimated(*ChainProblem::of(region, target), target);
  }
  /// An H200 takes 71 us for 20 layers of 256 x 1024 x 1024 and a last one as a chain and 76 apart, where 68 and 95 are
  /// estimated; of five times 256 rows 165 and 137 where it is 138 and 146.
  double profitabilityThreshold(const Region &, double) const override { return 0.75; }
  bool endsWithRun(const Region &region, const TileConfig &) const override {
    return cuda::endsWithRun(*region.chain());
  }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return chainKernel(region, *ChainProblem::of(region, target), config, target);
  }

private:
  static std::vector<EstimatedConfig> estimated(const ChainProblem &chain, const ir::Target &target) {
    std::vector<EstimatedConfig> ranked;
    for (int64_t m : {16, 24, 32, 40, 48, 64, 88, 96, 128})
      for (int64_t n : {64, 128})
        for (int64_t groupsK : {1, 2, 4})
          if (const int64_t clusterN = blocksOfRow(chain, n); clusterN > 1 && clusterN <= mostClusterBlocks)
            if (std::optional<TileConfig> config = fitted({{"m", m},
                                                           {"n", n},
                                                           {"k", 64},
                                                           {"groups_k", groupsK},
                                                           {"cluster_n", clusterN},
                                                           {"stages", mostStages}},
                                                          chain, target))
              ranked.emplace_back(ChainShape(*config).estimateUs(chain, target), *config);
    return fastest(std::move(ranked), mostCandidates);
  }
  /// The cluster that holds whole rows in tiles of `n` columns.
  static int64_t blocksOfRow(const ChainProblem &chain, int64_t n) {
    return static_cast<int64_t>(llvm::PowerOf2Ceil(ceilDiv(chain.mostColumns(), n)));
  }

  /// The config with as many stages as fit; nothing where those are too few, or tiles larger than what they are of.
  static std::optional<TileConfig> fitted(TileConfig config, const ChainProblem &chain, const ir::Target &target) {
    auto isTooBig = [&] { return ChainShape(config).sharedBytes(chain) > target.sharedBytesPerBlock; };
    const int64_t groupsK = config["groups_k"];
    while (config["stages"] > 3 && (isTooBig() || config["stages"] % groupsK != 0))
      config = config.with("stages", config["stages"] - 1);
    const ChainShape shape(config);
    const int64_t turns = chain.reductions() > 0 ? 1 : mostTurns; // More rows are cuda.row_chain's.
    const bool isTooTall = shape.columns >= 2 * chain.M && shape.columns > 16;
    if (shape.stages < std::max<int64_t>(4, 2 * groupsK) || isTooTall || !shape.fitsRegisters(target) ||
        shape.turns(chain, target) > turns || shape.rows >= 2 * chain.mostColumns())
      return std::nullopt;
    return config;
  }
};

} // namespace

const KernelTemplate &chainTemplate() {
  static const ChainTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
