// How each ONNX op is written in the dialect: one row an op, one table a kind.
#pragma once

#include "ir/import/onnx/Node.h"

#include <limits>
#include <vector>

namespace kfuse::ir::onnx {

inline constexpr unsigned anyNumber = std::numeric_limits<unsigned>::max();

struct OnnxOp {
  /// Op type; ops of another domain than ONNX's own carry it: "com.microsoft.FusedMatMul".
  llvm::StringLiteral name;
  /// The first `minInputs` inputs are there, and no more than `maxInputs`.
  unsigned minInputs;
  unsigned maxInputs;
  /// Results in order. The first is null only after a failure.
  Values (*import)(Node &node);
  /// Attributes it heeds or may ignore. A node with another means something that is not done here.
  llvm::StringLiteral attributes = "";
  /// The input of floats that it must know when the model is read, if there is one.
  unsigned numbers = anyNumber;
};

// The tables, by file.
llvm::ArrayRef<OnnxOp> pointwiseOps();
llvm::ArrayRef<OnnxOp> layoutOps();
llvm::ArrayRef<OnnxOp> indexingOps();
llvm::ArrayRef<OnnxOp> rankingOps();
llvm::ArrayRef<OnnxOp> scatterOps();
llvm::ArrayRef<OnnxOp> rowOps();
llvm::ArrayRef<OnnxOp> productOps();
llvm::ArrayRef<OnnxOp> constantOps();
llvm::ArrayRef<OnnxOp> transformerOps();
llvm::ArrayRef<OnnxOp> convolutionOps();
llvm::ArrayRef<OnnxOp> poolingOps();
llvm::ArrayRef<OnnxOp> resizeOps();
llvm::ArrayRef<OnnxOp> blockOps();
llvm::ArrayRef<OnnxOp> controlFlowOps();
llvm::ArrayRef<OnnxOp> einsumOps();
llvm::ArrayRef<OnnxOp> fusedAttentionOps();
llvm::ArrayRef<OnnxOp> groupQueryOps();
llvm::ArrayRef<OnnxOp> optimisedOps();
llvm::ArrayRef<OnnxOp> trigonometryOps();
llvm::ArrayRef<OnnxOp> gridSampleOps();
llvm::ArrayRef<OnnxOp> col2ImOps();
llvm::ArrayRef<OnnxOp> fourierOps();

/// All of them.
std::vector<llvm::ArrayRef<OnnxOp>> opTables();

/// The row of a node's op, or null.
const OnnxOp *findOp(const ::onnx::NodeProto &node);

/// "Gelu", "com.microsoft.Gelu".
std::string fullNameOf(const ::onnx::NodeProto &node);
/// The node's name, or that of its first output.
std::string labelOf(const ::onnx::NodeProto &node);

} // namespace kfuse::ir::onnx
