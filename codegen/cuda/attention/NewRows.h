// Rows of keys and values that a kernel of attention writes into a cache.
#pragma once

#include "codegen/KernelTemplate.h"
#include "codegen/LinearGraph.h"

#include <optional>
#include <string>

namespace kfuse::codegen::cuda {

/// Rows that the kernel computes and writes into the state that keys or values are read from.
struct NewRows {
  LinearGraph graph; ///< Over the dimensions of the state; along `axis` the new rows.
  unsigned axis = 0;
  /// Where in the state the rows of a pair are, over the dimensions of scores or product; those of `axis` and of the
  /// last dimension, a row's elements, say nothing.
  llvm::SmallVector<mlir::AffineExpr> index;
  unsigned output = 0; ///< The state among the region's results.

  int64_t count() const { return graph.extents()[axis]; }
};

/// What becomes of the region's results.
struct CacheUpdate {
  std::optional<NewRows> newKeys = {}, newValues = {};
  unsigned output = 0; ///< What the attention gives among the region's results.

  bool writes() const { return newKeys || newValues; }
};

/// Sequences and the neighbouring heads that share keys: each has rows of a cache of its own.
struct Pairs {
  llvm::ArrayRef<int64_t> extents; ///< Those that the scores span: [batch..., rows, keys, elements].
  int64_t group = 1;               ///< Heads of a pair, along the dimension `groupDim`.
  unsigned groupDim = 0;

  unsigned dims() const { return extents.size() - 3; }
  int64_t count() const {
    int64_t all = 1;
    for (int64_t extent : extents.drop_back(3))
      all *= extent;
    return all / group;
  }
};

/// The two scalar forms, and the loads of keys and values in them.
struct AttentionScalars {
  const ir::ScalarGraph &scores, &product;
  ir::Scalar key, value;
};

/// Finds what is written into the states that keys and values are read from, up to `most` rows of each pair; why that
/// is not possible, or "".
std::string findNewRows(const Region &region, const AttentionScalars &of, const Pairs &pairs, int64_t most,
                        CacheUpdate &found);

} // namespace kfuse::codegen::cuda
