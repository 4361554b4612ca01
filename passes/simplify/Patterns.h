// The rewrite patterns of kfuse-simplify, by theme. Each file's patterns hold for any graph.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace kfuse::passes {

/// x * 1, x + 0, powers with small exponents, constants gathered to the right, casts that cancel.
void populateArithmetic(mlir::RewritePatternSet &patterns);
/// Pointwise ops and layout of splat constants.
void populateFolding(mlir::RewritePatternSet &patterns);
/// Reshapes, transposes, slices, concats and gathers that cancel or compose.
void populateLayout(mlir::RewritePatternSet &patterns);
/// Decomposed activations: relu, sigmoid, silu, gelu in both forms.
void populateActivations(mlir::RewritePatternSet &patterns);
/// Decomposed rms_norm, layer_norm and softmax, with their weights, biases and casts.
void populateNorms(mlir::RewritePatternSet &patterns);
/// Decomposed rotary position embedding.
void populateRotary(mlir::RewritePatternSet &patterns);
/// Transposes, broadcasts and scales move towards the results.
void populateSinking(mlir::RewritePatternSet &patterns);
/// Slices move towards the arguments.
void populateSlices(mlir::RewritePatternSet &patterns);
/// Rows that were put into another order for a product return to their own. Works against
/// populateRanks: never together.
void populateRowOrder(mlir::RewritePatternSet &patterns);
/// Columns of norms that were put into another order for a product are in it before.
void populateActOrder(mlir::RewritePatternSet &patterns);
/// Matrix products: transposes become flags, expanded heads a grouped product.
void populateMatmul(mlir::RewritePatternSet &patterns);
/// Elementwise ops, rows and products take the fewest dimensions that describe them.
void populateRanks(mlir::RewritePatternSet &patterns);

} // namespace kfuse::passes
