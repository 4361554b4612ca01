// What groups of ops cost as kernels.
#pragma once

#include "ir/CostModel.h"
#include "passes/fuse/RegionBuilder.h"

#include <limits>
#include <map>
#include <vector>

namespace kfuse::passes {

/// The reason given where a kernel before a product computes what it multiplies.
inline constexpr const char *operandsComputedBefore =
    "a product reads its operands many times, so they are computed before";

/// Whether a group may be one kernel, and its cost: infinite where it may not.
struct RegionCost {
  ir::FusionDecision decision;
  double us = std::numeric_limits<double>::infinity();
  double bytes = 0;
  double profitabilityThreshold = 1; ///< As KernelCost::profitabilityThreshold.
};

/// What several regions cost together.
struct Spent {
  double us = 0, bytes = 0;
  int launches = 0;

  Spent &operator+=(const Spent &other) {
    us += other.us;
    bytes += other.bytes;
    launches += other.launches;
    return *this;
  }
};
inline Spent spent(const RegionCost &cost) { return {cost.us, cost.bytes, 1}; }

/// The cost model's answers for groups of one block's ops; each group is asked once.
class RegionCosts {
public:
  RegionCosts(const RegionBuilder &regions, const ir::CostModel &model) : regions(regions), model(model) {}

  const ir::CostModel &costModel() const { return model; }
  /// `members` in block order.
  const RegionCost &of(llvm::ArrayRef<mlir::Operation *> members);
  /// The cost of a chain of groups, which is not kept.
  RegionCost of(BuiltRegion chain) const;
  /// To be called after the regions' Transparency changed.
  void forget() { known.clear(); }
  /// From now on groups that have nothing to do with each other may share a launch. Only what is left when all else is
  /// decided should: before, it would stand between kernels that save memory traffic together.
  void allowSharing() { sharing = true, forget(); }

private:
  const RegionBuilder &regions;
  const ir::CostModel &model;
  bool sharing = false;
  std::map<std::vector<mlir::Operation *>, RegionCost> known;
};

} // namespace kfuse::passes
