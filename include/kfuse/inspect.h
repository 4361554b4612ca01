// What kfuse knows of models, targets and stores, as text: the JSON objects that the commands print with --json, whose
// fields docs/command-line.md#json describes. Executable::plan() is the same of a compiled program.
#pragma once

#include "kfuse/api.h"
#include "kfuse/compiler.h"
#include "kfuse/error.h"

#include <string>

namespace kfuse {

/// What `kfuse explain --json` prints: the kernels that a model becomes on a target, their bounds, what was not fused
/// and why, memory. Needs no device. Usage for a target that there is not; BadModel where no kernel takes an op.
KFUSE_API Result<std::string> explain(const Model &model, const std::string &target = "auto", bool simplify = true);

/// What `kfuse targets --json` prints: the targets that kfuse knows and the devices found here.
KFUSE_API std::string describeTargets();

/// The tuning store that is used where none is named: $KFUSE_STORE, else in the user's cache folder.
KFUSE_API std::string defaultStore();

/// What `kfuse db export` writes: every whole row, without machine code. An empty path is defaultStore(). Io for a
/// file that cannot be read or is no store.
KFUSE_API Result<std::string> exportStore(const std::string &path = {});

/// What `kfuse db verify --json` prints: whether the store is whole, and what is damaged. Io as above.
KFUSE_API Result<std::string> verifyStore(const std::string &path = {});

} // namespace kfuse
