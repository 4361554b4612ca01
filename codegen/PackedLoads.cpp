#include "codegen/PackedLoads.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::codegen {
namespace {

using ir::Scalar;
using ir::ScalarNode;

class Unpacking {
public:
  explicit Unpacking(const ir::ScalarGraph &source) : source(source) {}

  ir::ScalarGraph run() {
    graph.domain = source.domain;
    for (const ir::ScalarInput &input : source.inputs)
      graph.inputs.push_back(isPacked(input.type) ? ir::ScalarInput{DType::U8, packedShape(input.shape)} : input);
    for (const ScalarNode &node : source.nodes) {
      const bool isHalf = node.kind == ScalarNode::Kind::Load && isPacked(source.inputs[node.input].type);
      moved.push_back(isHalf ? halfOfByte(renumbered(node)) : add(renumbered(node)));
    }
    for (ir::ScalarOutput output : source.outputs) {
      output.value = moved[output.value.id];
      renumber(output.symbols);
      graph.outputs.push_back(std::move(output));
    }
    if (source.runExtent)
      graph.runExtent = ir::RunExtent{source.runExtent->dim, moved[source.runExtent->count.id]};
    return std::move(graph);
  }

private:
  void renumber(SmallVectorImpl<Scalar> &scalars) const {
    for (Scalar &scalar : scalars)
      scalar = moved[scalar.id];
  }
  ScalarNode renumbered(ScalarNode node) const {
    renumber(node.operands);
    renumber(node.symbols);
    return node;
  }

  Scalar add(ScalarNode node) {
    graph.nodes.push_back(std::move(node));
    return {static_cast<int>(graph.nodes.size()) - 1};
  }
  Scalar apply(StringRef function, ArrayRef<Scalar> operands, DType type = DType::I32) {
    ScalarNode node;
    node.kind = ScalarNode::Kind::Apply;
    node.type = type;
    node.function = function.str();
    node.operands.assign(operands.begin(), operands.end());
    return add(std::move(node));
  }
  Scalar integer(int64_t value, DType type = DType::I32) {
    ScalarNode node;
    node.type = type;
    node.integer = value;
    return add(std::move(node));
  }

  /// A byte b holds elements b % 16 and b / 16.
  Scalar halfOfByte(ScalarNode load) {
    const bool isSigned = source.inputs[load.input].type == DType::I4;
    ScalarNode place; // The element's place along its row.
    place.kind = ScalarNode::Kind::Index;
    place.type = DType::I64;
    MLIRContext *context = load.map.getContext();
    SmallVector<AffineExpr> where(load.map.getResults());
    const AffineExpr along = where.empty() ? getAffineConstantExpr(0, context) : where.back();
    place.index = along % 2;
    place.symbols = load.symbols;
    if (!where.empty())
      where.back() = along.floorDiv(2);
    load.map = AffineMap::get(load.map.getNumDims(), load.map.getNumSymbols(), where, context);

    const Scalar byte = add(std::move(load));
    const Scalar isFirst = apply("eq", {add(std::move(place)), integer(0, DType::I64)}, DType::Bool);
    const Scalar half = apply("where", {isFirst, apply("and", {byte, integer(15)}), apply("div", {byte, integer(16)})});
    if (!isSigned)
      return half;
    return apply("sub", {apply("and", {apply("add", {half, integer(8)}), integer(15)}), integer(8)});
  }

  const ir::ScalarGraph &source;
  ir::ScalarGraph graph;
  std::vector<Scalar> moved; ///< Where each node of the source is now.
};

} // namespace

ir::ScalarGraph withPackedLoads(const ir::ScalarGraph &graph) {
  const bool isPlain = llvm::none_of(graph.inputs, [](const ir::ScalarInput &input) { return isPacked(input.type); });
  return isPlain ? graph : Unpacking(graph).run();
}

} // namespace kfuse::codegen
