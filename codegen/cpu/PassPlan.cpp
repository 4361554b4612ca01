#include "codegen/cpu/PassPlan.h"

#include "codegen/cpu/ScalarFunctions.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

namespace kfuse::codegen::cpu {
namespace {

using ir::Scalar;
using ir::ScalarNode;

class PassPlanner {
public:
  explicit PassPlanner(const LinearGraph &graph) : graph(graph) {}

  PassPlan plan(bool saves) {
    findPasses();
    for (unsigned id = 0; id < graph.graph.nodes.size(); ++id)
      if (graph.graph.nodes[id].kind == ScalarNode::Kind::Reduce)
        addReduction({static_cast<int>(id)});
    passes.saved.resize(passes.reductions.size() + 1);
    for (unsigned i = 0; i < graph.graph.outputs.size(); ++i)
      (dependsOnColumn(i) ? passes.elementOutputs : passes.rowOutputs).push_back(i);
    if (saves)
      saveSharedValues();
    return std::move(passes);
  }

private:
  /// Operands come before what uses them: one look at each, however many paths lead there.
  void findPasses() {
    passOf.resize(graph.graph.nodes.size());
    for (auto [id, node] : llvm::enumerate(graph.graph.nodes))
      for (llvm::ArrayRef<Scalar> inputs :
           {llvm::ArrayRef<Scalar>(node.operands), llvm::ArrayRef<Scalar>(node.symbols)})
        for (Scalar input : inputs)
          passOf[id] = std::max(passOf[id], passOf[input.id] + (graph[input].kind == ScalarNode::Kind::Reduce ? 1 : 0));
  }

  bool dependsOnColumn(unsigned output) const {
    unsigned column = graph.graph.domain.reductionDim;
    const ir::ScalarOutput &to = graph.graph.outputs[output];
    return graph.dependsOn(to.value, column) || to.map.getResult(0).isFunctionOfDim(column);
  }

  void addReduction(Scalar s) {
    const unsigned pass = passOf[s.id];
    if (passes.reductions.size() <= pass)
      passes.reductions.resize(pass + 1);
    passes.reductions[pass].push_back(s);
  }

  /// Whether computing the node again costs more than reading it from the first-level cache.
  bool isExpensive(Scalar s) const {
    std::vector<bool> seen(graph.graph.nodes.size());
    return isExpensive(s, seen);
  }
  bool isExpensive(Scalar s, std::vector<bool> &seen) const {
    const ScalarNode &node = graph[s];
    if (node.kind == ScalarNode::Kind::Reduce || seen[s.id])
      return false;
    seen[s.id] = true;
    if (node.kind == ScalarNode::Kind::Apply) {
      const ScalarFunction *function = findFunction(node.function, graph[node.operands.back()].type);
      if (!function->callee.empty())
        return true;
    }
    return !node.symbols.empty() ||
           llvm::any_of(node.operands, [&](Scalar operand) { return isExpensive(operand, seen); });
  }

  void saveSharedValues() {
    lastVisit.assign(graph.graph.nodes.size(), -1);
    for (unsigned pass = 0; pass < passes.reductions.size(); ++pass)
      for (Scalar reduction : passes.reductions[pass])
        visit(graph[reduction].operands[0], pass);
    for (unsigned output : passes.elementOutputs)
      visit(graph.graph.outputs[output].value, passes.reductions.size());
  }

  /// Pass `pass` computes `s`; if an earlier one did, that one saves it.
  void visit(Scalar s, unsigned pass) {
    const ScalarNode &node = graph[s];
    if (node.kind == ScalarNode::Kind::Reduce || !graph.dependsOn(s, graph.graph.domain.reductionDim))
      return;
    auto [first, isNew] = firstPass.try_emplace(s.id, pass);
    if (!isNew && first->second < pass && isExpensive(s)) {
      std::vector<Scalar> &saved = passes.saved[first->second];
      if (!llvm::is_contained(saved, s))
        saved.push_back(s);
      return;
    }
    if (std::exchange(lastVisit[s.id], static_cast<int>(pass)) == static_cast<int>(pass))
      return; // On another path of this pass.
    for (Scalar operand : node.operands)
      visit(operand, pass);
  }

  const LinearGraph &graph;
  PassPlan passes;
  std::vector<unsigned> passOf; ///< By node: how many passes must be over before it can be computed.
  std::map<int, unsigned> firstPass;
  std::vector<int> lastVisit; ///< By node: the last pass that visited it, or -1.
};

} // namespace

PassPlan PassPlan::of(const LinearGraph &graph, bool saves) { return PassPlanner(graph).plan(saves); }

} // namespace kfuse::codegen::cpu
