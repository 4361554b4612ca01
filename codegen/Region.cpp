#include "codegen/Region.h"

#include "ir/RegionScalars.h"
#include "ir/dialect/Kfuse.h"

#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace kfuse::codegen {
namespace {

/// Elements of an input that the region can touch at most: a slice or a gather reads less than all.
double elementsRead(const ir::ScalarGraph &graph, unsigned input) {
  double touched = 0;
  for (auto [id, node] : llvm::enumerate(graph.nodes)) {
    if (node.kind != ir::ScalarNode::Kind::Load || node.input != input)
      continue;
    double points = 1;
    for (unsigned dim = 0; dim < graph.domain.rank(); ++dim)
      if (graph.dependsOn({static_cast<int>(id)}, dim))
        points *= static_cast<double>(graph.domain.extents[dim]);
    touched += points;
  }
  return std::min(touched, static_cast<double>(elementCount(graph.inputs[input].shape)));
}

/// The op's text without its discardable attributes (which attention it belongs to, say), so that equal
/// regions of many layers have equal text.
std::string textOf(Block &body) {
  OwningOpRef<Operation *> plain = body.getParentOp()->clone();
  plain->setDiscardableAttrs(DictionaryAttr::get(plain->getContext()));
  plain->setOperands({}); // Which values come in is not the kernel's business; its arguments have their types.
  std::string text;
  llvm::raw_string_ostream os(text);
  plain->print(os, OpPrintingFlags().useLocalScope());
  return text;
}

} // namespace

Result<Region> makeRegion(Block &body) {
  Result<ir::ScalarGraph> graph = ir::scalariseRegion(body);
  if (!graph)
    return graph.error();
  Region region;
  region.graph = std::move(*graph);
  for (Operation &op : body.without_terminator()) {
    auto fusable = dyn_cast<ir::FusableOpInterface>(op);
    if (!fusable)
      return Error{ErrorCode::BadModel, op.getName().getStringRef().str() + " cannot be part of a fused region"};
    region.flops += static_cast<double>(fusable.getFlops());
    if (fusable.getOpKind() == ir::OpKind::Contraction)
      region.mathType = ir::dtypeOf(op.getOperand(0).getType());
    if (fusable.getOpKind() == ir::OpKind::Layout || fusable.getOpKind() == ir::OpKind::Generator)
      continue;
    StringRef name = op.getName().stripDialect();
    region.ops += (region.ops.empty() ? "" : " + ") + name.str();
    region.name += (region.name.empty() ? "" : "_") + name.str();
  }
  if (region.name.empty())
    region.name = region.ops = "copy";
  if (region.name.size() > 60)
    region.name.resize(60);
  for (unsigned i = 0; i < region.graph.inputs.size(); ++i)
    region.bytesRead += elementsRead(region.graph, i) * byteWidth(region.graph.inputs[i].type);
  for (const ir::ScalarOutput &output : region.graph.outputs) {
    int64_t elements = output.inPlace < 0 ? elementCount(output.shape) : region.graph.domain.points();
    region.bytesWritten += static_cast<double>(elements) * byteWidth(output.type);
  }
  region.text = textOf(body);
  return region;
}

} // namespace kfuse::codegen
