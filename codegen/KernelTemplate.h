// A family of kernels: which regions it takes, its tuning space, and how it is written out.
#pragma once

#include "codegen/KernelPlan.h"
#include "codegen/Region.h"
#include "codegen/TileConfig.h"
#include "codegen/TileWork.h"
#include "ir/FusionDecision.h"
#include "ir/Target.h"
#include "kfuse/error.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kfuse::codegen {

class KernelTemplate {
public:
  virtual ~KernelTemplate() = default;
  /// The target's language and what it computes: "cuda.rows", "cpu.matmul".
  virtual std::string_view name() const = 0;
  /// Whether it is for regions of this one's form (RegionForm). It is not asked to match others.
  virtual bool isForFormOf(const Region &region) const { return region.isOneGraph(); }
  /// Whether this template takes the region; the reason when not. A region that it takes it must compute right.
  virtual ir::FusionDecision match(const Region &region, const ir::Target &target) const = 0;
  /// What people should know about how it takes a region that matches: a faster variant that is closed to it; or "".
  virtual std::string remark(const Region &, const ir::Target &) const { return ""; }
  /// Every legal config for a region that matches (fits shared memory, registers and threads), and its modelled
  /// microseconds, for ranking. About a millisecond for all: what depends on the region alone is found out once.
  virtual std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const = 0;
  /// The configs of estimated() alone.
  std::vector<TileConfig> candidates(const Region &region, const ir::Target &target) const;
  /// A chain that takes `us` by its first config is worth its launch below this share of its layers' time in launches
  /// of their own, for all the two estimates err (ir::KernelCost::profitabilityThreshold).
  virtual double profitabilityThreshold(const Region &, double /*us*/) const { return 1; }
  /// A function of a config: the least work that its kernel does. The region and the target must outlive it. A config
  /// that cannot win even so is never compiled, so this must not exceed what the kernel really does.
  virtual std::function<TileWork(const TileConfig &)> leastWork(const Region &region, const ir::Target &) const {
    return [flops = region.flops](const TileConfig &) { return TileWork{flops, 0}; };
  }
  /// Configs of one group have estimates that err alike, so a search tries the best of each group before the second
  /// best of any.
  virtual std::int64_t estimateGroup(const TileConfig &) const { return 0; }
  /// What a config has in common with its near-duplicates, which differ in what changes the time by a per cent or two
  /// that estimates do not know: a search looks further before it tries a second of them.
  virtual TileConfig kind(const TileConfig &config) const { return config; }
  /// Whether the kernel of a config computes what a run needs of a region alone, where a run ends it (ir::RunExtent),
  /// or all of it whatever the run. One graph, an attention and all of several regions do unless a template says no.
  virtual bool endsWithRun(const Region &region, const TileConfig &config) const;
  /// Source and launches. Deterministic: the same region and config give the same text. Internal where the template
  /// took a region that it cannot print.
  Result<KernelPlan> emit(const Region &region, const TileConfig &config, const ir::Target &target) const;

private:
  virtual Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const = 0;
};

/// The templates of a target, most specific first: the first that matches a region takes it.
std::span<const KernelTemplate *const> templatesFor(const ir::Target &target);

/// The template that takes the region, or null with the reason of every template for its form in `reasons`.
const KernelTemplate *templateFor(const Region &region, const ir::Target &target, std::string *reasons = nullptr);

} // namespace kfuse::codegen
