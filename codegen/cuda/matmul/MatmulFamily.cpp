// cuda.matmul: every variant of matrix products, in one space that the tuner searches.
#include "codegen/cuda/matmul/MatmulProblem.h"
#include "codegen/cuda/matmul/MatmulVariant.h"
#include "codegen/cuda/matmul/Templates.h"

#include "llvm/ADT/STLExtras.h"

#include <array>

namespace kfuse::codegen::cuda {
namespace {

/// Where estimates are equal the first is preferred.
std::span<const MatmulVariant *const> variants() {
  static const std::array all{&matmulSm90Template(),   &matmulSm90SplitTemplate(), &gemvTemplate(),
                              &matmulStreamTemplate(), &matmulLowBitsTemplate(),   &matmulSm90LowBitsTemplate(),
                              &matmulSm80Template(),   &matmulSimtTemplate()};
  return all;
}

/// The variant of a config; null for one that this version does not have, which a store may hold.
const MatmulVariant *variantOf(const TileConfig &config) {
  if (config.has("variant"))
    for (const MatmulVariant *variant : variants())
      if (variant->traits.number == config["variant"])
        return variant;
  return nullptr;
}

std::string nameOf(MultiplyUnit unit) {
  switch (unit) {
  case MultiplyUnit::Fma:
    return "plain FMAs";
  case MultiplyUnit::MmaSync:
    return "mma.sync";
  case MultiplyUnit::Wgmma:
    return "wgmma";
  }
  return "";
}

bool hasUnit(const ir::Target &target, MultiplyUnit unit) {
  switch (unit) {
  case MultiplyUnit::Fma:
  case MultiplyUnit::MmaSync:
    return true;
  case MultiplyUnit::Wgmma:
    return target.capability == 90;
  }
  return false;
}

class MatmulFamily : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.matmul"; }

  ir::FusionDecision match(const Region &region, const ir::Target &target) const override {
    const std::optional<MatmulProblem> problem = MatmulProblem::of(region);
    if (ir::FusionDecision counted = isCounted(region, problem); !counted)
      return counted;
    std::string reasons;
    for (const MatmulVariant *variant : variants()) {
      ir::FusionDecision decision = variant->takes(region, *problem, target);
      if (decision)
        return decision;
      if (reasons.find(decision.reason()) == std::string::npos)
        reasons += (reasons.empty() ? "" : "; ") + decision.reason();
    }
    return ir::FusionDecision::no(reasons);
  }

  /// What multiplies if not the target's best instruction, and why that one does not; "" where the types are not those
  /// of tensor cores or the rows are few.
  std::string remark(const Region &region, const ir::Target &target) const override {
    const bool isForTensorCores = isFloat(region.mathType) && (region.mathType != DType::F32 || region.tf32);
    auto takesFewRows = [&](const MatmulVariant *variant) {
      return variant->traits.rows == RowCount::Few && variant->match(region, target);
    };
    if (!isForTensorCores || llvm::any_of(variants(), takesFewRows))
      return "";
    const bool hasLowBits =
        llvm::any_of(region.graph.inputs, [](const auto &input) { return smallInteger(input.type).has_value(); });
    std::string refusals, best;
    for (const MatmulVariant *variant : variants()) {
      const MatmulTraits &traits = variant->traits;
      if (!traits.usesTensorCores() || traits.rows != RowCount::Any || !hasUnit(target, traits.unit) ||
          (traits.isForLowBits && !hasLowBits))
        continue;
      const std::string instruction = nameOf(traits.unit);
      if (best.empty())
        best = instruction;
      const ir::FusionDecision decision = variant->match(region, target);
      if (decision)
        return instruction == best ? "" : "on " + instruction + refusals;
      const std::string refusal = "not on " + instruction + ": " + decision.reason();
      if (refusals.find(refusal) == std::string::npos)
        refusals += (refusals.empty() ? ", " : "; ") + refusal;
    }
    return "on plain FMAs" + refusals;
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    const MatmulProblem problem = *MatmulProblem::of(region);
    std::vector<EstimatedConfig> all;
    // Plain FMAs of f32 are more exact: what is compared with another candidate must not mix both.
    const bool cutsOperands = region.tf32 && llvm::any_of(variants(), [&](const MatmulVariant *variant) {
                                return variant->traits.usesTensorCores() && variant->takes(region, problem, target);
                              });
    for (const MatmulVariant *variant : variants())
      if ((!cutsOperands || variant->traits.usesTensorCores()) && variant->takes(region, problem, target))
        for (auto &[us, config] : variant->configsOf(region, problem, target))
          all.emplace_back(us, std::move(config).with("variant", variant->traits.number));
    return all;
  }

  std::function<TileWork(const TileConfig &)> leastWork(const Region &region, const ir::Target &target) const override {
    return [&region, &target, problem = *MatmulProblem::of(region)](const TileConfig &config) {
      const MatmulVariant *variant = variantOf(config);
      return variant ? variant->leastWorkOf(region, problem, config, target) : TileWork{region.flops, 0};
    };
  }
  std::int64_t estimateGroup(const TileConfig &config) const override {
    constexpr std::int64_t mostOfVariant = 2;
    const MatmulVariant *variant = variantOf(config);
    return variant ? mostOfVariant * variant->traits.number + variant->estimateGroup(config) : -1;
  }
  TileConfig kind(const TileConfig &config) const override {
    const MatmulVariant *variant = variantOf(config);
    return variant ? variant->kind(config).with("variant", variant->traits.number) : config;
  }
  bool endsWithRun(const Region &region, const TileConfig &config) const override {
    const MatmulVariant *variant = variantOf(config);
    return variant && variant->endsWithRun(region, config);
  }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    if (const MatmulVariant *variant = variantOf(config))
      return variant->emit(region, config, target);
    return Error{ErrorCode::Internal, "no variant of matrix products has the config " + config.str()};
  }
};

} // namespace

const KernelTemplate &matmulTemplate() {
  static const MatmulFamily instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
