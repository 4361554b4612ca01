#include "ir/import/onnx/node/OnnxOp.h"

namespace kfuse::ir::onnx {

std::string fullNameOf(const ::onnx::NodeProto &node) {
  bool isStandard = node.domain().empty() || node.domain() == "ai.onnx";
  return isStandard ? node.op_type() : node.domain() + "." + node.op_type();
}

std::string labelOf(const ::onnx::NodeProto &node) {
  if (!node.name().empty())
    return node.name();
  return node.output_size() > 0 ? node.output(0) : "without a name";
}

} // namespace kfuse::ir::onnx
