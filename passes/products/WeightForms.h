// How the programs of one network prepare its weights: all alike, so that these lie in memory once.
#pragma once

#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/DenseSet.h"

#include <map>
#include <optional>
#include <string>

namespace kfuse::passes {

/// Which rewrites are done to products, by the parameters that these multiply. Whoever plans first decides; who is not
/// the first follows, and is on its own with weights that the first does not have.
class WeightForms {
public:
  /// "orient q_weight k_weight": the rewrite, and the parameters that the products' fixed operands are made of.
  static std::string keyOf(llvm::StringRef rewrite, llvm::ArrayRef<ir::MatmulOp> products,
                           const llvm::DenseSet<mlir::Value> &fixed);

  std::optional<bool> find(const std::string &key) const {
    const auto known = decided.find(key);
    return known == decided.end() ? std::nullopt : std::optional(known->second);
  }
  void decide(const std::string &key, bool isDone) { decided.try_emplace(key, isDone); }

private:
  std::map<std::string, bool> decided;
};

/// What a pass knows of them: it may add what it decides, or only look, or it is alone.
struct SharedForms {
  const WeightForms *known = nullptr;
  WeightForms *added = nullptr;
};

} // namespace kfuse::passes
