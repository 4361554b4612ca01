// A checkpoint's weights in a model's graph.
#pragma once

#include "ir/import/Model.h"
#include "ir/import/checkpoint/Checkpoint.h"

namespace kfuse::ir {

/// Makes parameters with data of the arguments of @main whose names, behind `prefix`, the checkpoint has. One that the
/// checkpoint quantises, `layer`.weight of [N, K], becomes kfuse.dequantize of the layer's codes, scales and zeros,
/// which are arguments in its place; other float types than the argument's are cast. Usage where no name is the same,
/// or a tensor does not fit its argument; BadModel for a layer that cannot be read.
Result<void> takeWeights(Model &model, const Checkpoint &checkpoint, const std::string &prefix);

} // namespace kfuse::ir
