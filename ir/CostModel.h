// What fusion asks of the code generators, so that passes/ does not include codegen/.
#pragma once

#include "ir/FusionDecision.h"
#include "ir/Target.h"

#include "mlir/IR/Block.h"

namespace kfuse::ir {

/// What a region costs as one kernel, by nominal facts of the target: the same on every machine.
struct KernelCost {
  double us = 0;    ///< Modelled microseconds by its best config, launch included.
  double bytes = 0; ///< Read from and written to memory.
  int parts = 1;    ///< Regions in it that have nothing to do with each other.
  /// Kernels in a row are worth one launch where it takes less than this share of their time apart, for all the two
  /// estimates err.
  double profitabilityThreshold = 1;
};

/// Whether some kernel template takes a region as one kernel, and what it costs where one does.
struct Appraisal {
  FusionDecision decision;
  KernelCost cost;
};

class CostModel {
public:
  virtual ~CostModel() = default;
  virtual const Target &target() const = 0;
  /// The price of a kfuse.fused body.
  virtual Appraisal appraise(mlir::Block &region) const = 0;
};

} // namespace kfuse::ir
