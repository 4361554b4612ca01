// How a region with row reductions passes over its rows.
#pragma once

#include "codegen/LinearGraph.h"

namespace kfuse::codegen::cpu {

/// What each pass over a row computes.
struct PassPlan {
  std::vector<std::vector<ir::Scalar>> reductions; ///< Per pass; the last pass has none and stores outputs.
  std::vector<std::vector<ir::Scalar>> saved;      ///< Per pass: values it leaves in row buffers for later ones.
  std::vector<unsigned> rowOutputs;                ///< Outputs with an element per row.
  std::vector<unsigned> elementOutputs;            ///< Outputs with an element per element of the row.

  /// With `saves`, a value that several passes need, and that takes longer to compute than to read, is saved.
  static PassPlan of(const LinearGraph &graph, bool saves);
};

} // namespace kfuse::codegen::cpu
