#include "codegen/cuda/RowPrinter.h"

#include "codegen/cuda/Kernel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

RowPrinter::RowPrinter(const LinearGraph &graph, const RowPasses &passes, RowStorage storage, int64_t vector,
                       std::string config, llvm::ArrayRef<std::string> names, SourceWriter &writer)
    : graph(graph), passes(passes), storage(storage), vector(vector), config(std::move(config)),
      columnDim(graph.graph.domain.reductionDim), chunk(graph, columnDim, vector), loads(graph, passes, chunk, storage),
      names(names), writer(writer) {}

void RowPrinter::writeConfig(int64_t threads, int64_t rows, int64_t cluster, int64_t rowCount) {
  const int64_t columns = graph.extents()[columnDim], chunks = ceilDiv(columns, cluster * threads * vector);
  writer.open("struct " + config);
  writer.line("using Index = ::Index;");
  writer.line("static constexpr int threads = " + llvm::Twine(threads) + ", rows = " + llvm::Twine(rows) +
              ", vector = " + llvm::Twine(vector) + "; // Threads of a row, rows of a block, columns of a chunk.");
  writer.line("static constexpr int cluster = " + llvm::Twine(cluster) + "; // Blocks of a row.");
  writer.line("static constexpr int unroll = " + llvm::Twine(std::min(chunks, chunksInFlight)) +
              "; // Chunks in flight.");
  writer.line(llvm::Twine("static constexpr bool unrollAll = ") +
              (storage == RowStorage::Registers ? "true" : "false") +
              ", stream = " + (storage == RowStorage::Stream ? "true;" : "false;"));
  writer.line("static constexpr Index rowCount = " + llvm::Twine(rowCount) + ", columns = " + llvm::Twine(columns) +
              ";");
  writer.close(";");
  writer.line();
}

void RowPrinter::writeLanes() {
  if (chunk.isPartial())
    writer.line("const int lanes = row.lanes(" + columnName() + ");");
}

void RowPrinter::declareKept() {
  chunk.declare(writer, loads.kept);
  writer.close(";");
  writer.line("static_assert(sizeof(Operands) == " + llvm::Twine(chunk.bytesOf(loads.kept)) + ");");
}

void RowPrinter::writeCache(const ValuePrinter &scope) {
  if (loads.kept.empty())
    return;
  writer.line();
  writer.open("struct Operands");
  declareKept();
  writer.line((storage == RowStorage::Shared ? "SharedCache" : "RegisterCache") + llvm::Twine("<") + config +
              ", Operands> cache;");
  writer.open("row.fill(cache, [&](Operands &x, Index " + columnName() + ")");
  writeLanes();
  chunk.load(scope, loads.kept, "x.");
  writer.close(");");
}

/// Whether elements are divided by `value`: once inverted, that is one multiplication for each.
bool RowPrinter::dividesElements(Scalar value) const {
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes))
    if (node.kind == ScalarNode::Kind::Apply && node.function == "div" && node.type == DType::F32 &&
        node.operands[1] == value && graph.dependsOn({static_cast<int>(id)}, columnDim))
      return true;
  return false;
}

/// One pass over the row; `body` prints what happens to each column.
void RowPrinter::writePass(ValuePrinter &scope, size_t pass, llvm::function_ref<void(ValuePrinter &)> body,
                           llvm::function_ref<void(const ValuePrinter &)> after) {
  for (Scalar value : rowValues(graph, passes.roots(graph, pass))) {
    std::string name = scope.value(value);
    if (!dividesElements(value) || scope.hasReciprocal(value)) // From an earlier pass.
      continue;
    std::string reciprocal = "r" + std::to_string(value.id);
    writer.line("const float " + reciprocal + " = reciprocal(" + name + ");");
    scope.defineReciprocal(value, reciprocal);
  }
  std::string operands = "Pass" + std::to_string(pass);
  if (loads.own[pass].empty()) {
    writer.open("row.forEach([&](int i, Index " + columnName() + ")");
  } else {
    writer.open("struct " + operands);
    chunk.declare(writer, loads.own[pass]);
    writer.close(";");
    writer.open("auto load" + operands + " = [&](" + operands + " &w, Index " + columnName() + ")");
    writeLanes();
    chunk.load(scope, loads.own[pass], "w.");
    writer.close(";");
    writer.open("row.forEach<" + operands + ">(load" + operands + ", [&](const " + operands + " &w, int i, Index " +
                columnName() + ")");
  }
  writeLanes();
  if (!loads.kept.empty())
    writer.line("const Operands x = cache[i];"); // Whole: element by element, shared memory has conflicts.
  auto prefixOf = [this](Scalar load) { return llvm::is_contained(loads.kept, load) ? "x." : "w."; };
  ValuePrinter inner = scope;
  chunk.lanes(inner, prefixOf, body);
  after(inner);
  writer.close(");");
}

void RowPrinter::writeReductions(ValuePrinter &scope, size_t pass) {
  writer.line();
  for (Scalar reduction : passes.reductions[pass])
    writer.line("Partial<" + operationName(graph[reduction].function) + ", " + valueType(graph[reduction].type) + ", " +
                llvm::Twine(vector) + "> a" + llvm::Twine(reduction.id) + ";");
  auto accumulate = [&](ValuePrinter &lane) {
    for (Scalar reduction : passes.reductions[pass]) {
      std::string value = lane.value(graph[reduction].operands[0]);
      writer.line((chunk.isPartial() ? "if (j < lanes) a" : "a") + llvm::Twine(reduction.id) + ".add(j, " + value +
                  ");");
    }
  };
  writePass(scope, pass, accumulate, [](const ValuePrinter &) {});
  for (Scalar reduction : passes.reductions[pass]) {
    std::string number = std::to_string(reduction.id);
    writer.line("const " + valueType(graph[reduction].type) + " v" + number + " = row.reduce<" + number + ">(a" +
                number + "); // reduce " + graph[reduction].function);
    scope.define(reduction, "v" + number);
  }
}

void RowPrinter::writeElements(ValuePrinter &scope, llvm::function_ref<void(const ValuePrinter &)> after) {
  writer.line();
  auto compute = [&](ValuePrinter &lane) {
    for (unsigned i : passes.elementOutputs) {
      std::string value = lane.value(graph.graph.outputs[i].value);
      writer.line("y" + llvm::Twine(i) + "[j] = " + value + ";");
    }
  };
  for (unsigned i : passes.elementOutputs)
    writer.line("Vector<" + valueType(graph[graph.graph.outputs[i].value].type) + ", " + llvm::Twine(vector) + "> y" +
                llvm::Twine(i) + ";");
  writePass(scope, passes.reductions.size(), compute, after);
}

} // namespace kfuse::codegen::cuda
