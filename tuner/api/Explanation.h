// What kfuse::explain() and `kfuse explain` tell of a planned model.
#pragma once

#include "ir/import/Model.h"
#include "tuner/model/PlannedModel.h"
#include "tuner/record/Roofline.h"

#include <string>
#include <string_view>
#include <vector>

namespace kfuse::tuner {

/// One kernel with its nominal roofline: datasheet rates, so that no device is needed.
struct ExplainedKernel {
  const PlannedKernel &kernel;
  Roofline bound;

  double bytes() const { return kernel.region.bytesRead + kernel.region.bytesWritten; }
  std::string_view advice() const;
  double intensity() const { return bytes() > 0 ? kernel.region.flops / bytes() : 0; }
};

std::vector<ExplainedKernel> explainedKernels(const PlannedModel &model);

/// What the model's ops ask for as they are written.
double flopsAsWritten(mlir::ModuleOp module);
/// What one run of the plan computes.
double plannedFlops(const PlannedModel &model);

/// The object of `kfuse explain --json` (docs/command-line.md), indented.
std::string toJson(const PlannedModel &model, const std::vector<ir::StateNote> &states, double writtenFlops);

} // namespace kfuse::tuner
