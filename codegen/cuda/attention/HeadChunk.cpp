#include "codegen/cuda/attention/HeadChunk.h"

#include "codegen/cuda/attention/AttentionForms.h"
#include "codegen/cuda/rows/RowPasses.h"
#include "codegen/cuda/text/Kernel.h"

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

/// Why `root`, an element of a row along `dim`, is not computed with what it needs of the whole row, or "".
std::string whyNotRow(const LinearGraph &graph, Scalar root, unsigned dim, const std::string &what) {
  const std::vector<Scalar> reductions = reductionsOf(graph, root);
  if (!reductions.empty() && graph.graph.domain.reductionDim != static_cast<int>(dim))
    return what + " take a reduction over another dimension than a head's elements";
  std::vector<Scalar> symbols(graph.graph.outputs[0].symbols.begin(), graph.graph.outputs[0].symbols.end());
  for (const ScalarNode &node : graph.graph.nodes)
    llvm::append_range(symbols, node.symbols);
  if (undefinedIn(graph, symbols))
    return what + " lie where a reduction says, which is a kernel before it";
  for (Scalar reduction : reductions)
    if (reductionTypeName(graph[reduction].function).empty())
      return "no CUDA text for the reduction '" + graph[reduction].function + "'";
  return "";
}

HeadChunk::HeadChunk(SourceWriter &writer, const LinearGraph &graph, unsigned dim, Scalar root, std::string what,
                     const std::string &index)
    : writer(writer), graph(graph), root(root), what(std::move(what)),
      parameters(this->what + "Operands &x, " + index + ", int d"), chunk(graph, dim, 8), all(chunk.loadsOf(root)),
      reductions(reductionsOf(graph, root)) {}

void HeadChunk::writeOperands(const std::string &more) {
  writer.open("struct " + what + "Operands" + (reductions.empty() ? "" : " : OfWholeRow"));
  chunk.declare(writer, all);
  if (!more.empty())
    writer.line(more);
  writer.close(";");
}

void HeadChunk::writeLoad(const std::string &name, ArrayRef<Scalar> loads, MakeScope makeScope,
                          llvm::function_ref<void(ValuePrinter &)> first) {
  writer.open("__device__ __forceinline__ void " + name + "(" + parameters + ") const");
  ValuePrinter scope = makeScope();
  first(scope);
  chunk.load(scope, loads, "x.");
  writer.close();
}

void HeadChunk::writeMake(ArrayRef<Scalar> loads, MakeScope makeScope) {
  const bool needsRow = !reductions.empty();
  writer.open((needsRow ? "template <class Lanes> " : "") + std::string("__device__ __forceinline__ void make") + what +
              "(Config::Element *to, " + parameters + (needsRow ? ", Lanes lanes" : "") + ") const");
  ValuePrinter scope = makeScope();
  chunk.load(scope, loads, "x.");
  writeTotals(scope);
  writer.line("Vector<" + valueType(graph[root].type) + ", 8> y0;");
  chunk.lanes(
      scope, [](Scalar) { return "x."; },
      [&](ValuePrinter &lane) {
        std::string value = lane.value(root);
        writer.line("y0[j] = " + value + ";");
      });
  writer.line(std::string(needsRow ? "if (lanes.exists) " : "") + "storeVector<8, 8>(to, y0);");
  writer.close();
}

/// Reductions over a head, one after the other, and what the root and they need of them once for all eight values.
void HeadChunk::writeTotals(ValuePrinter &scope) {
  if (reductions.empty())
    return;
  scope.readLoadsBy([&](Scalar load) { return "decode(" + chunk.element(load, "x.") + ")"; });
  auto writeRowValues = [&](Scalar of) {
    for (Scalar value : rowValues(graph, of, reductions))
      if (!reductionsOf(graph, value).empty())
        scope.value(value);
  };
  for (Scalar reduction : reductions) {
    const std::string number = std::to_string(reduction.id), type = valueType(graph[reduction].type).str();
    const Scalar element = graph[reduction].operands[0];
    writeRowValues(element);
    writer.line("Partial<" + reductionTypeName(graph[reduction].function) + ", " + type + ", 8> a" + number + ";");
    chunk.lanes(
        scope, [](Scalar) { return "x."; },
        [&](ValuePrinter &lane) {
          std::string value = lane.value(element);
          writer.line("a" + number + ".add(j, " + value + ");");
        });
    writer.line("const " + type + " v" + number + " = lanes.total(a" + number + "); // reduce " +
                graph[reduction].function);
    scope.define(reduction, "v" + number);
  }
  writeRowValues(root);
}

} // namespace kfuse::codegen::cuda
