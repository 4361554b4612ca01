#include "codegen/cuda/matmul/RowEpilogue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

static std::string numbered(const char *name, size_t number) { return name + std::to_string(number); }

RowEpilogue::RowEpilogue(const MatmulProblem &problem, int64_t vector)
    : graph(problem.graph), product(problem.products.front()), vector(vector), chunk(graph, problem.dimN, vector) {
  for (const std::vector<Scalar> &pass : RowPasses(graph).reductions)
    llvm::append_range(reductions, pass);
  for (const ir::ScalarOutput &output : graph.graph.outputs)
    results.push_back(output.value);
  stages = findStages();
  kept = lastBeforeReductions();
  ofRow = reductions;
  for (Scalar value : rowValues(graph, allRoots(), {kept}))
    if (!llvm::is_contained(ofRow, value))
      ofRow.push_back(value);
}

std::string RowEpilogue::refusal() const {
  for (Scalar reduction : reductions)
    if (reductionTypeName(graph[reduction].function).empty() || graph[reduction].type != DType::F32)
      return "no CUDA text for the reduction '" + graph[reduction].function + "' of a product's rows";
  if (!RowPasses(graph).rowOutputs.empty())
    return "writes a value for each row of a product";
  return "";
}

std::vector<Scalar> RowEpilogue::allRoots() const {
  std::vector<Scalar> roots = results;
  for (Scalar reduction : reductions)
    llvm::append_range(roots, rootsOf(reduction));
  return roots;
}

/// Whether `roots` use the product other than through `without` and through reductions.
bool RowEpilogue::readsProduct(ArrayRef<Scalar> roots, Scalar without) const {
  std::vector<bool> seen(graph.graph.nodes.size());
  auto visit = [&](auto &self, Scalar s) -> bool {
    if (s == without || seen[s.id] || graph[s].kind == ScalarNode::Kind::Reduce)
      return false;
    seen[s.id] = true;
    return s == product || llvm::any_of(graph[s].operands, [&](Scalar operand) { return self(self, operand); });
  };
  return llvm::any_of(roots, [&](Scalar root) { return visit(visit, root); });
}

/// The product itself, or the last value that all steps may begin with instead.
Scalar RowEpilogue::lastBeforeReductions() const {
  const std::vector<Scalar> roots = allRoots();
  for (int id = static_cast<int>(graph.graph.nodes.size()) - 1; id > product.id; --id) {
    const Scalar candidate{id};
    if (graph[candidate].type == DType::F32 && stages[id] == 0 && readsProduct({candidate}, {}) &&
        !readsProduct(roots, candidate))
      return candidate;
  }
  return product;
}

/// How many reductions come before each node's value is known.
std::vector<size_t> RowEpilogue::findStages() const {
  std::vector<size_t> stages(graph.graph.nodes.size());
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes)) {
    if (node.kind == ScalarNode::Kind::Contract)
      continue;
    for (ArrayRef<Scalar> used : {ArrayRef<Scalar>(node.operands), ArrayRef<Scalar>(node.symbols)})
      for (Scalar s : used)
        stages[id] = std::max(stages[id], stages[s.id]);
    if (node.kind == ScalarNode::Kind::Reduce)
      stages[id] = llvm::find(reductions, Scalar{static_cast<int>(id)}) - reductions.begin() + 1;
  }
  return stages;
}

//===- Source --------------------------------------------------------------------------------===//

static const char *const place = "Index batch, Index m, Index n, int lanes) const";

void RowEpilogue::write(MatmulPrinter &printer, const TmaResult *result) const {
  SourceWriter &writer = printer.out();
  std::vector<Step> steps{{"Element::Operands", {kept}, false}};
  writer.open("struct Epilogue");
  writer.line("using Index = ::Index;");
  writer.line("using Result = " + storedType(graph.graph.outputs.front().type) + ";");
  for (const std::string &member : bufferMembers(graph, printer.epilogueLoads()))
    writer.line(member);
  writer.line();
  auto declareOperands = [&](const Step &step) {
    writer.open("struct Operands");
    chunk.declare(writer, loadsOf(step));
    writer.close(";");
  };
  writer.open("struct Element");
  declareOperands(steps.front());
  writer.close(";");
  for (auto [i, reduction] : llvm::enumerate(reductions)) {
    const std::string name = numbered("Reduction", i);
    steps.push_back({name + "::Operands", rootsOf(reduction), true});
    writer.open("struct " + name);
    writer.line("using Operation = " + reductionTypeName(graph[reduction].function) + ";");
    declareOperands(steps.back());
    writer.close(";");
  }
  steps.push_back({"Operands", results, true});
  declareOperands(steps.back());
  SmallVector<std::string> names;
  for (size_t i = 0; i < reductions.size(); ++i)
    names.push_back(numbered("Reduction", i));
  writer.line("using Reductions = Steps<" + llvm::join(names, ", ") + ">;");

  writeRowValues(printer);
  for (const Step &step : steps) {
    writeLoads(printer, step);
    writeCompute(printer, step, !result && step.operands == "Operands");
  }
  if (result)
    printer.writeBatch("resultBatch", result->written.batch);
  writer.close(";");
  writer.line();
}

/// `struct Row`, and what fills it before and after each reduction.
void RowEpilogue::writeRowValues(MatmulPrinter &printer) const {
  SourceWriter &writer = printer.out();
  writer.open("struct Row");
  for (Scalar value : ofRow)
    writer.line(valueType(graph[value].type) + " v" + Twine(value.id) + ";");
  writer.close(";");
  for (size_t stage = 0; stage <= reductions.size(); ++stage)
    writeAt(printer, stage);
}

void RowEpilogue::writeAt(MatmulPrinter &printer, size_t stage) const {
  SourceWriter &writer = printer.out();
  const std::string what =
      stage == 0 ? "begin(Row &row" : "end(" + numbered("Reduction", stage - 1) + ", Row &row, float total";
  writer.open("__device__ __forceinline__ void " + what + ", Index batch, Index m) const");
  printer.writeBatchSplit();
  ValuePrinter scope(graph, writer, printer.names());
  for (Scalar value : ofRow)
    if (stages[value.id] < stage)
      scope.define(value, "row.v" + std::to_string(value.id));
  if (stage > 0)
    scope.define(reductions[stage - 1], "total");
  for (Scalar value : ofRow)
    if (stages[value.id] == stage) {
      std::string text = scope.value(value);
      writer.line("row.v" + Twine(value.id) + " = " + text + ";");
    }
  writer.close();
}

std::vector<Scalar> RowEpilogue::loadsOf(const Step &step) const {
  std::vector<Scalar> given{step.knowsRow ? kept : product};
  if (step.knowsRow)
    llvm::append_range(given, ofRow);
  return chunk.loadsOf(step.roots, given);
}

void RowEpilogue::writeLoads(MatmulPrinter &printer, const Step &step) const {
  SourceWriter &writer = printer.out();
  writer.open("__device__ __forceinline__ void load(" + step.operands + " &x, " + place);
  printer.writeBatchSplit();
  chunk.load({graph, writer, printer.names()}, loadsOf(step), "x.");
  writer.close();
}

/// From what stays of a chunk's accumulators, or at first the accumulators themselves, to the step's roots.
void RowEpilogue::writeCompute(MatmulPrinter &printer, const Step &step, bool stores) const {
  SourceWriter &writer = printer.out();
  const std::string floats = "Vector<float, " + std::to_string(vector) + ">";
  writer.open("__device__ __forceinline__ " + (stores ? "void apply" : floats + " compute") + "(const " +
              step.operands + " &x, " + (step.knowsRow ? "const Row &row, " : "") + "const " + floats + " &acc, " +
              place);
  printer.writeBatchSplit();
  for (auto [i, root] : llvm::enumerate(step.roots))
    writer.line("Vector<" + valueType(graph[root].type) + ", " + Twine(vector) + "> y" + Twine(i) + ";");
  ValuePrinter scope(graph, writer, printer.names());
  scope.define(step.knowsRow ? kept : product, "acc[j]");
  if (step.knowsRow)
    for (Scalar value : ofRow)
      scope.define(value, "row.v" + std::to_string(value.id));
  chunk.lanes(
      scope, [](Scalar) { return "x."; },
      [&](ValuePrinter &lane) {
        for (auto [i, root] : llvm::enumerate(step.roots)) {
          std::string value = lane.value(root);
          writer.line("y" + Twine(i) + "[j] = " + value + ";");
        }
      });
  if (!stores)
    writer.line("return y0;");
  ValuePrinter ends(graph, writer, printer.names());
  for (unsigned i = 0; stores && i < step.roots.size(); ++i)
    chunk.store(ends, i);
  writer.close();
}

} // namespace kfuse::codegen::cuda
