#include "codegen/cuda/matmul/ComputedRows.h"

#include "codegen/cuda/rows/RowPrinter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Scalar;

constexpr int64_t mostBytes = 64 << 10; ///< The most shared memory, so that several blocks share an SM.
constexpr int64_t mostChunksKept = 2;   ///< In registers, beside the weights under way.
constexpr int64_t accessBytes = 16;

bool ComputedRows::isIn(const MatmulProblem &problem) {
  const ir::ScalarGraph &graph = problem.graph.graph;
  if (graph.domain.reductionDim != static_cast<int>(problem.dimK))
    return false;
  // An epilogue of square weights may read the rows, too; there they are not defined.
  std::vector<bool> needsReduction;
  for (const ir::ScalarNode &node : graph.nodes) {
    auto needs = [&](Scalar s) { return needsReduction[s.id]; };
    needsReduction.push_back(node.kind == ir::ScalarNode::Kind::Reduce ||
                             (node.kind != ir::ScalarNode::Kind::Contract &&
                              (llvm::any_of(node.operands, needs) || llvm::any_of(node.symbols, needs))));
  }
  return llvm::none_of(graph.outputs, [&](const ir::ScalarOutput &output) { return needsReduction[output.value.id]; });
}

int64_t ComputedRows::bytes(const MatmulProblem &problem) {
  return problem.M * problem.K * static_cast<int64_t>(byteWidth(problem.elementType(1)));
}

/// The region with its left operand stored along K.
static LinearGraph rowsOf(const MatmulProblem &problem) {
  LinearGraph rows = problem.graph;
  ir::ScalarOutput operand;
  operand.value = problem.operand(0);
  operand.type = problem.elementType(1);
  operand.shape = {problem.K};
  MLIRContext *context = rows.graph.outputs.front().map.getContext();
  operand.map = AffineMap::get(rows.graph.domain.rank(), 0, getAffineDimExpr(problem.dimK, context));
  rows.graph.outputs = {operand};
  rows.storeGuards = {{}};
  return rows;
}

ComputedRows::ComputedRows(const MatmulProblem &problem) : problem(problem), graph(rowsOf(problem)), passes(graph) {}

std::string ComputedRows::refusal() const {
  const auto width = accessBytes / static_cast<int64_t>(byteWidth(problem.elementType(1)));
  if (!problem.graph.dependsOn(problem.operand(0), problem.dimK) || problem.K % width != 0)
    return "the left operand is not computed in pieces of 16 bytes along K";
  if (isFloat8(problem.elementType(1)))
    return "the left operand is computed and would be rounded to the weights' 8 bits";
  if (bytes(problem) > mostBytes)
    return "the left operand's rows, " + std::to_string(bytes(problem)) +
           " bytes, are too long to compute in each block";
  for (const std::vector<Scalar> &pass : passes.reductions)
    for (Scalar reduction : pass)
      if (reductionTypeName(graph[reduction].function).empty())
        return "no CUDA text for the reduction '" + graph[reduction].function + "'";
  return "";
}

int64_t ComputedRows::reductionCount() const {
  int64_t count = 0;
  for (const std::vector<Scalar> &pass : passes.reductions)
    count += static_cast<int64_t>(pass.size());
  return count;
}

std::string ComputedRows::write(MatmulPrinter &printer, const std::string &name, int64_t threads) const {
  SourceWriter &writer = printer.out();
  const std::string type = storedType(problem.elementType(1)).str(), config = name + "Config";
  const auto width = accessBytes / static_cast<int64_t>(byteWidth(problem.elementType(1)));
  const bool isShort = problem.K <= mostChunksKept * threads * width;
  RowPrinter row(graph, passes, isShort ? RowStorage::Registers : RowStorage::Reload, width, config, printer.names(),
                 writer);
  row.writeConfig(threads, 1, 1, problem.M);
  SmallVector<std::string> inputs;
  writer.open("struct " + name);
  for (unsigned input : inputsRead(graph, {problem.operand(0)})) {
    inputs.push_back("in" + std::to_string(input));
    writer.line("const " + storedType(graph.graph.inputs[input].type) + " *" + inputs.back() + ";");
  }
  writer.line();
  writer.open("__device__ __forceinline__ void row(" + type + " *out0, Index batch, Index m) const");
  printer.writeBatchSplit();
  writer.line("Row<" + config + "> row;");
  ValuePrinter scope(graph, writer, printer.names());
  row.writeCache(scope);
  for (size_t pass = 0; pass < passes.reductions.size(); ++pass)
    row.writeReductions(scope, pass);
  row.writeElements(scope, [&](ValuePrinter &inner) { row.chunks().store(inner, 0); });
  writer.close();
  writer.close(";");
  writer.line();
  return name + "{" + llvm::join(inputs, ", ") + "}";
}

} // namespace kfuse::codegen::cuda
