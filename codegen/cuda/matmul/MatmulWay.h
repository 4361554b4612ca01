// One way to multiply matrices.
#pragma once

#include "codegen/KernelTemplate.h"

namespace kfuse::codegen::cuda {

struct MatmulProblem;

/// A template of matrix products. All ways look at a region's one problem, which takes longer to find than they take to
/// refuse it.
class MatmulWay : public KernelTemplate {
public:
  /// Of its space, a way offers the `most` configs that are estimated to be fastest.
  explicit MatmulWay(std::size_t most) : most(most) {}

  ir::FusionDecision match(const Region &region, const ir::Target &target) const final;
  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const final;

  /// match() of a region with this problem.
  virtual ir::FusionDecision takes(const Region &region, const MatmulProblem &problem,
                                   const ir::Target &target) const = 0;
  /// Every config for a region with this problem, and its estimate.
  virtual std::vector<EstimatedConfig> space(const Region &region, const MatmulProblem &problem,
                                             const ir::Target &target) const = 0;
  /// estimated() of a region with this problem.
  std::vector<EstimatedConfig> configsOf(const Region &region, const MatmulProblem &problem,
                                         const ir::Target &target) const;

private:
  std::size_t most;
};

} // namespace kfuse::codegen::cuda
