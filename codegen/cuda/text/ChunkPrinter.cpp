#include "codegen/cuda/text/ChunkPrinter.h"

#include "codegen/cuda/text/LaneForm.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Guard;
using ir::Scalar;
using ir::ScalarNode;

ChunkPrinter::ChunkPrinter(const LinearGraph &graph, unsigned dim, int64_t vector)
    : graph(graph), dim(dim), vector(vector), partial(graph.extents()[dim] % vector != 0) {}

std::vector<Scalar> ChunkPrinter::loadsOf(ArrayRef<Scalar> roots, ArrayRef<Scalar> given) const {
  std::vector<bool> needed(graph.graph.nodes.size());
  for (Scalar root : roots)
    needed[root.id] = true;
  std::vector<Scalar> loads;
  for (int id = static_cast<int>(needed.size()) - 1; id >= 0; --id) { // Users before what they use.
    const ScalarNode &node = graph[{id}];
    if (!needed[id] || llvm::is_contained(given, Scalar{id}))
      continue;
    if (node.kind == ScalarNode::Kind::Load)
      loads.push_back({id});
    for (Scalar operand : node.operands)
      needed[operand.id] = true;
    if (node.kind == ScalarNode::Kind::Index)
      for (Scalar symbol : node.symbols)
        needed[symbol.id] = true;
  }
  return {loads.rbegin(), loads.rend()};
}

ChunkPrinter::Access ChunkPrinter::access(AffineExpr offset, ArrayRef<Guard> guards, ArrayRef<Scalar> symbols) const {
  auto formOf = [&](AffineExpr expr) {
    return laneForm(expr, dim, vector, [&](unsigned symbol) { return !graph.dependsOn(symbols[symbol], dim); });
  };
  for (const Guard &guard : guards) {
    std::optional<LaneForm> form = formOf(guard.index);
    bool holdsForAllOrNone = form && (form->stride == 0 || (form->stride == 1 && form->divisor % vector == 0 &&
                                                            guard.low % vector == 0 && guard.high % vector == 0));
    if (!holdsForAllOrNone)
      return {Access::Kind::Gather};
  }
  std::optional<LaneForm> form = formOf(offset);
  if (form && form->stride == 0)
    return {Access::Kind::Uniform};
  if (form && form->stride == 1)
    return {Access::Kind::Vector, form->alignment(vector)};
  return {Access::Kind::Gather};
}

ChunkPrinter::Access ChunkPrinter::access(Scalar load) const {
  const ScalarNode &node = graph[load];
  return access(node.map.getResult(0), node.guards, node.symbols);
}

double ChunkPrinter::sectorWaste(const ScalarNode &load, int64_t neighbours) const {
  if (access(load.map.getResult(0), load.guards, load.symbols).kind != Access::Kind::Gather)
    return 1;
  auto width = static_cast<int64_t>(byteWidth(graph.graph.inputs[load.input].type));
  return static_cast<double>(std::max<int64_t>(1, 32 / (width * std::min<int64_t>(neighbours, 32))));
}

int64_t ChunkPrinter::vectorAlignment(Scalar load) const {
  Access how = access(load);
  return how.kind == Access::Kind::Vector ? how.alignment : 0;
}

int64_t ChunkPrinter::storeAlignment(unsigned number) const {
  const ir::ScalarOutput &output = graph.graph.outputs[number];
  Access how = access(output.map.getResult(0), graph.storeGuards[number], output.symbols);
  return how.kind == Access::Kind::Vector ? how.alignment : 0;
}

bool ChunkPrinter::storesWholeVectors() const {
  return llvm::all_of(llvm::seq<unsigned>(0, graph.graph.outputs.size()),
                      [&](unsigned number) { return storeAlignment(number) == vector; });
}

std::string ChunkPrinter::element(Scalar load, StringRef prefix) const {
  bool isUniform = access(load).kind == Access::Kind::Uniform;
  return prefix.str() + "v" + std::to_string(load.id) + (isUniform ? "" : "[j]");
}

/// Template arguments and count of a vector access.
std::string ChunkPrinter::vectorArguments(int64_t alignment, StringRef more) const {
  return "<" + std::to_string(vector) + ", " + std::to_string(alignment) + more.str() + ">";
}

std::string ChunkPrinter::laneName(const ValuePrinter &scope) const {
  return ("(" + scope.dimName(dim) + " + j)").str();
}

void ChunkPrinter::forEachLane(SourceWriter &writer, llvm::function_ref<void()> body) const {
  writer.line("#pragma unroll");
  writer.open("for (int j = 0; j < " + Twine(vector) + "; ++j)");
  body();
  writer.close();
}

void ChunkPrinter::declare(SourceWriter &writer, ArrayRef<Scalar> loads) const {
  for (Scalar load : loads) {
    std::string type = storedType(graph.graph.inputs[graph[load].input].type).str();
    if (access(load).kind != Access::Kind::Uniform)
      type = "Vector<" + type + ", " + std::to_string(vector) + ">";
    writer.line(type + " v" + Twine(load.id) + ";");
  }
}

int64_t ChunkPrinter::bytesOf(ArrayRef<Scalar> loads) const {
  int64_t bytes = 0, widest = 1;
  for (Scalar load : loads) {
    int64_t size = byteWidth(graph.graph.inputs[graph[load].input].type);
    if (access(load).kind != Access::Kind::Uniform)
      size *= vector;
    // The largest power of two that divides it, as vectorAlignment in device/base/types.cuh has it.
    int64_t alignment = std::min<int64_t>(size & -size, 16);
    bytes = llvm::alignTo(bytes, alignment) + size;
    widest = std::max(widest, alignment);
  }
  return llvm::alignTo(bytes, widest);
}

void ChunkPrinter::load(ValuePrinter scope, ArrayRef<Scalar> loads, StringRef prefix, Use use) const {
  for (Scalar load : loads) {
    const ScalarNode &node = graph[load];
    std::string variable = prefix.str() + "v" + std::to_string(load.id), input = "in" + std::to_string(node.input);
    Access how = access(load);
    if (how.kind == Access::Kind::Gather) {
      gather(scope, load, variable);
      continue;
    }
    std::string where = scope.offset(node.map.getResult(0), node.symbols);
    std::string element = how.kind == Access::Kind::Uniform
                              ? input + "[" + where + "]"
                              : "loadVector" + vectorArguments(how.alignment, use == Use::Moved ? ", true" : "") + "(" +
                                    input + " + (" + where + ")" + (partial ? ", lanes" : "") + ")";
    std::string when = scope.condition(node.guards, node.symbols);
    scope.out().line(variable + " = " +
                     (when.empty() ? element : when + " ? " + element + " : decltype(" + variable + "){}") + ";");
  }
}

void ChunkPrinter::read(SourceWriter &writer, ArrayRef<Scalar> loads, StringRef prefix, StringRef fromPrefix) const {
  for (Scalar load : loads) {
    std::string variable = "v" + std::to_string(load.id), from = fromPrefix.str() + variable;
    bool isVector = access(load).kind != Access::Kind::Uniform;
    writer.line(prefix + variable + " = " +
                (isVector ? "loadVector" + vectorArguments(vector) + "(" + from + ".elements)" : from) + ";");
  }
}

bool ChunkPrinter::canCopy(Scalar load) const {
  const ScalarNode &node = graph[load];
  int64_t bytes = vector * static_cast<int64_t>(byteWidth(graph.graph.inputs[node.input].type));
  return !partial && node.guards.empty() && vectorAlignment(load) == vector &&
         (bytes == 4 || bytes == 8 || bytes == 16);
}

void ChunkPrinter::startCopies(ValuePrinter scope, ArrayRef<Scalar> loads, StringRef prefix) const {
  for (Scalar load : loads) {
    const ScalarNode &node = graph[load];
    std::string where = scope.offset(node.map.getResult(0), node.symbols);
    scope.out().line("startVector(" + prefix + "v" + Twine(load.id) + ", in" + Twine(node.input) + " + (" + where +
                     "));");
  }
}

void ChunkPrinter::gather(const ValuePrinter &scope, Scalar load, StringRef variable) const {
  const ScalarNode &node = graph[load];
  ValuePrinter lane = scope.within(dim, laneName(scope));
  forEachLane(lane.out(), [&] {
    std::string where = lane.offset(node.map.getResult(0), node.symbols);
    std::string when = lane.condition(node.guards, node.symbols);
    if (partial)
      when = "j < lanes" + (when.empty() ? "" : " && " + when);
    std::string element = "in" + std::to_string(node.input) + "[" + where + "]";
    const DType type = graph.graph.inputs[node.input].type;
    std::string zero = isFloat(type) ? storedType(type).str() + "{}" : integerText(0, type);
    lane.out().line(variable + "[j] = " + (when.empty() ? element : when + " ? " + element + " : " + zero) + ";");
  });
}

void ChunkPrinter::lanes(const ValuePrinter &scope, std::function<std::string(Scalar)> prefixOf,
                         llvm::function_ref<void(ValuePrinter &)> body) const {
  ValuePrinter lane = scope.within(dim, laneName(scope));
  lane.readLoadsBy(
      [this, prefixOf = std::move(prefixOf)](Scalar load) { return "decode(" + element(load, prefixOf(load)) + ")"; });
  forEachLane(lane.out(), [&] { body(lane); });
}

void ChunkPrinter::store(ValuePrinter &scope, unsigned number) const {
  const ir::ScalarOutput &output = graph.graph.outputs[number];
  ArrayRef<Guard> guards = graph.storeGuards[number];
  std::string out = "out" + std::to_string(number), y = "y" + std::to_string(number);
  Access how = access(output.map.getResult(0), guards, output.symbols);
  if (how.kind == Access::Kind::Vector) {
    std::string where = scope.offset(output.map.getResult(0), output.symbols);
    std::string when = scope.condition(guards, output.symbols);
    scope.out().line((when.empty() ? "" : "if (" + when + ") ") + "storeVector" + vectorArguments(how.alignment) + "(" +
                     out + " + (" + where + "), " + y + (partial ? ", lanes" : "") + ");");
    return;
  }
  ValuePrinter lane = scope.within(dim, laneName(scope));
  forEachLane(lane.out(), [&] {
    std::string where = lane.offset(output.map.getResult(0), output.symbols);
    std::string when = lane.condition(guards, output.symbols);
    if (partial)
      when = "j < lanes" + (when.empty() ? "" : " && " + when);
    lane.out().line((when.empty() ? "" : "if (" + when + ") ") + "encode(" + out + "[" + where + "], " + y + "[j]);");
  });
}

void ChunkPrinter::storeResults(ValuePrinter scope, ArrayRef<Scalar> results, ArrayRef<Scalar> loads) const {
  SourceWriter &writer = scope.out();
  if (!loads.empty()) {
    writer.open("struct Extras");
    declare(writer, loads);
    writer.close(" w;");
    load(scope, loads, "w.");
  }
  for (auto [i, value] : llvm::enumerate(results))
    writer.line("Vector<" + valueType(graph[value].type) + ", " + Twine(vector) + "> y" + Twine(i) + ";");
  lanes(
      scope, [](Scalar) { return "w."; },
      [&](ValuePrinter &lane) {
        for (auto [i, value] : llvm::enumerate(results)) {
          const std::string text = lane.value(value);
          writer.line("y" + Twine(i) + "[j] = " + text + ";");
        }
      });
  for (unsigned i = 0; i < results.size(); ++i)
    store(scope, i);
}

} // namespace kfuse::codegen::cuda
