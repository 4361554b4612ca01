#include "codegen/KernelTemplate.h"

#include "codegen/CompileOptions.h"
#include "codegen/InternalError.h"
#include "codegen/Ranking.h"
#include "codegen/cpu/Templates.h"
#include "codegen/cuda/Templates.h"

#include "llvm/ADT/STLExtras.h"

namespace kfuse::codegen {

std::vector<TileConfig> KernelTemplate::candidates(const Region &region, const ir::Target &target) const {
  std::vector<TileConfig> configs;
  for (EstimatedConfig &candidate : estimated(region, target))
    configs.push_back(std::move(candidate.config));
  return configs;
}

bool KernelTemplate::endsWithRun(const Region &region, const TileConfig &config) const {
  if (const Attention *attention = region.attention())
    return attention->product.runExtent.has_value();
  if (!region.parts().empty())
    return llvm::all_of(region.parts(), [&](const Part &part) { return endsWithRun(*part.region, config); });
  return region.graph.runExtent.has_value();
}

Result<KernelPlan> KernelTemplate::emit(const Region &region, const TileConfig &config,
                                        const ir::Target &target) const {
  try {
    Result<KernelPlan> plan = print(region, config, target);
    if (plan && ranksComputed(region.graph))
      plan->options.emplace_back(noContraction);
    return plan;
  } catch (const InternalError &error) {
    return Error{ErrorCode::Internal, std::string(name()) + " of '" + region.ops + "' (" + config.str() +
                                          "): " + error.what() + "; this is a bug of kfuse"};
  }
}

namespace {

std::string formOf(const Region &region) {
  return region.attention() ? "attention" : region.chain() ? "kernels in a row" : "several regions";
}

} // namespace

std::span<const KernelTemplate *const> templatesFor(const ir::Target &target) {
  return target.isCpu() ? cpu::templates() : cuda::templates();
}

const KernelTemplate *templateFor(const Region &region, const ir::Target &target, std::string *reasons) {
  for (const KernelTemplate *candidate : templatesFor(target)) {
    if (!candidate->isForFormOf(region))
      continue;
    ir::FusionDecision decision = candidate->match(region, target);
    if (decision)
      return candidate;
    if (reasons)
      *reasons += (reasons->empty() ? "" : "; ") + std::string(candidate->name()) + ": " + decision.reason();
  }
  if (reasons && reasons->empty())
    *reasons = "no template is for " + formOf(region);
  return nullptr;
}

} // namespace kfuse::codegen
