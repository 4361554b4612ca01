#include "ir/import/onnx/Ops.h"

#include "ir/import/onnx/arithmetic/Ops.h"
#include "ir/import/onnx/attention/Ops.h"
#include "ir/import/onnx/images/Ops.h"
#include "ir/import/onnx/layout/Ops.h"
#include "ir/import/onnx/quantised/Ops.h"
#include "ir/import/onnx/static/Ops.h"

namespace kfuse::ir::onnx {

std::vector<llvm::ArrayRef<OnnxOp>> opTables() {
  return {
      pointwiseOps(),      layoutOps(),       indexingOps(),    rowOps(),     productOps(),         constantOps(),
      transformerOps(),    blockOps(),        controlFlowOps(), einsumOps(),  fusedAttentionOps(),  groupQueryOps(),
      optimisedOps(),      trigonometryOps(), rankingOps(),     scatterOps(), convolutionOps(),     poolingOps(),
      resizeOps(),         gridSampleOps(),   col2ImOps(),      fourierOps(), linearQuantisedOps(), blockQuantisedOps(),
      packedAttentionOps()};
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

const OnnxOp *findOp(const ::onnx::NodeProto &node) {
  static const llvm::StringMap<const OnnxOp *> index = makeIndex();
  return index.lookup(fullNameOf(node));
}

} // namespace kfuse::ir::onnx
