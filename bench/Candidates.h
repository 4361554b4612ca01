// A region's candidates in the order of the search, and their machine code. No device is needed.
#pragma once

#include "bench/Cases.h"
#include "codegen/MakeRegion.h"
#include "ir/Target.h"
#include "runtime/Device.h"
#include "tuner/search/Candidates.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace kfuse::bench {

/// Which candidates of a region are looked at.
struct CandidateFilter {
  std::size_t most = 0; ///< The first of those that it lets through; 0: all.
  std::string only;     ///< Part of the text of their configs.
  std::string without;  ///< Part of the text of those that are left out; "": none is.
};

struct ParsedRegion {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  codegen::Region region;
};

/// The context has kfuse's dialect and functions.
ParsedRegion parseRegion(mlir::MLIRContext &context, const Case &given);
/// A file of one function.
Case readCase(const std::string &path);

/// At least one.
std::vector<tuner::Candidate> candidatesOf(const codegen::Region &region, const ir::Target &target,
                                           const std::string &compilerVersion, const std::string &sku,
                                           const CandidateFilter &filter);

/// On all cores.
std::vector<Result<runtime::CompiledKernel>> compileAll(runtime::KernelCompiler &compiler,
                                                        const std::vector<codegen::KernelPlan> &plans);

} // namespace kfuse::bench
