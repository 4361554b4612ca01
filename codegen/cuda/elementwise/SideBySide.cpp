// cuda.side_by_side: small elementwise regions that have nothing to do with each other, in one launch.
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/elementwise/PointwiseText.h"
#include "codegen/cuda/elementwise/Templates.h"
#include "codegen/cuda/text/Kernel.h"

#include <deque>
#include <optional>

namespace kfuse::codegen::cuda {
namespace {

constexpr size_t mostParts = 8;
constexpr int64_t mostRank = 3;
constexpr size_t mostCandidates = 9;
/// Above so many launches' time a kernel fills the machine by itself.
constexpr double mostLaunches = 2;

/// The candidates of each part, in the order of their modelled time.
std::vector<std::vector<EstimatedConfig>> candidatesOfParts(const Region &region, const ir::Target &target) {
  std::vector<std::vector<EstimatedConfig>> candidates;
  for (const Part &part : region.parts())
    candidates.push_back(pointwiseTemplate().estimated(*part.region, target));
  return candidates;
}

/// The config of a part: of those for blocks of "threads", the one that is number "rank" by modelled time; or null.
const EstimatedConfig *configOf(const std::vector<EstimatedConfig> &candidates, const TileConfig &config) {
  int64_t rank = config["rank"];
  for (const EstimatedConfig &candidate : candidates)
    if (candidate.config["threads"] == config["threads"] && rank-- == 0)
      return &candidate;
  return nullptr;
}

/// One region under one config, on its way to text. The first blocks are the first part's, and so on.
class SideBySideKernel {
public:
  SideBySideKernel(const Region &region, const TileConfig &config, const ir::Target &target)
      : region(region), config(config), target(target), buffers{region.graph, {}, {}} {
    const std::vector<std::vector<EstimatedConfig>> candidates = candidatesOfParts(region, target);
    for (size_t i = 0; i < region.parts().size(); ++i) {
      configs.push_back(configOf(candidates[i], config)->config);
      texts.emplace_back(*region.parts()[i].region, configs.back(), writer);
      ends.push_back((ends.empty() ? 0 : ends.back()) + texts.back().blocks());
    }
  }

  KernelPlan plan() {
    KernelPlan plan = pointwisePlan(region, buffers, target, ends.back(), config["threads"]);
    giveSource(plan, source());
    return plan;
  }

private:
  std::string source() {
    writeHead(writer, region, config, target, "pointwise.cuh");
    bool isSmall =
        std::all_of(texts.begin(), texts.end(), [](const PointwiseText &text) { return text.linear().fits32Bits(); });
    writer.line(std::string("using Index = ") + (isSmall ? "int;" : "long long;"));
    for (size_t i = 0; i < texts.size(); ++i) {
      writer.line();
      writer.open("namespace part" + std::to_string(i));
      texts[i].writeConfig();
      writer.line();
      texts[i].writeBody();
      writer.close();
    }
    writer.line();
    openEntry(writer, std::to_string(config["threads"]), entryName(region), bufferParameters(region, buffers));
    for (size_t i = 0; i < texts.size(); ++i)
      writeCall(i);
    writer.close();
    return writer.str();
  }

  void writeCall(size_t i) {
    const bool isLast = i + 1 == texts.size();
    if (!isLast)
      writer.open("if (blockIdx.x < " + std::to_string(ends[i]) + "u)");
    const std::string space = "part" + std::to_string(i) + "::", members = texts[i].members(region.parts()[i].outputs),
                      begin = i == 0 ? "" : " - " + std::to_string(ends[i - 1]) + "u";
    writer.line((isLast ? "" : "return ") + ("forEachChunk<" + space) + "Config>(" + space + "Body{" + members +
                "}, blockIdx.x" + begin + ", " + std::to_string(texts[i].blocks()) + ");");
    if (!isLast)
      writer.close();
  }

  const Region &region;
  const TileConfig &config;
  const ir::Target &target;
  LinearGraph buffers; ///< Inputs and results alone.
  SourceWriter writer;
  std::deque<TileConfig> configs;
  std::deque<PointwiseText> texts;
  std::vector<int64_t> ends; ///< The first block behind each part's.
};

/// One launch, and what each part takes beyond its own; nothing where a part has no such config.
std::optional<double> estimate(const std::vector<std::vector<EstimatedConfig>> &candidates, const TileConfig &config,
                               const ir::Target &target) {
  double us = target.launchUs;
  for (const std::vector<EstimatedConfig> &ofPart : candidates) {
    const EstimatedConfig *chosen = configOf(ofPart, config);
    if (!chosen)
      return std::nullopt;
    us += chosen->us - target.launchUs;
  }
  return us;
}

class SideBySideTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.side_by_side"; }

  bool isForFormOf(const Region &region) const override { return !region.parts().empty(); }
  ir::FusionDecision match(const Region &region, const ir::Target &target) const override {
    if (region.parts().empty())
      return ir::FusionDecision::no("is not several regions");
    if (region.parts().size() > mostParts)
      return ir::FusionDecision::no(std::to_string(region.parts().size()) + " regions; up to " +
                                    std::to_string(mostParts) + " share a launch");
    for (const Part &part : region.parts()) {
      if (ir::FusionDecision decision = pointwiseTemplate().match(*part.region, target); !decision)
        return decision;
      const std::vector<EstimatedConfig> configs = pointwiseTemplate().estimated(*part.region, target);
      if (configs.empty() || configs.front().us > mostLaunches * target.launchUs)
        return ir::FusionDecision::no(part.region->ops + " is worth a launch of its own");
    }
    return ir::FusionDecision::yes();
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    const std::vector<std::vector<EstimatedConfig>> ofParts = candidatesOfParts(region, target);
    std::vector<EstimatedConfig> ranked;
    for (int64_t threads : {128, 256, 512})
      for (int64_t rank = 0; rank < mostRank; ++rank) {
        TileConfig config{{"threads", threads}, {"rank", rank}};
        if (std::optional<double> us = estimate(ofParts, config, target))
          ranked.emplace_back(*us, config);
      }
    return fastest(std::move(ranked), mostCandidates);
  }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return SideBySideKernel(region, config, target).plan();
  }
};

} // namespace

const KernelTemplate &sideBySideTemplate() {
  static const SideBySideTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
