// How an ONNX op is written in the dialect: a row of a table.
#pragma once

#include "ir/import/onnx/node/Node.h"

#include <limits>
#include <string>

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

/// "Gelu", "com.microsoft.Gelu".
std::string fullNameOf(const ::onnx::NodeProto &node);
/// The node's name, or that of its first output.
std::string labelOf(const ::onnx::NodeProto &node);

} // namespace kfuse::ir::onnx
