// Whether a rewrite of products pays, by estimate.
#pragma once

#include "passes/products/Neighbourhood.h"
#include "passes/products/WeightForms.h"

#include <functional>
#include <map>
#include <string>

namespace kfuse::passes {

/// Compares the estimates of a neighbourhood as it is and rewritten. Layers that are alike are estimated once. Another
/// program of the same network may have decided before.
class Judge {
public:
  using Rewrite = std::function<void(llvm::ArrayRef<ir::MatmulOp>, const llvm::DenseSet<mlir::Value> &fixed)>;

  /// A rewrite pays that saves more than `worthPart` of the neighbourhood's time; `name` is that of the rewrite.
  Judge(const ir::CostModel &model, llvm::StringRef name, Rewrite rewrite, double worthPart, SharedForms forms)
      : model(model), name(name), rewrite(std::move(rewrite)), worthPart(worthPart), forms(forms) {}

  /// Whether `rewrite` makes these products and what is around them faster.
  bool pays(llvm::ArrayRef<ir::MatmulOp> products, const llvm::DenseSet<mlir::Value> &fixed);

private:
  bool isFaster(llvm::ArrayRef<ir::MatmulOp> products, const llvm::DenseSet<mlir::Value> &fixed);

  const ir::CostModel &model;
  llvm::StringRef name;
  Rewrite rewrite;
  double worthPart;
  SharedForms forms;
  std::map<std::string, bool> known;
};

} // namespace kfuse::passes
