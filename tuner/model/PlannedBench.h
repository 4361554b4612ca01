// A workbench, and a model planned for its target.
#pragma once

#include "tuner/model/PlannedModel.h"
#include "tuner/model/Workbench.h"

namespace kfuse::tuner {

struct PlannedBench {
  Workbench bench;
  PlannedModel planned;
};

/// Opens the workbench and plans the model for its target. A GPU's driver takes 0.15 to 0.4 s to start, on a thread of
/// its own; meanwhile the model is planned, for the target that is named or else the one of the store's newest choice,
/// and once more where the first GPU turns out to be another. Where no driver is installed nothing is guessed.
/// Errors of openWorkbench, then of planModel.
Result<PlannedBench> openAndPlan(mlir::ModuleOp module, const WorkbenchOptions &options, bool simplify = true);

} // namespace kfuse::tuner
