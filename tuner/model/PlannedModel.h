// A model after the passes: fused regions with their templates, and memory. Needs no device.
#pragma once

#include "codegen/KernelTemplate.h"
#include "ir/Target.h"
#include "passes/MemoryPlan.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::tuner {

/// One distinct kernel: identical regions, in one layer or in many, share it.
struct PlannedKernel {
  codegen::Region region;
  const codegen::KernelTemplate *kernelTemplate = nullptr;
  mlir::Block *body = nullptr;  ///< The body of its first use.
  int uses = 0;                 ///< Launches in one run of @main.
  int prepareUses = 0;          ///< Launches in @prepare.
  std::optional<int> attention; ///< Number of the attention it is part of.
};

struct PlannedFunction {
  mlir::func::FuncOp function;
  passes::MemoryPlan memory;
};

struct PlannedModel {
  const ir::Target *target = nullptr;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  PlannedFunction main;
  std::optional<PlannedFunction> prepare; ///< None where nothing depends on parameters alone.
  std::vector<PlannedKernel> kernels;     ///< In order of first use, @main's first.
  llvm::DenseMap<mlir::Operation *, unsigned> kernelOf;
  std::vector<passes::FusionRefusal> refusals;
};

/// Runs the passes on a copy of `module` and matches every region with a template of `target`.
/// BadModel with the compiler's first diagnostic.
Result<PlannedModel> planModel(mlir::ModuleOp module, const ir::Target &target, bool simplify = true);
/// The same where `costs` decides what fuses, for its target.
Result<PlannedModel> planModel(mlir::ModuleOp module, const ir::CostModel &costs,
                               const passes::PipelineOptions &options);

/// Plans several programs on all cores. Those of one network, by the names of their parameters, prepare its weights
/// alike: as is best for the first of them. The error is that of the first module that has one.
Result<std::vector<PlannedModel>> planModels(std::span<const mlir::ModuleOp> modules, const ir::Target &target,
                                             bool simplify = true);

} // namespace kfuse::tuner
