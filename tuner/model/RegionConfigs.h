// The configs of the template that takes a region.
#pragma once

#include "codegen/KernelTemplate.h"
#include "tuner/search/TuningTask.h"

#include <functional>

namespace kfuse::tuner {

/// What it is given must outlive it.
class RegionConfigs : public ConfigSpace {
public:
  RegionConfigs(const codegen::Region &region, const codegen::KernelTemplate &kernelTemplate, const ir::Target &target)
      : region(region), kernelTemplate(kernelTemplate), target(target),
        workOfConfig(kernelTemplate.leastWork(region, target)) {}

  std::vector<codegen::EstimatedConfig> candidates() const override { return kernelTemplate.estimated(region, target); }
  std::optional<codegen::TileWork> leastWork(const codegen::TileConfig &config) const override {
    return workOfConfig ? std::optional(workOfConfig(config)) : std::nullopt;
  }
  std::int64_t estimateGroup(const codegen::TileConfig &config) const override {
    return kernelTemplate.estimateGroup(config);
  }
  std::optional<codegen::TileConfig> kindOf(const codegen::TileConfig &config) const override {
    return kernelTemplate.kind(config);
  }
  Result<codegen::KernelPlan> emit(const codegen::TileConfig &config) const override {
    Result<codegen::KernelPlan> plan = kernelTemplate.emit(region, config, target);
    if (plan)
      plan->programmaticLaunch = region.programmaticLaunch;
    return plan;
  }

private:
  const codegen::Region &region;
  const codegen::KernelTemplate &kernelTemplate;
  const ir::Target &target;
  std::function<codegen::TileWork(const codegen::TileConfig &)> workOfConfig; ///< Null when all do the same.
};

} // namespace kfuse::tuner
