#include "codegen/cuda/rows/RowPrinter.h"

#include "codegen/Ranking.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

RowPrinter::RowPrinter(const LinearGraph &graph, const RowPasses &passes, RowStorage storage, int64_t vector,
                       std::string config, llvm::ArrayRef<std::string> names, SourceWriter &writer)
    : graph(graph), passes(passes), storage(storage), vector(vector), config(std::move(config)),
      ranks(ranksComputed(graph.graph)), columnDim(graph.graph.domain.reductionDim), chunk(graph, columnDim, vector),
      loads(graph, passes, chunk, storage), names(names), writer(writer) {}

void RowPrinter::writeConfig(int64_t threads, int64_t rows, int64_t cluster, int64_t rowCount) {
  isShared = cluster > 1;
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
  if (ranks)
    return false;
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes))
    if (node.kind == ScalarNode::Kind::Apply && node.function == "div" && node.type == DType::F32 &&
        node.operands[1] == value && graph.dependsOn({static_cast<int>(id)}, columnDim))
      return true;
  return false;
}

/// What a pass needs beside what is kept, and how a chunk of it is loaded.
void RowPrinter::writeOperands(const ValuePrinter &scope, size_t pass) {
  const std::string operands = "Pass" + std::to_string(pass);
  writer.open("struct " + operands);
  chunk.declare(writer, loads.own[pass]);
  writer.close(";");
  writer.open("auto load" + operands + " = [&](" + operands + " &w, Index " + columnName() + ")");
  writeLanes();
  chunk.load(scope, loads.own[pass], "w.");
  writer.close(";");
}

/// Loads the first operands of the elements' pass while the last totals are on their way. A row in registers leaves
/// them no room, rows that are loaded anew for each pass wait for other loads anyway, and rows of 131072 that blocks
/// share took 2 to 8 % longer for the registers. Addresses may not use totals that are on their way.
void RowPrinter::writeFetch(const ValuePrinter &scope, size_t totalsOf) {
  const size_t pass = passes.reductions.size();
  if (isShared || (storage != RowStorage::Stream && storage != RowStorage::Shared) || pass >= passes.count() ||
      loads.own[pass].empty() ||
      llvm::any_of(loads.own[pass], [&](Scalar load) { return passes.passesBefore(load) > totalsOf; }))
    return;
  writeOperands(scope, pass);
  const std::string operands = "Pass" + std::to_string(pass);
  writer.line("const auto ahead = row.fetch<" + operands + ">(load" + operands + ");");
  isFetched = true;
}

/// One pass over the row; `body` prints what happens to each column.
void RowPrinter::writePass(ValuePrinter &scope, size_t pass, llvm::function_ref<void(ValuePrinter &)> body,
                           llvm::function_ref<void(ValuePrinter &)> after) {
  for (Scalar value : rowValues(graph, passes.roots(graph, pass))) {
    std::string name = scope.value(value);
    if (!dividesElements(value) || scope.hasReciprocal(value)) // From an earlier pass.
      continue;
    std::string reciprocal = "r" + std::to_string(value.id);
    writer.line("const float " + reciprocal + " = reciprocal(" + name + ");");
    scope.defineReciprocal(value, reciprocal);
  }
  if (loads.own[pass].empty()) {
    writer.open("row.forEach([&](int i, Index " + columnName() + ")");
  } else {
    const std::string operands = "Pass" + std::to_string(pass);
    std::string first = "row.fetch<" + operands + ">(load" + operands + ")";
    if (isFetched && pass == passes.reductions.size())
      first = "ahead";
    else
      writeOperands(scope, pass);
    writer.open("row.forEach(" + first + ", load" + operands + ", [&](const " + operands + " &w, int i, Index " +
                columnName() + ")");
  }
  writeLanes();
  if (!loads.kept.empty()) { // Whole: element by element, shared memory has conflicts.
    if (storage == RowStorage::Registers || isShared) {
      writer.line("const Operands x = cache[i];");
    } else {
      writer.line("Operands x;");
      chunk.read(writer, loads.kept, "x.", "cache[i].");
    }
  }
  auto prefixOf = [this](Scalar load) { return llvm::is_contained(loads.kept, load) ? "x." : "w."; };
  ValuePrinter inner = scope;
  chunk.lanes(inner, prefixOf, body);
  after(inner);
  writer.close(");");
}

void RowPrinter::writeReductions(ValuePrinter &scope, size_t pass) {
  if (passes.isOfSpreads(pass))
    return;
  std::vector<Spread> spreads;
  if (passes.isOfSpreads(pass + 1))
    llvm::copy_if(passes.spreads, std::back_inserter(spreads), [&](const Spread &spread) {
      return llvm::is_contained(passes.reductions[pass + 1], spread.reduction);
    });
  writer.line();
  writePartials(scope, pass, spreads);
  if (pass + 1 + (spreads.empty() ? 0 : 1) == passes.reductions.size())
    writeFetch(scope, pass);
  writeTotals(scope, pass, spreads);
  for (const Spread &spread : spreads)
    writeSpread(scope, pass + 1, spread);
}

static bool hasSpread(llvm::ArrayRef<Spread> spreads, Scalar reduction) {
  return llvm::any_of(spreads, [&](const Spread &spread) { return spread.sum == reduction; });
}

/// A thread's part of a pass's reductions, with sums of squares beside those that spreads are of.
void RowPrinter::writePartials(ValuePrinter &scope, size_t pass, llvm::ArrayRef<Spread> spreads) {
  auto partial = [&](Scalar reduction, llvm::StringRef name) {
    writer.line("Partial<" + reductionTypeName(graph[reduction].function) + ", " + valueType(graph[reduction].type) +
                ", " + llvm::Twine(vector) + "> " + name + llvm::Twine(reduction.id) + ";");
  };
  for (Scalar reduction : passes.reductions[pass]) {
    partial(reduction, "a");
    if (hasSpread(spreads, reduction))
      partial(reduction, "squares");
  }
  auto accumulate = [&](ValuePrinter &lane) {
    for (Scalar reduction : passes.reductions[pass]) {
      std::string value = lane.value(graph[reduction].operands[0]), number = std::to_string(reduction.id);
      std::string when = chunk.isPartial() ? "if (j < lanes) " : "";
      writer.line(when + "a" + number + ".add(j, " + value + ");");
      if (hasSpread(spreads, reduction))
        writer.line(when + "squares" + number + ".add(j, " + value + " * " + value + ");");
    }
  };
  writePass(scope, pass, accumulate, [](const ValuePrinter &) {});
}

/// The totals of what writePartials has left.
void RowPrinter::writeTotals(ValuePrinter &scope, size_t pass, llvm::ArrayRef<Spread> spreads) {
  for (Scalar reduction : passes.reductions[pass]) {
    std::string number = std::to_string(reduction.id), type = valueType(graph[reduction].type).str();
    if (hasSpread(spreads, reduction)) {
      writer.line("const Moments m" + number + " = row.reduce<" + number + ">(a" + number + ", squares" + number +
                  ");");
      writer.line("const float v" + number + " = m" + number + ".sum; // reduce sum");
    } else {
      writer.line("const " + type + " v" + number + " = row.reduce<" + number + ">(a" + number + "); // reduce " +
                  graph[reduction].function);
    }
    scope.define(reduction, "v" + number);
  }
}

/// A spread from the moments; over again from the differences, where the mean is so large that the squares' rounding
/// errors would count: with sum(value^2) four times the spread, they are four times those of the sum over differences.
void RowPrinter::writeSpread(ValuePrinter &scope, size_t pass, const Spread &spread) {
  const std::string mean = scope.value(spread.mean), number = std::to_string(spread.reduction.id),
                    moments = "m" + std::to_string(spread.sum.id), name = "spread" + number, isTold = "isTold" + number;
  writer.line("float " + name + " = " + moments + ".squares - " + mean + " * " + moments + ".sum;");
  writer.line("const bool " + isTold + " = " + moments + ".squares <= 4 * " + name + "; // Not where that is NaN.");
  writer.open("if (row.any(!" + isTold + "))");
  ValuePrinter inner = scope;
  writePartials(inner, pass, {});
  writeTotals(inner, pass, {});
  writer.line("if (!" + isTold + ") " + name + " = v" + number + ";");
  writer.close();
  scope.define(spread.reduction, name);
}

void RowPrinter::writeElements(ValuePrinter &scope, llvm::function_ref<void(ValuePrinter &)> after) {
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
