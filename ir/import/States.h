// Inputs that are written and returned become states, updated in place.
#pragma once

#include "ir/import/Model.h"

namespace kfuse::ir {

/// Makes states of the inputs that `patterns` name (StatePatterns), and of those of which an output is a copy with rows
/// written at a run-time position; notes in `model.states` which are in place, and why others are not. Usage for
/// patterns that name no pair of one type, and for an input whose old value is needed behind its update.
Result<void> makeStates(Model &model, const std::vector<std::string> &patterns);

} // namespace kfuse::ir
