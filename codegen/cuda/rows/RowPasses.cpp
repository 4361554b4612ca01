#include "codegen/cuda/rows/RowPasses.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <optional>

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

llvm::StringRef reductionTypeName(llvm::StringRef function) {
  return llvm::StringSwitch<llvm::StringRef>(function)
      .Case("sum", "Sum")
      .Case("max", "Maximum")
      .Case("min", "Minimum")
      .Default("");
}

/// The spread that a reduction is: sum(mul(d, d)) with d = value - sum(value) / columns.
static std::optional<Spread> spreadOf(const LinearGraph &graph, Scalar reduction) {
  auto isApply = [&](Scalar s, llvm::StringRef function) {
    return graph[s].kind == ScalarNode::Kind::Apply && graph[s].function == function;
  };
  const ScalarNode &node = graph[reduction];
  const Scalar square = node.operands[0];
  if (node.function != "sum" || node.type != DType::F32 || !isApply(square, "mul") ||
      graph[square].operands[0] != graph[square].operands[1] || !isApply(graph[square].operands[0], "sub"))
    return std::nullopt;
  const ScalarNode &difference = graph[graph[square].operands[0]];
  const Scalar value = difference.operands[0], mean = difference.operands[1];
  if (!isApply(mean, "mul"))
    return std::nullopt;
  const Scalar sum = graph[mean].operands[0];
  const ScalarNode &factor = graph[graph[mean].operands[1]];
  const auto columns = static_cast<double>(graph.extents()[graph.graph.domain.reductionDim]);
  bool isMean = graph[sum].kind == ScalarNode::Kind::Reduce && graph[sum].function == "sum" &&
                graph[sum].operands[0] == value && factor.kind == ScalarNode::Kind::Constant &&
                std::abs(factor.constant * columns - 1) < 1e-6;
  return isMean ? std::optional(Spread{reduction, sum, mean, value}) : std::nullopt;
}

RowPasses::RowPasses(const LinearGraph &graph) {
  unsigned columns = graph.graph.domain.reductionDim;
  stage.resize(graph.graph.nodes.size());
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes)) {
    for (llvm::ArrayRef<Scalar> used : {llvm::ArrayRef<Scalar>(node.operands), llvm::ArrayRef<Scalar>(node.symbols)})
      for (Scalar s : used)
        stage[id] = std::max(stage[id], stage[s.id]);
    if (node.kind != ScalarNode::Kind::Reduce)
      continue;
    reductions.resize(std::max(reductions.size(), stage[id] + 1));
    reductions[stage[id]++].push_back({static_cast<int>(id)});
  }
  for (size_t pass = 1; pass < reductions.size(); ++pass) {
    std::vector<Spread> found;
    for (Scalar reduction : reductions[pass])
      if (std::optional<Spread> spread = spreadOf(graph, reduction);
          spread && llvm::is_contained(reductions[pass - 1], spread->sum))
        found.push_back(*spread);
    // Only the first is known of a spread's own spread (a fourth moment) a pass earlier.
    if (found.size() == reductions[pass].size() && !isOfSpreads(pass - 1))
      spreads.insert(spreads.end(), found.begin(), found.end());
  }
  for (auto [i, output] : llvm::enumerate(graph.graph.outputs)) {
    bool perElement = output.map.getResult(0).isFunctionOfDim(columns);
    (perElement ? elementOutputs : rowOutputs).push_back(i);
    if (perElement)
      elementValues.push_back(output.value);
  }
}

bool RowPasses::isOfSpreads(size_t number) const {
  return number < reductions.size() &&
         llvm::any_of(spreads, [&](const Spread &spread) { return spread.reduction == reductions[number].front(); });
}

std::vector<Scalar> RowPasses::roots(const LinearGraph &graph, size_t number) const {
  if (number == reductions.size())
    return elementValues;
  std::vector<Scalar> roots;
  for (Scalar reduction : reductions[number])
    roots.push_back(graph[reduction].operands[0]);
  return roots;
}

std::vector<Scalar> rowValues(const LinearGraph &graph, llvm::ArrayRef<Scalar> roots, llvm::ArrayRef<Scalar> given) {
  std::vector<Scalar> values;
  std::vector<bool> seen(graph.graph.nodes.size());
  auto visit = [&](auto &self, Scalar s) -> void {
    if (seen[s.id] || llvm::is_contained(given, s))
      return;
    seen[s.id] = true;
    if (!graph.dependsOn(s, graph.graph.domain.reductionDim)) {
      if (graph[s].kind != ScalarNode::Kind::Constant)
        values.push_back(s);
      return;
    }
    for (Scalar operand : graph[s].operands)
      self(self, operand);
  };
  for (Scalar root : roots)
    visit(visit, root);
  llvm::sort(values, [](Scalar a, Scalar b) { return a.id < b.id; });
  return values;
}

std::vector<Scalar> reductionsOf(const LinearGraph &graph, llvm::ArrayRef<Scalar> roots, llvm::ArrayRef<Scalar> given) {
  std::vector<bool> needed(graph.graph.nodes.size());
  for (Scalar root : roots)
    needed[root.id] = true;
  std::vector<Scalar> reductions;
  for (int id = static_cast<int>(needed.size()) - 1; id >= 0; --id) { // Users before what they use.
    if (!needed[id] || llvm::is_contained(given, Scalar{id}))
      continue;
    if (graph[{id}].kind == ScalarNode::Kind::Reduce)
      reductions.push_back({id});
    for (Scalar operand : graph[{id}].operands)
      needed[operand.id] = true;
  }
  return {reductions.rbegin(), reductions.rend()};
}

RowLoads::RowLoads(const LinearGraph &graph, const RowPasses &passes, const ChunkPrinter &chunk, RowStorage storage) {
  std::vector<int> uses(graph.graph.nodes.size());
  for (size_t pass = 0; pass < passes.count(); ++pass) {
    std::vector<Scalar> roots = passes.roots(graph, pass);
    own.push_back(chunk.loadsOf(roots, rowValues(graph, roots)));
    for (Scalar load : own.back())
      if (storage != RowStorage::Reload && ++uses[load.id] == 2)
        kept.push_back(load);
  }
  llvm::sort(kept, [](Scalar a, Scalar b) { return a.id < b.id; });
  for (std::vector<Scalar> &loads : own)
    llvm::erase_if(loads, [&](Scalar load) { return llvm::is_contained(kept, load); });
}

} // namespace kfuse::codegen::cuda
