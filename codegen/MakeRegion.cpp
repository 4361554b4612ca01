#include "codegen/MakeRegion.h"

#include "codegen/AttentionRegion.h"
#include "codegen/ChainRegion.h"
#include "codegen/PartedRegion.h"
#include "ir/RegionScalars.h"
#include "ir/dialect/Kfuse.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace kfuse::codegen {
namespace {

/// Whether what a kernel reads is there when a run begins: a constant, a parameter, what @prepare made of such, the old
/// value of a state, which is read before it is updated, and positions and lengths. Other inputs may be given the
/// memory of a result.
bool isFixed(Value value) {
  if (value.getDefiningOp())
    return isa<ir::ConstantOp>(value.getDefiningOp());
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto role = function ? function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), ir::roleAttrName) : nullptr;
  if (!role)
    return false;
  return role.getValue() == "input" ? !isFloat(ir::dtypeOf(value.getType())) : true;
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

} // namespace

std::vector<bool> fixedInputs(Block &body) {
  auto fused = dyn_cast_or_null<ir::FusedOp>(body.getParentOp());
  std::vector<bool> fixed;
  for (BlockArgument argument : body.getArguments()) // A function that is one region has its own.
    fixed.push_back(isFixed(fused ? fused.getInputs()[argument.getArgNumber()] : argument));
  return fixed;
}

/// Elements of each input that the region can touch at most: a slice or a gather reads less than all.
std::vector<double> elementsRead(const ir::ScalarGraph &graph) {
  std::vector<double> touched(graph.inputs.size());
  for (auto [id, node] : llvm::enumerate(graph.nodes)) {
    if (node.kind != ir::ScalarNode::Kind::Load)
      continue;
    double points = 1;
    for (unsigned dim = 0; dim < graph.domain.rank(); ++dim)
      if (graph.dependsOn({static_cast<int>(id)}, dim))
        points *= static_cast<double>(graph.domain.extents[dim]);
    touched[node.input] += points;
  }
  for (auto [elements, input] : llvm::zip_equal(touched, graph.inputs))
    elements = std::min(elements, static_cast<double>(elementCount(input.shape)));
  return touched;
}

double bytesOf(double elements, DType type) {
  return elements * static_cast<double>(byteWidth(type)) / (isPacked(type) ? 2 : 1);
}

double elementsRead(const ir::ScalarGraph &graph, unsigned input) { return elementsRead(graph)[input]; }

Result<void> describe(Region &region, Block &body) {
  for (Operation &op : body.without_terminator()) {
    auto fusable = dyn_cast<ir::FusableOpInterface>(op);
    if (!fusable && !isa<ir::AttentionOp>(op))
      return Error{ErrorCode::BadModel, op.getName().getStringRef().str() + " cannot be part of a fused region"};
    if (fusable)
      region.flops += static_cast<double>(fusable.getFlops());
    if (fusable && (fusable.getOpKind() == ir::OpKind::Layout || fusable.getOpKind() == ir::OpKind::Generator))
      continue;
    StringRef name = op.getName().stripDialect();
    region.ops += (region.ops.empty() ? "" : " + ") + name.str();
    region.name += (region.name.empty() ? "" : "_") + name.str();
  }
  if (region.name.empty())
    region.name = region.ops = "copy";
  if (region.name.size() > 60)
    region.name.resize(60);
  return {};
}

/// An update writes a part of its state: an element for each index that it is stored at, however many a product or a
/// reduction goes through for it.
double elementsWritten(const ir::ScalarGraph &graph, const ir::ScalarOutput &output) {
  if (output.inPlace < 0)
    return static_cast<double>(elementCount(output.shape));
  double elements = 1;
  for (auto [dim, extent] : llvm::enumerate(graph.domain.extents)) {
    auto isRowOf = [&, dim = dim](ir::Scalar row) { return graph.dependsOn(row, dim); }; // Each row has its place.
    if (output.map.isFunctionOfDim(dim) || llvm::any_of(output.symbols, isRowOf))
      elements *= static_cast<double>(extent);
  }
  return elements;
}

Result<Region> makeScalarRegion(Block &body) {
  Result<ir::ScalarGraph> graph = ir::scalariseRegion(body);
  if (!graph)
    return graph.error();
  Region region;
  region.graph = std::move(*graph);
  if (Result<void> described = describe(region, body); !described)
    return described.error();
  for (auto product : body.getOps<ir::MatmulOp>())
    region.tf32 |= product.getTf32();
  for (Operation &op : body.without_terminator())
    if (cast<ir::FusableOpInterface>(op).getOpKind() == ir::OpKind::Contraction)
      region.mathType = ir::dtypeOf(op.getOperand(0).getType());
  for (const ir::ScalarOutput &output : region.graph.outputs)
    if (isPacked(output.type))
      return Error{ErrorCode::BadModel, "would store " + std::string(toString(output.type)) +
                                            ", of which two share a byte; their elements are only read"};
  for (auto [elements, input] : llvm::zip_equal(elementsRead(region.graph), region.graph.inputs))
    region.bytesRead += bytesOf(elements, input.type);
  for (const ir::ScalarOutput &output : region.graph.outputs)
    region.bytesWritten += bytesOf(elementsWritten(region.graph, output), output.type);
  return region;
}

Result<Region> makeRegionWithoutText(Block &body) {
  Result<Region> region = !body.getOps<ir::FusedOp>().empty()       ? makeChainRegion(body)
                          : !body.getOps<ir::AttentionOp>().empty() ? makeAttentionRegion(body)
                                                                    : makeScalarRegion(body);
  if (!region)
    if (std::optional<Region> together = makePartedRegion(body))
      region = std::move(*together);
  if (!region)
    return region.error();
  region->isFixed = fixedInputs(body);
  return region;
}

Result<Region> makeRegion(Block &body) {
  Result<Region> region = makeRegionWithoutText(body);
  if (region)
    region->text = textOf(body, region->isFixed);
  return region;
}

} // namespace kfuse::codegen
