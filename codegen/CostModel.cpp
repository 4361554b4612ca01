#include "codegen/CostModel.h"

#include "codegen/Region.h"
#include "ir/RegionKey.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

using namespace mlir;

namespace kfuse::codegen {
namespace {

/// What the templates of a target say. Layers repeat, and fusion asks of one region from several sides:
/// answers are kept.
class TemplateCostModel : public ir::CostModel {
public:
  explicit TemplateCostModel(const ir::Target &target) : device(target) {}

  const ir::Target &target() const override { return device; }
  ir::FusionDecision accepts(Block &body) const override { return answer(body).decision; }
  ir::KernelCost cost(Block &body) const override { return answer(body).cost; }

private:
  struct Answer {
    ir::FusionDecision decision;
    ir::KernelCost cost{std::numeric_limits<double>::infinity()};
  };

  Answer answer(Block &body) const {
    std::string key = ir::regionKey(body);
    std::lock_guard lock(mutex); // @main and @prepare are fused side by side.
    if (auto found = answers.find(key); found != answers.end())
      return found->second;
    return answers[key] = ask(body);
  }

  Answer ask(Block &body) const {
    Result<Region> region = makeRegionWithoutText(body);
    if (!region)
      return {ir::FusionDecision::no(region.error().message)};
    std::string reasons;
    const KernelTemplate *chosen = templateFor(*region, device, &reasons);
    if (!chosen)
      return {ir::FusionDecision::no(reasons)};
    Answer answer;
    answer.cost.bytes = region->bytesRead + region->bytesWritten;
    answer.cost.parts = std::max(1, static_cast<int>(region->parts.size()));
    for (const EstimatedConfig &candidate : chosen->estimated(*region, device))
      answer.cost.us = std::min(answer.cost.us, candidate.us);
    if (answer.cost.us == std::numeric_limits<double>::infinity())
      answer.decision = ir::FusionDecision::no(std::string(chosen->name()) + ": no config fits the device");
    return answer;
  }

  const ir::Target &device;
  mutable std::mutex mutex;
  mutable std::map<std::string, Answer, std::less<>> answers;
};

} // namespace

std::unique_ptr<ir::CostModel> makeCostModel(const ir::Target &target) {
  return std::make_unique<TemplateCostModel>(target);
}

} // namespace kfuse::codegen
