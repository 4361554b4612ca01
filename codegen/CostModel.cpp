#include "codegen/CostModel.h"

#include "codegen/Region.h"

#include <algorithm>
#include <limits>

namespace kfuse::codegen {
namespace {

class TemplateCostModel : public ir::CostModel {
public:
  explicit TemplateCostModel(const ir::Target &target) : device(target) {}

  const ir::Target &target() const override { return device; }

  ir::FusionDecision accepts(mlir::Block &body) const override {
    Result<Region> region = makeRegion(body);
    if (!region)
      return ir::FusionDecision::no(region.error().message);
    std::string reasons;
    if (templateFor(*region, device, &reasons))
      return ir::FusionDecision::yes();
    return ir::FusionDecision::no(reasons);
  }

  double estimateUs(mlir::Block &body) const override {
    double best = std::numeric_limits<double>::infinity();
    Result<Region> region = makeRegion(body);
    const KernelTemplate *chosen = region ? templateFor(*region, device) : nullptr;
    if (!chosen)
      return best;
    for (const TileConfig &config : chosen->candidates(*region, device))
      best = std::min(best, chosen->estimateUs(*region, config, device));
    return best;
  }

private:
  const ir::Target &device;
};

} // namespace

std::unique_ptr<ir::CostModel> makeCostModel(const ir::Target &target) {
  return std::make_unique<TemplateCostModel>(target);
}

} // namespace kfuse::codegen
