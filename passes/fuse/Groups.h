// What fusion asks of groups of ops.
#pragma once

#include "ir/dialect/Kfuse.h"
#include "passes/OpGraph.h"

#include <optional>

namespace kfuse::passes {

/// More than a few groups between two are another part of the model, not a diamond.
inline constexpr size_t largestClosure = 8;
/// Merging grows regions op by op, and each step costs time with the size: with a bound, planning is linear in the
/// number of ops. Kernels of known models have 12 ops at most; of one of 32, each saves 3 % of the bytes that the ops
/// by themselves would move, so more ops would gain next to nothing, and take the compiler longer.
inline constexpr size_t largestRegion = 32;
/// Size of a region for that: an op that joins many operands counts as several.
size_t sizeOf(llvm::ArrayRef<mlir::Operation *> ops);
/// Neighbours of a group that are looked at on each side: the nearest. What thousands of ops read joins few of them.
inline constexpr size_t mostNeighbours = 16;

/// Nothing for what is no op of a kernel's scalar form: an attention.
std::optional<ir::OpKind> kindOf(mlir::Operation *op);
bool hasKind(llvm::ArrayRef<mlir::Operation *> ops, std::optional<ir::OpKind> kind);

/// The op that a group is known by: its product, else its row reduction, else its last.
mlir::Operation *mainOp(llvm::ArrayRef<mlir::Operation *> ops);

/// The ops of several groups, in block order.
llvm::SmallVector<mlir::Operation *> opsOf(const OpGraph &graph, llvm::ArrayRef<OpGraph::Vertex> groups);

} // namespace kfuse::passes
