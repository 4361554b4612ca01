// cuda.flash_attention: attention of many query rows, which are blocks of their own. Bound by tensor cores.
#include "codegen/cuda/attention/FlashKernel.h"
#include "codegen/cuda/attention/Templates.h"
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace kfuse::codegen::cuda {
namespace {

constexpr size_t mostCandidates = 32;  ///< For each instruction, mma.sync and wgmma.
constexpr int64_t mostPackedRows = 64; ///< Heads of more fill tiles by themselves.

class FlashAttentionTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.flash_attention"; }

  bool isForFormOf(const Region &region) const override { return region.attention() != nullptr; }
  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    Result<FlashProblem> problem = flashProblem(region);
    return problem ? ir::FusionDecision::yes() : ir::FusionDecision::no(problem.error().message);
  }

  std::string remark(const Region &region, const ir::Target &target) const override {
    const Result<FlashProblem> p = flashProblem(region);
    if (!p->onlyScalar.empty())
      return p->onlyScalar + ": it is multiplied in f32, without tensor cores";
    return target.capability == 90 && !p->maps()
               ? "queries, keys or values have no strides that TMA reads: mma.sync takes them, at half of wgmma's rate"
               : "";
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    const Result<FlashProblem> p = flashProblem(region);
    std::vector<EstimatedConfig> ranked;
    // Who writes into the cache has all heads that read it.
    const bool writes = p->update.writes();
    if (!writes || p->group == 1)
      ranked = fastestOf(p->onlyScalar.empty() ? mmaSyncConfigs(*p, target) : scalarConfigs(*p), region, *p, target);
    if (p->onlyScalar.empty() && target.capability == 90 && p->maps() && !writes)
      llvm::append_range(ranked, fastestOf(wgmmaConfigs(*p, target), region, *p, target));
    if (p->group > 1 && (p->rows <= mostPackedRows || writes))
      if (const Result<FlashProblem> packed = flashProblem(region, true)) {
        std::vector<TileConfig> configs =
            p->onlyScalar.empty() ? mmaSyncConfigs(*packed, target) : scalarConfigs(*packed);
        for (TileConfig &config : configs)
          config = std::move(config).with("packed", 1);
        llvm::append_range(ranked, fastestOf(configs, region, *packed, target));
      }
    std::sort(ranked.begin(), ranked.end());
    return ranked;
  }
  std::int64_t estimateGroup(const TileConfig &config) const override { return FlashShape(config).isWgmma; }

  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return flashKernel(region, config, target);
  }

private:
  static std::vector<EstimatedConfig> fastestOf(const std::vector<TileConfig> &configs, const Region &region,
                                                const FlashProblem &p, const ir::Target &target) {
    std::vector<EstimatedConfig> ranked;
    for (const TileConfig &config : configs)
      if (const FlashShape shape(config); shape.fits(p, target))
        ranked.emplace_back(shape.estimateUs(region, p, target), config);
    return fastest(std::move(ranked), mostCandidates);
  }

  static std::vector<TileConfig> mmaSyncConfigs(const FlashProblem &p, const ir::Target &target) {
    constexpr std::pair<int64_t, int64_t> blocks[] = {{256, 8}, {192, 12}, {128, 4}, {128, 8}, {64, 2},
                                                      {64, 4},  {32, 1},   {32, 2},  {16, 1}}; // Rows, warps.
    std::vector<TileConfig> configs;
    for (auto [rows, warps] : blocks) {
      if (rows > 16 && rows / 2 >= p.rows) // The next smaller one has room for all.
        continue;
      for (int64_t keys : {16, 32, 64, 96, 128}) {
        if (keys > 16 && keys / 2 >= p.keys)
          continue;
        for (int64_t stages : {2, 3, 4})
          if (stages == 2 || keys < p.keys) { // A single tile of keys and one of values have a slot each.
            const TileConfig config{{"rows", rows}, {"warps", warps}, {"keys", keys}, {"stages", stages}};
            configs.push_back(config);
            for (int64_t splits : splitsOf(p, rows, keys, target))
              configs.push_back(TileConfig(config).with("splits", splits));
            for (int64_t batches : batchesOf(p, config, target))
              configs.push_back(TileConfig(config).with("batches", batches));
          }
      }
    }
    return configs;
  }

  /// Over how many blocks keys may be split: few rows leave multiprocessors without work.
  static std::vector<int64_t> splitsOf(const FlashProblem &p, int64_t rows, int64_t keys, const ir::Target &target) {
    constexpr int64_t leastKeys = 128, mostBlocks = 6; // Keys in a split; blocks on an SM.
    const int64_t blocks = p.batches() * ceilDiv(p.rows, rows);
    std::vector<int64_t> counts;
    if (keys > 16 && blocks < 2 * target.multiprocessors) // So small tiles wait at barriers, and one spilt.
      for (int64_t splits : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64})
        if (splits * std::max(keys, leastKeys) <= p.keys && blocks * splits <= mostBlocks * target.multiprocessors)
          counts.push_back(splits);
    return counts;
  }

  /// How many heads a block may take one behind the other: one tile holds all their rows and keys.
  static std::vector<int64_t> batchesOf(const FlashProblem &p, const TileConfig &config, const ir::Target &target) {
    std::vector<int64_t> counts;
    if (p.rows > config["rows"] || p.keys > config["keys"] || config["stages"] > 2 || p.period > 0 || p.computesQuery ||
        p.update.writes() || p.bounds.areOfRow())
      return counts;
    for (int64_t count : {4, 8, 16, 32})
      if (FlashShape(TileConfig(config).with("batches", count)).gridBlocks(p) >= 2 * target.multiprocessors)
        counts.push_back(count);
    return counts;
  }

  static std::vector<TileConfig> scalarConfigs(const FlashProblem &p) {
    constexpr std::pair<int64_t, int64_t> blocks[] = {{128, 4}, {64, 4}, {64, 2},
                                                      {32, 2},  {32, 1}, {16, 1}}; // Rows, warps.
    std::vector<TileConfig> configs;
    for (auto [rows, warps] : blocks)
      for (int64_t keys : {16, 32, 64})
        if ((rows == 16 || rows / 2 < p.rows) && (keys == 16 || keys / 2 < p.keys))
          configs.push_back({{"rows", rows}, {"warps", warps}, {"keys", keys}, {"stages", 1}, {"scalar", 1}});
    return configs;
  }

  static std::vector<TileConfig> wgmmaConfigs(const FlashProblem &p, const ir::Target &target) {
    std::vector<TileConfig> configs;
    if (p.rows <= 64) // Half of a tile would be empty.
      return configs;
    for (int64_t warps : {8, 12}) {
      if (warps > 8 && p.rows <= 128)
        continue;
      for (int64_t keys : {32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192}) {
        if (keys > 32 && keys - 16 >= p.keys)
          continue;
        const bool hasSeveral = p.batches() * ceilDiv(p.rows, warps * 16) > target.multiprocessors;
        for (int64_t stages : {2, 3})
          for (int64_t pingPong : {1, 0})
            for (int64_t persistent : {1, 0})
              if ((stages == 2 || keys * 2 < p.keys) && (!persistent || (hasSeveral && !p.bounds.areOfRow())))
                for (int64_t resident : {1, 2})
                  if (resident == 1 || (warps == 8 && !pingPong)) {
                    const TileConfig config{
                        {"rows", warps * 16},   {"warps", warps},           {"keys", keys},         {"stages", stages},
                        {"pingpong", pingPong}, {"persistent", persistent}, {"resident", resident}, {"wgmma", 1}};
                    configs.push_back(config);
                    if (!persistent && p.mask && p.maskHeads % 2 == 0 && !p.bounds.areRead())
                      configs.push_back(TileConfig(config).with("sharers", 2));
                  }
      }
    }
    return configs;
  }
};

} // namespace

const KernelTemplate &flashAttentionTemplate() {
  static const FlashAttentionTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
