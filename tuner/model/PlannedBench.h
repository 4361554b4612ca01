// A workbench, and models planned for its target.
#pragma once

#include "tuner/model/PlannedModel.h"
#include "tuner/model/Workbench.h"

#include <span>
#include <vector>

namespace kfuse::tuner {

struct PlannedBench {
  Workbench bench;
  PlannedModel planned;
};
/// The same for several programs.
struct PlannedBenches {
  Workbench bench;
  std::vector<PlannedModel> planned;
};

/// Opens the workbench and plans the model for its target. A GPU's driver takes 0.15 to 0.4 s to start, on a thread of
/// its own; meanwhile the model is planned, for the target that is named or else the one of the store's newest choice,
/// and once more where the first GPU turns out to be another. Where no driver is installed nothing is guessed.
/// Errors of openWorkbench, then of planModel.
Result<PlannedBench> openAndPlan(mlir::ModuleOp module, const WorkbenchOptions &options, bool simplify = true);
Result<PlannedBenches> openAndPlan(std::span<const mlir::ModuleOp> modules, const WorkbenchOptions &options,
                                   bool simplify);

} // namespace kfuse::tuner
