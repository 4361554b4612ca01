#include "codegen/cuda/attention/AttentionForms.h"

#include "codegen/cuda/text/ChunkPrinter.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

LinearGraph uncollapsed(const ir::ScalarGraph &graph) { return linearised(graph, graph.domain.rank()); }

std::optional<LinearGraph> uncollapsed(const std::optional<ir::ScalarGraph> &graph) {
  return graph ? std::make_optional(uncollapsed(*graph)) : std::nullopt;
}

Scalar contractionOf(const LinearGraph &graph) {
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes))
    if (node.kind == ScalarNode::Kind::Contract)
      return {static_cast<int>(id)};
  return {};
}

bool isPlainLoad(const LinearGraph &graph, Scalar s) {
  return graph[s].kind == ScalarNode::Kind::Load && graph[s].guards.empty() && graph[s].symbols.empty();
}

Scalar undefinedIn(const LinearGraph &graph, ArrayRef<Scalar> roots, Scalar given) {
  std::vector<bool> needed(graph.graph.nodes.size());
  auto need = [&](ArrayRef<Scalar> used) {
    for (Scalar s : used)
      needed[s.id] = true;
  };
  need(roots);
  for (int id = static_cast<int>(needed.size()) - 1; id >= 0; --id) { // Users before what they use.
    const ScalarNode &node = graph[{id}];
    if (!needed[id] || id == given.id)
      continue;
    if (node.kind == ScalarNode::Kind::Reduce || node.kind == ScalarNode::Kind::Contract)
      return {id};
    need(node.operands);
    need(node.symbols);
  }
  return {};
}

std::string whyNotEpilogue(const LinearGraph &graph, Scalar product, const std::string &what) {
  Scalar undefined = undefinedIn(graph, graph.graph.outputs[0].value, product);
  if (!undefined)
    return "";
  const ScalarNode &node = graph[undefined];
  return what + " takes " +
         (node.kind == ScalarNode::Kind::Reduce ? "a reduction (" + node.function + ")" : "another product") +
         ", which is a kernel before it";
}

Scalar probabilitiesOf(const LinearGraph &graph, Scalar s) {
  auto isInput = [&](Scalar load) {
    return isPlainLoad(graph, load) && graph[load].input + 1 == graph.graph.inputs.size();
  };
  const ScalarNode &node = graph[s];
  if (isInput(s))
    return s;
  if (node.kind != ScalarNode::Kind::Apply || node.function != "where" || !isInput(node.operands[2]))
    return {};
  const ScalarNode &condition = graph[node.operands[0]], &zero = graph[node.operands[1]];
  bool replacesNan = condition.kind == ScalarNode::Kind::Apply && condition.function == "is_nan" &&
                     condition.operands[0] == node.operands[2] && zero.kind == ScalarNode::Kind::Constant &&
                     zero.constant == 0;
  return replacesNan ? node.operands[2] : Scalar{};
}

bool isAligned(const LinearGraph &graph, Scalar load, unsigned dim) {
  return ChunkPrinter(graph, dim, 8).vectorAlignment(load) == 8;
}

std::string keyText(ValuePrinter &scope, const ReadBound &bound, int64_t more, int64_t least, int64_t most) {
  auto within = [](const std::string &text, int64_t low, int64_t high) {
    return "maximum(minimum(" + text + ", " + std::to_string(high) + "ll), " + std::to_string(low) + "ll)";
  };
  auto wide = [&](const ReadBound::Term &term) { return "static_cast<long long>(" + scope.value(term.value) + ")"; };
  const std::string added = more == 0 ? "" : " + " + std::to_string(more) + "ll";
  if (bound.terms.size() == 1 && !bound.terms[0].isSubtracted) // Any value of it has its place.
    return "Index(" + within(wide(bound.terms[0]), least - more, most - more) + added + ")";
  constexpr int64_t far = int64_t{1} << 40; // Sums of a few such are no overflow.
  std::string sum = "0ll";
  for (const ReadBound::Term &term : bound.terms)
    sum += (term.isSubtracted ? " - " : " + ") + within(wide(term), -far, far);
  return "Index(" + within(sum + added, least, most) + ")";
}

std::string boundsText(ValuePrinter &scope, const KeyBounds &bounds, bool areOfRow, int64_t rows, int64_t keys) {
  auto joined = [&](ArrayRef<ReadBound> read, bool moves, const std::string &function, int64_t more, int64_t least,
                    int64_t otherwise) {
    std::string text;
    for (const ReadBound &bound : read)
      if (bound.movesWithRow == moves && bound.isOfRow == areOfRow) {
        const std::string one = keyText(scope, bound, bound.offset + more, least, keys);
        text = text.empty() ? one : function + "(" + text + ", " + one + ")";
      }
    return text.empty() ? "Index(" + std::to_string(otherwise) + ")" : text;
  };
  const std::string firstKey = joined(bounds.firsts, false, "maximum", 0, 0, 0),
                    firstOfRow = joined(bounds.firsts, true, "maximum", 0, -rows, -rows),
                    endKey = joined(bounds.lasts, false, "minimum", 1, 0, keys),
                    endOfRow = joined(bounds.lasts, true, "minimum", 1, -rows, keys);
  return firstKey + ", " + firstOfRow + ", " + endKey + ", " + endOfRow;
}

} // namespace kfuse::codegen::cuda
