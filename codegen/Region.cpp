#include "codegen/Region.h"

#include "ir/RegionScalars.h"
#include "ir/dialect/Kfuse.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
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

/// Whether a run leaves the value as it is: a constant, a parameter, or what @prepare made of such.
bool isFixed(Value value) {
  if (value.getDefiningOp())
    return isa<ir::ConstantOp>(value.getDefiningOp());
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto role = function ? function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ir::roleAttrName) : nullptr;
  return role && (role.getValue() == "parameter" || role.getValue() == "prepared");
}

std::vector<bool> fixedInputs(Block &body) {
  std::vector<bool> fixed(body.getNumArguments());
  if (auto fused = dyn_cast_or_null<ir::FusedOp>(body.getParentOp()))
    for (auto [i, input] : llvm::enumerate(fused.getInputs()))
      fixed[i] = isFixed(input);
  return fixed;
}

/// The op's text without its discardable attributes (which attention it belongs to, say), so that equal
/// regions of many layers have equal text, and with the inputs that are fixed.
std::string textOf(Block &body, const std::vector<bool> &fixed) {
  OwningOpRef<Operation *> plain = body.getParentOp()->clone();
  plain->setDiscardableAttrs(DictionaryAttr::get(plain->getContext()));
  SmallVector<int64_t> numbers;
  for (auto [i, isFixed] : llvm::enumerate(fixed))
    if (isFixed)
      numbers.push_back(static_cast<int64_t>(i));
  if (!numbers.empty())
    plain->setAttr("fixed", DenseI64ArrayAttr::get(plain->getContext(), numbers));
  plain->setOperands({}); // Which values come in is not the kernel's business; its arguments have their types.
  std::string text;
  llvm::raw_string_ostream os(text);
  plain->print(os, OpPrintingFlags().useLocalScope());
  return text;
}

/// A block of its own with the arguments of `body` and the ops of an attention inside it, to be scalarised.
class AttentionPart {
public:
  AttentionPart(Block &body, ir::AttentionOp attention)
      : builder(attention.getContext()),
        fused(builder.create<ir::FusedOp>(attention.getLoc(), TypeRange(), ValueRange())),
        part(fused->getBody().emplaceBlock()) {
    for (BlockArgument argument : body.getArguments())
      outer.map(argument, part.addArgument(argument.getType(), argument.getLoc()));
    builder.setInsertionPointToEnd(&part);
    for (Operation &op : body.without_terminator()) // Generators that the region makes itself.
      if (&op != attention.getOperation())
        builder.clone(op, outer);
    for (auto [argument, input] : llvm::zip_equal(attention.getBody().front().getArguments(), attention.getInputs()))
      inner.map(argument, outer.lookup(input));
  }
  void addInput(Value value) { inner.map(value, part.addArgument(value.getType(), value.getLoc())); }
  /// Clones what computes `value`.
  void compute(Value value) {
    if (inner.contains(value))
      return;
    for (Value operand : value.getDefiningOp()->getOperands())
      compute(operand);
    builder.clone(*value.getDefiningOp(), inner);
  }
  Result<ir::ScalarGraph> scalarise(Value result) {
    compute(result);
    builder.create<ir::YieldOp>(result.getLoc(), inner.lookup(result));
    return ir::scalariseRegion(part);
  }

private:
  OpBuilder builder;
  OwningOpRef<ir::FusedOp> fused;
  Block &part;
  IRMapping outer, inner;
};

/// The attention that a body consists of, besides what needs no memory; or null.
ir::AttentionOp attentionIn(Block &body) {
  auto attentions = body.getOps<ir::AttentionOp>();
  bool isAlone = llvm::hasSingleElement(attentions) && body.getTerminator()->getNumOperands() == 1 &&
                 body.getTerminator()->getOperand(0).getDefiningOp() == *attentions.begin();
  return isAlone ? *attentions.begin() : ir::AttentionOp();
}

Result<Region> makeAttentionRegion(Block &body, ir::AttentionOp op) {
  auto softmaxes = op.getBody().getOps<ir::SoftmaxOp>();
  if (!llvm::hasSingleElement(softmaxes))
    return Error{ErrorCode::BadModel, "an attention holds one softmax"};
  ir::SoftmaxOp softmax = *softmaxes.begin();
  Result<ir::ScalarGraph> scores = AttentionPart(body, op).scalarise(softmax.getOperand());
  if (!scores)
    return scores.error();
  AttentionPart after(body, op);
  after.addInput(softmax.getResult());
  Result<ir::ScalarGraph> product = after.scalarise(op.getBody().front().getTerminator()->getOperand(0));
  if (!product)
    return product.error();

  Region region;
  region.name = region.ops = "attention";
  region.graph.domain.extents.assign(product->outputs[0].shape.begin(), product->outputs[0].shape.end());
  region.graph.inputs = scores->inputs;
  region.graph.outputs = product->outputs;
  for (unsigned i = 0; i < region.graph.inputs.size(); ++i) {
    double elements = std::min(elementsRead(*scores, i) + elementsRead(*product, i),
                               static_cast<double>(elementCount(region.graph.inputs[i].shape)));
    region.bytesRead += elements * byteWidth(region.graph.inputs[i].type);
  }
  region.bytesWritten =
      static_cast<double>(elementCount(product->outputs[0].shape)) * byteWidth(product->outputs[0].type);
  op.walk([&](ir::FusableOpInterface inner) { region.flops += static_cast<double>(inner.getFlops()); });
  region.mathType = ir::dtypeOf(softmax.getOperand().getType());
  region.attention = std::make_shared<Attention>(std::move(*scores), std::move(*product));
  region.isFixed = fixedInputs(body);
  region.text = textOf(body, region.isFixed);
  return region;
}

} // namespace

Result<Region> makeRegion(Block &body) {
  if (ir::AttentionOp attention = attentionIn(body))
    return makeAttentionRegion(body, attention);
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
    if (auto product = dyn_cast<ir::MatmulOp>(op))
      region.tf32 |= product.getTf32();
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
  region.isFixed = fixedInputs(body);
  region.text = textOf(body, region.isFixed);
  return region;
}

} // namespace kfuse::codegen
