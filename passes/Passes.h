// The passes that turn an imported graph into fused, planned kernels. Pipeline.h has their order.
#pragma once

#include "ir/CostModel.h"
#include "passes/products/WeightForms.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace kfuse::passes {

/// Erases the ops of a block whose results nobody reads.
void eraseDead(mlir::Block &block);

/// --kfuse-expand-sequences: kfuse.same_sequence becomes ops.
std::unique_ptr<mlir::Pass> createExpandSequencesPass();

/// --kfuse-simplify: canonical forms, and decomposed ops recognised again.
std::unique_ptr<mlir::Pass> createSimplifyPass();

/// --kfuse-inline-attention: kfuse.attention regions become their parts again, all of them or, given
/// a cost model, those that no template takes whole. Each op carries `kfuse.attention = <n>`, the
/// number of its region, so that people can be told which kernels belong together.
std::unique_ptr<mlir::Pass> createInlineAttentionPass(const ir::CostModel *model = nullptr);

/// --kfuse-merge-products: products that run side by side (Q, K and V; gate and up; heads) become one where
/// the estimate says that it pays (products/Parallel.h).
std::unique_ptr<mlir::Pass> createMergeProductsPass(const ir::CostModel &model, SharedForms forms = {});

/// --kfuse-fold-norms: an rms_norm in front of products of fixed weights becomes a number a row and is applied behind
/// them where the estimate says that it pays (products/RowStatistics.h).
std::unique_ptr<mlir::Pass> createFoldNormsPass(const ir::CostModel &model, SharedForms forms = {});

/// --kfuse-orient-weights: fixed weights [K, N] are stored [N, K] where the estimate says that it pays: tiles on tensor
/// cores then have any multiple of 8 columns, not of 64.
std::unique_ptr<mlir::Pass> createOrientWeightsPass(const ir::CostModel &model, SharedForms forms = {});

/// --kfuse-split-prepare: what depends on parameters and constants alone moves into @prepare.
std::unique_ptr<mlir::Pass> createSplitPreparePass();

/// --kfuse-fuse: every op into exactly one kfuse.fused, but for constants and views that cost no
/// kernel. Leaves the refusals (FusionReport.h) on the function.
std::unique_ptr<mlir::Pass> createFusePass(const ir::CostModel &model);

/// --kfuse-trim-rows: where a run's lengths (Lengths.h) end what later kernels read of a kernel's result, its
/// kfuse.fused says so by a kfuse.prefix.
std::unique_ptr<mlir::Pass> createTrimRowsPass();

/// --kfuse-plan-memory: places values between kernels in one arena (MemoryPlan.h) and leaves offsets
/// on the kfuse.fused ops, the arena's size and its lower bound on the function.
std::unique_ptr<mlir::Pass> createPlanMemoryPass();

} // namespace kfuse::passes
