#include "codegen/CostModel.h"

#include "codegen/KernelTemplate.h"
#include "codegen/MakeRegion.h"
#include "ir/RegionKey.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>

using namespace mlir;

namespace kfuse::codegen {
namespace {

/// What the templates of a target say. Layers repeat, and fusion asks of one region from several sides:
/// answers are kept.
class TemplateCostModel : public ir::CostModel {
public:
  explicit TemplateCostModel(const ir::Target &target) : device(target) {}

  const ir::Target &target() const override { return device; }
  ir::Appraisal appraise(Block &body) const override {
    std::string key = ir::regionKey(body);
    for (bool isFixed : fixedInputs(body)) // Kernels may read these ahead.
      key += isFixed ? 'f' : 'v';
    std::lock_guard lock(mutex); // @main and @prepare are fused side by side.
    if (auto found = answers.find(key); found != answers.end())
      return found->second;
    return answers[key] = ask(body);
  }

private:
  ir::Appraisal ask(Block &body) const {
    Result<Region> region = makeRegionWithoutText(body);
    if (!region)
      return {ir::FusionDecision::no(region.error().message), {}};
    std::string reasons;
    const KernelTemplate *chosen = templateFor(*region, device, &reasons);
    if (!chosen)
      return {ir::FusionDecision::no(reasons), {}};
    ir::Appraisal answer;
    answer.cost.us = std::numeric_limits<double>::infinity();
    answer.cost.bytes = region->bytesRead + region->bytesWritten;
    answer.cost.parts = std::max(1, static_cast<int>(region->parts().size()));
    for (const EstimatedConfig &candidate : chosen->estimated(*region, device))
      answer.cost.us = std::min(answer.cost.us, candidate.us);
    if (answer.cost.us == std::numeric_limits<double>::infinity())
      answer.decision = ir::FusionDecision::no(std::string(chosen->name()) + ": no config fits the device");
    answer.cost.profitabilityThreshold = chosen->profitabilityThreshold(*region, answer.cost.us);
    return answer;
  }

  const ir::Target &device;
  mutable std::mutex mutex;
  mutable std::unordered_map<std::string, ir::Appraisal> answers;
};

} // namespace

std::unique_ptr<ir::CostModel> makeCostModel(const ir::Target &target) {
  return std::make_unique<TemplateCostModel>(target);
}

} // namespace kfuse::codegen
