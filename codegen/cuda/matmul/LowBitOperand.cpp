#include "codegen/cuda/matmul/LowBitOperand.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;
using Kind = ScalarNode::Kind;

namespace {

/// Reads (q - zero) scale from the scalar form, as kfuse.dequantize writes it.
class Reader {
public:
  explicit Reader(const Region &region)
      : region(region), graph(region.graph), dimN(graph.domain.rank() - 2), dimK(graph.domain.rank() - 1) {}

  LowBitOperand read(Scalar value) {
    const ScalarNode &product = graph[value];
    if (product.kind != Kind::Apply || product.function != "mul")
      return refused("is not dequantised in the region");
    auto [integers, rounding] = unrounded(product.operands[0]);
    Scalar zero;
    if (graph[integers].kind == Kind::Apply && graph[integers].function == "sub")
      std::tie(integers, zero) = std::pair(graph[integers].operands[0], graph[integers].operands[1]);
    const ScalarNode *q = integerLoad(integers);
    if (!q)
      return refused("is not (integers - zeros) scales of the region's inputs");
    operand.type = operand.zeroType = graph.inputs[q->input].type;
    operand.quantised = q->input;
    if (!isRows(*q))
      return refused("does not lie in rows along K");
    operand.rowBytes = static_cast<int64_t>(byteSize(operand.type, {graph.inputs[q->input].shape.back()}));
    const AffineMap places = readScales(product.operands[1]);
    if (operand.refusal.empty() && zero)
      readZero(zero, places);
    readRounding(rounding);
    return operand;
  }

private:
  LowBitOperand refused(const std::string &why) {
    if (operand.refusal.empty())
      operand.refusal = "the right operand " + why;
    return operand;
  }

  /// What is rounded, and the name of the type it is rounded to; "" where it is not.
  std::pair<Scalar, llvm::StringRef> unrounded(Scalar value) const {
    const ScalarNode &node = graph[value];
    llvm::StringRef type = node.function;
    const bool isRounded = node.kind == Kind::Apply && type.consume_front("round_to_");
    return isRounded ? std::pair(node.operands[0], type) : std::pair(value, llvm::StringRef());
  }
  /// A cast between floats is no part of the scalar form, so zeros may lie in memory in another type than the op's.
  void readRounding(llvm::StringRef type) {
    if (type.empty())
      return;
    operand.difference = operand.zeroType;
    const std::string zeros(toString(operand.zeroType));
    if (type != zeros)
      refused("rounds (integers - zeros) to " + type.str() + ", but its zeros are " + zeros);
  }
  /// A load of a matrix by indices alone; null for anything else.
  const ScalarNode *loadOf(Scalar value) {
    const ScalarNode &node = graph[value];
    if (node.kind != Kind::Load || !node.guards.empty() || !node.symbols.empty() || node.map.getNumResults() != 2)
      return nullptr;
    operand.isFixed &= region.isFixed[node.input];
    return &node;
  }
  const ScalarNode *integerLoad(Scalar value) {
    const ScalarNode &cast = graph[value];
    const ScalarNode *load = cast.kind == Kind::Cast ? loadOf(cast.operands[0]) : nullptr;
    return load && smallInteger(graph.inputs[load->input].type) ? load : nullptr;
  }
  bool isFloatLoad(const ScalarNode &node) const {
    return node.kind == Kind::Load && isFloat(graph.inputs[node.input].type);
  }
  bool isZeroType(DType type) const { return type == operand.type || (isFloat(type) && byteWidth(type) > 1); }
  bool isRows(const ScalarNode &load) const {
    MLIRContext *context = load.map.getContext();
    return load.map.getResult(0) == getAffineDimExpr(dimN, context) &&
           load.map.getResult(1) == getAffineDimExpr(dimK, context);
  }

  /// Scales [N, blocks of a row], and where in them an element's is; or one number for all.
  AffineMap readScales(Scalar value) {
    operand.block = graph.domain.extents[dimK];
    if (const ScalarNode &one = graph[value]; one.kind == Kind::Constant && isFloat(one.type)) {
      operand.scale = static_cast<float>(one.constant);
      return {};
    }
    const ScalarNode *scale = loadOf(value);
    if (!scale || !isFloat(graph.inputs[scale->input].type)) {
      refused("is not (integers - zeros) scales of the region's inputs");
      return {};
    }
    operand.scales = scale->input;
    operand.scaleType = graph.inputs[scale->input].type;
    readBlocks(*scale);
    return scale->map;
  }
  void readBlocks(const ScalarNode &scale) {
    MLIRContext *context = scale.map.getContext();
    const AffineExpr along = scale.map.getResult(1);
    operand.blocksOfRow = graph.inputs[scale.input].shape.back();
    auto divided = dyn_cast<AffineBinaryOpExpr>(along);
    if (divided && divided.getKind() == AffineExprKind::FloorDiv && divided.getLHS() == getAffineDimExpr(dimK, context))
      operand.block = cast<AffineConstantExpr>(divided.getRHS()).getValue();
    else if (along != getAffineConstantExpr(0, context) || operand.blocksOfRow != 1)
      refused("has no scale for each block of K");
    if (scale.map.getResult(0) != getAffineDimExpr(dimN, context))
      refused("has no scales of its own for each column");
  }

  /// Zeros that lie as the scales do, or one number for all.
  void readZero(Scalar zero, AffineMap likeScales) {
    const ScalarNode &node = graph[zero];
    const ScalarNode *value = node.kind == Kind::Cast ? &graph[node.operands[0]] : nullptr;
    if (value && value->kind == Kind::Constant && !isFloat(value->type)) {
      operand.zero = value->integer;
      return;
    }
    const ScalarNode *load = isFloatLoad(node) ? loadOf(zero) : integerLoad(zero);
    if (load)
      operand.zeroType = graph.inputs[load->input].type;
    if (!load || load->map != likeScales || !isZeroType(operand.zeroType)) {
      refused("has zeros of another type, or in other places, than its integers and scales");
      return;
    }
    operand.zeros = load->input;
    operand.zeroRowBytes = static_cast<int64_t>(byteSize(operand.type, {graph.inputs[load->input].shape.back()}));
  }

  const Region &region;
  const ir::ScalarGraph &graph;
  const unsigned dimN, dimK;
  LowBitOperand operand;
};

} // namespace

LowBitOperand LowBitOperand::of(const Region &region, unsigned product) {
  for (const ScalarNode &node : region.graph.nodes)
    if (node.kind == Kind::Contract && product-- == 0)
      return Reader(region).read(node.operands[1]);
  LowBitOperand none;
  none.refusal = "there is no such product";
  return none;
}

} // namespace kfuse::codegen::cuda
