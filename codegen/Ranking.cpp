#include "codegen/Ranking.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace kfuse::codegen {

using ir::Scalar;
using ir::ScalarNode;

static bool isComputedFloat(const ir::ScalarGraph &graph, Scalar value) {
  while (graph[value].kind == ScalarNode::Kind::Cast)
    value = graph[value].operands.front();
  const ScalarNode &node = graph[value];
  return isFloat(node.type) && node.kind != ScalarNode::Kind::Load && node.kind != ScalarNode::Kind::Constant;
}

static bool isComparison(const ScalarNode &node) {
  return node.kind == ScalarNode::Kind::Apply &&
         llvm::StringSwitch<bool>(node.function).Cases("lt", "le", "gt", "ge", "eq", "ne", true).Default(false);
}

bool ranksComputed(const ir::ScalarGraph &graph) {
  std::vector<bool> selects(graph.nodes.size()); // Whether a comparison of computed floats is behind a node.
  for (auto [id, node] : llvm::enumerate(graph.nodes)) {
    selects[id] = isComparison(node) &&
                  llvm::all_of(node.operands, [&](Scalar operand) { return isComputedFloat(graph, operand); });
    for (Scalar operand : node.operands)
      selects[id] = selects[id] || selects[operand.id];
    if (selects[id] && node.kind == ScalarNode::Kind::Reduce)
      return true;
  }
  return false;
}

} // namespace kfuse::codegen
