// The cost model of no device in particular.
#pragma once

#include "ir/CostModel.h"

namespace kfuse::passes {

/// Takes every region that has a scalar form, so that passes can be tested apart from kernel templates.
/// Two rules of all templates hold here too: a product reads its operands as they lie in memory, or
/// permuted, and no row is reduced beside a product.
class ScalarFormCostModel : public ir::CostModel {
public:
  explicit ScalarFormCostModel(const ir::Target &target) : device(target) {}

  const ir::Target &target() const override { return device; }
  ir::Appraisal appraise(mlir::Block &region) const override { return {accepts(region), cost(region)}; }

protected:
  static ir::FusionDecision accepts(mlir::Block &region);
  /// Bytes at the device's bandwidth, one read of each input.
  ir::KernelCost cost(mlir::Block &region) const;

private:
  const ir::Target &device;
};

} // namespace kfuse::passes
