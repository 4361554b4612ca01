// cuda.decode_attention: attention of few query rows, which share keys, with a cache. Bound by reading the cache.
#include "codegen/KernelLimits.h"
#include "codegen/cuda/attention/DecodeKernel.h"
#include "codegen/cuda/attention/Templates.h"
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/text/Kernel.h"

#include <algorithm>
#include <cmath>

namespace kfuse::codegen::cuda {
namespace {

constexpr size_t mostCandidates = 48;

class DecodeAttentionTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.decode_attention"; }

  bool isForFormOf(const Region &region) const override { return region.attention() != nullptr; }
  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    Result<DecodeProblem> problem = decodeProblem(region);
    return problem ? ir::FusionDecision::yes() : ir::FusionDecision::no(problem.error().message);
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    const Result<DecodeProblem> p = decodeProblem(region);
    std::vector<EstimatedConfig> ranked;
    double best = INFINITY;
    for (const TileConfig &config : configsOf(*p, target)) {
      const DecodeShape shape(config);
      const double us = shape.estimateUs(region, *p, target);
      best = std::min(best, us);
      ranked.emplace_back(p->isExtended() ? shape.estimateExtendedUs(region, *p, target) : us, config);
    }
    ranked = fastest(std::move(ranked), mostCandidates);
    if (p->isExtended() && !ranked.empty()) { // Rank by the extended estimate, shifted to the plain one's level.
      const double difference = best - ranked.front().us;
      for (EstimatedConfig &one : ranked)
        one.us += difference;
    }
    return ranked;
  }
  int64_t estimateGroup(const TileConfig &config) const override { return DecodeShape(config).isCluster(); }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return decodeKernel(region, config, target);
  }

private:
  static std::vector<TileConfig> configsOf(const DecodeProblem &p, const ir::Target &target) {
    // Clusters start when there is room for all of their blocks: not ahead of the wait, when the kernel before is
    // running. That took 8 us of the 122 of a Llama block at 4096 keys.
    const bool mayBeCluster = target.capability >= 90 && !p.isExtended();
    constexpr std::pair<int64_t, int64_t> splitsAndClusters[] = {{1, 1},  {2, 1},  {2, 2},  {3, 1},  {4, 1},
                                                                 {4, 4},  {6, 1},  {8, 1},  {8, 8},  {12, 1},
                                                                 {16, 1}, {24, 1}, {32, 1}, {48, 1}, {64, 1}};
    std::vector<TileConfig> configs;
    for (int64_t warps : {4, 8})
      for (int64_t keys : {16, 32})
        for (int64_t stages : {1, 2, 3, 4, 6})
          for (auto [splits, cluster] : splitsAndClusters) {
            TileConfig config{
                {"warps", warps}, {"keys", keys}, {"stages", stages}, {"splits", splits}, {"cluster", cluster}};
            if ((cluster == 1 || mayBeCluster) && fits(DecodeShape(config), p, target))
              configs.push_back(std::move(config));
          }
    return configs;
  }

  static bool fits(const DecodeShape &shape, const DecodeProblem &p, const ir::Target &target) {
    const int64_t tileKeys = shape.splits * shape.warps * shape.keys; // A tile for each warp.
    const bool isTooShort = shape.splits > 1 && tileKeys > p.keys;    // Some splits would have no keys.
    const bool isTooMany = shape.splits > 1 && p.pairs() * shape.splits > 16 * target.multiprocessors;
    const bool isOneTile = tileKeys >= p.keys; // With more, one stage would load tile after tile.
    const int64_t fixedBytes = shape.staticBytes(p);
    const bool isTooLarge =
        fixedBytes > mostStaticShared || shape.sharedBytes(p) > target.sharedBytesPerBlock - fixedBytes;
    return !isTooShort && !isTooMany && (shape.stages > 1 || isOneTile) && !isTooLarge;
  }
};

} // namespace

const KernelTemplate &decodeAttentionTemplate() {
  static const DecodeAttentionTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
