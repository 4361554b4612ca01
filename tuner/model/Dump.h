// What happens inside, as files: everything below $KFUSE_DUMP_DIR; nothing where that is not set.
#pragma once

#include "kfuse/error.h"
#include "runtime/Device.h"

#include "mlir/Pass/PassManager.h"

#include <memory>

namespace kfuse::tuner {

/// Io when it is asked for and cannot be.
Result<void> makeDumpFolder();

/// Writes NN-PASS.mlir after each pass that changed the module.
void dumpAfterPasses(mlir::PassManager &manager);

/// The compiler, which then writes each kernel it compiles: NAME-HASH.cu or .mlir with the source, .ptx,
/// and .log with what the compiler said, or why it failed.
std::unique_ptr<runtime::KernelCompiler> dumping(std::unique_ptr<runtime::KernelCompiler> compiler);

} // namespace kfuse::tuner
