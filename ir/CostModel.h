// What fusion asks of the code generators, so that passes/ does not include codegen/.
#pragma once

#include "ir/FusionDecision.h"
#include "ir/Target.h"

#include "mlir/IR/Block.h"

namespace kfuse::ir {

class CostModel {
public:
  virtual ~CostModel() = default;
  virtual const Target &target() const = 0;
  /// Whether some kernel template takes this region (the body of a kfuse.fused) as one kernel.
  virtual FusionDecision accepts(mlir::Block &region) const = 0;
  /// Estimated microseconds of the region as one kernel, by its best config.
  virtual double estimateUs(mlir::Block &region) const = 0;
};

} // namespace kfuse::ir
