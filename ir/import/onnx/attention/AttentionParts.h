// What the attention ops of ONNX and of ONNX Runtime have in common: heads, scores, masks.
#pragma once

#include "ir/import/onnx/node/Node.h"

#include <optional>

namespace kfuse::ir::onnx {

/// [B, S, heads D] as [B, heads, S, D]; four dimensions are so already.
mlir::Value byHead(Node &node, mlir::Value x, std::int64_t heads);
/// The widths of query, key and value among `all` columns of a projection; nothing, and failed, where these hold none.
std::optional<Ints> projectionSizes(Node &node, std::int64_t all, std::int64_t heads);
/// [B, heads, S, D] as [B, S, heads D].
mlir::Value joinHeads(Emitter &emit, mlir::Value x);

/// [B, S or 1] positions of rotation and a [positions, R] table as what broadcasts to [B, heads, S, D].
mlir::Value rotaryTable(Emitter &emit, mlir::Value table, mlir::Value positions, DType type);
/// Rotates the first 2 R elements of each row of [B, heads, S, D]. Fails where a head has fewer.
mlir::Value rotated(Node &node, mlir::Value x, mlir::Value cos, mlir::Value sin, bool interleaved);

/// softmax(cap(scale q k^T) + added, where allowed) v.
struct AttentionParts {
  mlir::Value q, k, v; ///< [B, heads, S, D]; heads of q share those of k and v.
  double scale = 1;
  double softcap = 0;                       ///< 0: none.
  llvm::SmallVector<mlir::Value> added{};   ///< Broadcast to the scores, of their type.
  llvm::SmallVector<mlir::Value> allowed{}; ///< Booleans that broadcast to the scores.
  /// [heads]: one more score of every row, whose value is nothing. Null: none.
  mlir::Value sink{};
  /// A row that masks hide altogether attends to nothing, not to NaN.
  bool hidesRows = false;
};

struct AttentionResults {
  mlir::Value y;       ///< [B, heads, S, D of v].
  mlir::Value scores;  ///< scale q k^T.
  mlir::Value weights; ///< What v is multiplied by.
};

AttentionResults attend(Node &node, const AttentionParts &parts);

/// 1 / sqrt(D), unless the attribute `scale` says another: ONNX Runtime takes 0 for none.
double scoreScale(Node &node, mlir::Value q);

} // namespace kfuse::ir::onnx
