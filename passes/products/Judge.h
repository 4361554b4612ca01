// Whether a rewrite of products pays, by estimate.
#pragma once

#include "passes/products/Neighbourhood.h"

#include <functional>
#include <map>
#include <string>

namespace kfuse::passes {

/// Compares the estimates of a neighbourhood as it is and rewritten. Layers that are alike are estimated once.
class Judge {
public:
  using Rewrite = std::function<void(llvm::ArrayRef<ir::MatmulOp>, const llvm::DenseSet<mlir::Value> &fixed)>;

  /// A rewrite pays that saves more than `worthPart` of the neighbourhood's time.
  Judge(const ir::CostModel &model, Rewrite rewrite, double worthPart)
      : model(model), rewrite(std::move(rewrite)), worthPart(worthPart) {}

  /// Whether `rewrite` makes these products and what is around them faster.
  bool pays(llvm::ArrayRef<ir::MatmulOp> products, const llvm::DenseSet<mlir::Value> &fixed);

private:
  const ir::CostModel &model;
  Rewrite rewrite;
  double worthPart;
  std::map<std::string, bool> known;
};

} // namespace kfuse::passes
