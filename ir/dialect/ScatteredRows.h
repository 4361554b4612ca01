// State updates that write rows wherever each of them belongs.
#pragma once

#include "ir/dialect/Kfuse.h"

namespace kfuse::ir {

/// Whether the update has a position for each row of its value along the axis: row i is written at position[i] along
/// axis 0, else at position[sequence, i], or nowhere where that is no row of the state. No two rows are written at one.
inline bool scattersRows(StateUpdateOp update) {
  const auto value = dimsOf(update.getValue()), position = dimsOf(update.getPosition());
  if (update.getAxis() == 0)
    return position.size() == 1 && position[0] > 1 && position[0] == value[0];
  return position.size() == 2 && (position[0] == 1 || position[0] == value[0]) &&
         position[1] == value[update.getAxis()];
}

} // namespace kfuse::ir
