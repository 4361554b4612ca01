// Files of a model's outputs: names of outputs are any text, names of files are not.
#pragma once

#include "kfuse/types.h"

#include <span>
#include <string>
#include <vector>

namespace kfuse::tools {

/// "NAME.npy" of each output, with "_" for what a file's name cannot hold, and for control characters. No two are the
/// same: of those that would be, outputs that are named so keep the name, and the others get "-2", "-3", ... behind it.
std::vector<std::string> outputFileNames(std::span<const TensorDesc> outputs);

} // namespace kfuse::tools
