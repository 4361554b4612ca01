#include "ir/import/onnx/Ops.h"

namespace kfuse::ir::onnx {

std::vector<llvm::ArrayRef<OnnxOp>> opTables() {
  return {pointwiseOps(),   layoutOps(),       indexingOps(),    rowOps(),     productOps(),        constantOps(),
          transformerOps(), blockOps(),        controlFlowOps(), einsumOps(),  fusedAttentionOps(), groupQueryOps(),
          optimisedOps(),   trigonometryOps(), rankingOps(),     scatterOps(), convolutionOps(),    poolingOps(),
          resizeOps(),      gridSampleOps(),   col2ImOps(),      fourierOps()};
}

namespace {

llvm::StringMap<const OnnxOp *> makeIndex() {
  llvm::StringMap<const OnnxOp *> index;
  for (llvm::ArrayRef<OnnxOp> table : opTables())
    for (const OnnxOp &op : table)
      index[op.name] = &op;
  return index;
}

} // namespace

std::string fullNameOf(const ::onnx::NodeProto &node) {
  bool isStandard = node.domain().empty() || node.domain() == "ai.onnx";
  return isStandard ? node.op_type() : node.domain() + "." + node.op_type();
}

std::string labelOf(const ::onnx::NodeProto &node) {
  if (!node.name().empty())
    return node.name();
  return node.output_size() > 0 ? node.output(0) : "without a name";
}

const OnnxOp *findOp(const ::onnx::NodeProto &node) {
  static const llvm::StringMap<const OnnxOp *> index = makeIndex();
  return index.lookup(fullNameOf(node));
}

} // namespace kfuse::ir::onnx
