// Checkpoints whose weights are in files of safetensors.
#pragma once

#include "ir/import/checkpoint/Checkpoint.h"
#include "runtime/Safetensors.h"

namespace kfuse::tuner {

/// The tensors of a file as checkpoints take them. They keep it open.
ir::checkpoint::StoredTensors tensorsOf(runtime::Safetensors file);

/// Checkpoint::open() with the runtime's reader.
Result<std::shared_ptr<const ir::Checkpoint>> openCheckpoint(const std::string &folder);

} // namespace kfuse::tuner
