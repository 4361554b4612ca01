// One way to multiply matrices.
#pragma once

#include "codegen/KernelTemplate.h"

namespace kfuse::codegen::cuda {

struct MatmulProblem;

/// A template of matrix products. All ways look at a region's one problem, which takes longer to find than they take to
/// refuse it.
class MatmulWay : public KernelTemplate {
public:
  ir::FusionDecision match(const Region &region, const ir::Target &target) const final;
  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const final;

  /// match() of a region with this problem.
  virtual ir::FusionDecision takes(const Region &region, const MatmulProblem &problem,
                                   const ir::Target &target) const = 0;
  /// estimated() of a region with this problem.
  virtual std::vector<EstimatedConfig> configsOf(const Region &region, const MatmulProblem &problem,
                                                 const ir::Target &target) const = 0;
};

} // namespace kfuse::codegen::cuda
