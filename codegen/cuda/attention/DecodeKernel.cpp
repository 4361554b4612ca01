#include "codegen/cuda/attention/DecodeKernel.h"

#include "codegen/cuda/attention/AttentionForms.h"
#include "codegen/cuda/attention/HeadChunk.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;

/// One region under one config, on its way to text.
class DecodeKernel {
public:
  DecodeKernel(const Region &region, DecodeProblem problem, const TileConfig &config, const ir::Target &target)
      : region(region), p(std::move(problem)), config(config), shape(config), target(target),
        buffers{region.graph, {}, {}} {
    p.product.graph.inputs.pop_back(); // The probabilities never are in memory.
    for (unsigned dim = 0; dim < p.dimM; ++dim)
      batchNames.push_back("b" + std::to_string(dim));
  }

  KernelPlan plan() {
    KernelPlan plan = planOf(region, buffers, target);
    Launch launch = launchOf(plan, entryName(region), target);
    launch.grid[0] = static_cast<uint32_t>(p.pairs());
    launch.grid[1] = static_cast<uint32_t>(shape.splits);
    launch.block[0] = static_cast<uint32_t>(shape.warps * 32);
    launch.sharedBytes = static_cast<uint32_t>(shape.sharedBytes(p));
    if (shape.isCluster())
      launch.cluster[1] = launch.grid[1];
    else if (shape.splits > 1)
      addPartials(plan, launch);
    plan.launches = {launch};
    giveSource(plan, source());
    return plan;
  }

private:
  /// The workspace: tickets, and behind them partials. Both are zero before and after.
  void addPartials(KernelPlan &plan, Launch &launch) const {
    uint64_t tickets = llvm::alignTo(p.pairs() * 4, zeroedGranule);
    plan.zeroedBytes = tickets + llvm::alignTo(p.pairs() * shape.splits * DecodeShape::partialBytes(p), zeroedGranule);
    plan.workspaceBytes = plan.zeroedBytes;
    launch.args.push_back({KernelArg::Kind::Workspace, 0});
    launch.args.push_back({KernelArg::Kind::Workspace, tickets});
  }

  /// Text of how many keys count; "" where all do.
  std::string countText(ValuePrinter &scope) const {
    std::string least;
    for (const ReadBound &last : p.lasts) {
      const int64_t behind = last.offset + (last.movesWithRow ? p.M : 1);
      const std::string count = keyText(scope, last, behind, 0, p.keys);
      least = least.empty() ? count : "minimum(" + least + ", " + count + ")";
    }
    return least;
  }

  std::string source() {
    writeHead(writer, region, config, target, shape.isCluster() ? "decode_cluster.cuh" : "decode_attention.cuh");
    writeConfig();
    writer.line();
    writeBody();
    writer.line();
    writeEntry();
    return writer.str();
  }

  void writeConfig() {
    writer.line("using Index = " + llvm::Twine(p.scores.fits32Bits() && p.product.fits32Bits() ? "int" : "long long") +
                ";");
    writer.open("struct Config");
    writer.line("using Index = ::Index;");
    writer.line("using Element = " + storedType(p.scores.graph.inputs[p.scores[p.key].input].type) + ";");
    writer.line("static constexpr int rows = " + llvm::Twine(p.rows()) + ", keySize = " + llvm::Twine(p.keySize) +
                ", valueSize = " + llvm::Twine(p.valueSize) + "; // Query rows of a pair, elements of a head.");
    writer.line("static constexpr int keyPitch = " + llvm::Twine(DecodeShape::pitchOf(p.keySize)) +
                ", valuePitch = " + llvm::Twine(DecodeShape::pitchOf(p.valueSize)) + ";");
    writer.line("static constexpr Index keys = " + llvm::Twine(p.keys) + ";");
    writer.line("static constexpr int warps = " + llvm::Twine(shape.warps) + ", tileKeys = " + llvm::Twine(shape.keys) +
                ", stages = " + llvm::Twine(shape.stages) + ", splits = " + llvm::Twine(shape.splits) + ";");
    writer.line(llvm::Twine("static constexpr bool emptyIsZero = ") + (p.emptyIsZero ? "true" : "false") +
                ", hasSink = " + (p.sink ? "true;" : "false;"));
    writer.line(llvm::Twine("static constexpr bool computesQuery = ") + (p.computesQuery ? "true" : "false") +
                ", readsAhead = " + (p.readsAhead ? "true;" : "false;"));
    writer.line("static constexpr int newKeys = " + llvm::Twine(p.update.newKeys ? p.update.newKeys->count() : 0) +
                ", newValues = " + llvm::Twine(p.update.newValues ? p.update.newValues->count() : 0) +
                "; // Written into the cache.");
    writer.close(";");
  }

  void writeEntry() {
    bool isSplit = shape.splits > 1 && !shape.isCluster();
    writer.line("using Attention = DecodeAttention<Config, Body>;");
    writer.open("extern \"C\" __global__ void __launch_bounds__(Config::warps * 32) " + entryName(region) + "(" +
                bufferParameters(region, buffers) +
                (isSplit ? ", unsigned *tickets, Attention::Partial *partials" : "") + ")");
    if (!p.readsAhead)
      writer.line("waitForPredecessor();");
    writer.line("const Body body{" + bodyNames + "};");
    writer.line("Attention{body}.run(" +
                llvm::Twine(shape.isCluster() ? "InCluster<Attention, Config::splits>()"
                            : isSplit         ? "Attention::ThroughMemory{tickets, partials}"
                                              : "Attention::Alone{}") +
                ");");
    writer.close();
  }

  std::string inputOf(const LinearGraph &graph, Scalar load) const { return "in" + std::to_string(graph[load].input); }

  void writeBody() {
    writer.open("struct Body");
    for (auto [i, input] : llvm::enumerate(p.product.graph.inputs)) {
      writer.line("const " + storedType(input.type) + " *in" + llvm::Twine(i) + ";");
      bodyNames += "in" + std::to_string(i) + ", ";
    }
    writer.line(storedType(p.product.graph.outputs[0].type) + " *out0;");
    bodyNames += "out" + std::to_string(p.update.output);
    for (bool isKey : {true, false})
      if (const std::optional<NewRows> &rows = newRows(isKey)) {
        writer.line(llvm::Twine("Config::Element *new") + kind(isKey) + "s;");
        bodyNames += ", out" + std::to_string(rows->output);
      }
    writer.line();
    writeEnd();
    writeFixed();
    writeQuery();
    for (bool isKey : {true, false}) {
      writeAddress(isKey);
      writeNewRows(isKey);
    }
    writer.line();
    writeScore();
    if (p.sink)
      writeSink();
    writeStore();
    writer.close(";");
  }

  /// Whether a run has fewer sequences than would make it this pair.
  void writeEnd() {
    const std::optional<ir::RunExtent> &end = p.product.graph.runExtent;
    if (!end || end->dim >= p.dimM)
      return;
    writer.open("__device__ __forceinline__ bool isBehindRun(Index pair) const");
    const std::string count = runExtent(p.product, end->dim, writer);
    const int64_t heads = end->dim == p.headDim() ? p.group : 1;
    scopeOf(p.product, "0", "0");
    writer.line("return " + batchNames[end->dim] + " * " + llvm::Twine(heads) + " >= " + count + ";");
    writer.close();
  }

  void writeFixed() {
    writer.open("struct Fixed");
    for (Scalar s : p.fixed)
      writer.line(valueType(p.scores[s].type) + " v" + llvm::Twine(s.id) + ";");
    writer.line("Index count; // Keys from the first on that may count.");
    for (bool isKey : {true, false})
      if (newRows(isKey))
        writer.line("Index new" + llvm::Twine(kind(isKey)) + "; // Where it is written; negative where nowhere.");
    writer.close(";");
    for (bool isKey : {true, false})
      if (newRows(isKey))
        writePosition(isKey, *newRows(isKey));
    writer.open("__device__ __forceinline__ Fixed at(Index pair) const");
    ValuePrinter scope = scopeOf(p.scores, "0", "0");
    std::string values;
    for (Scalar s : p.fixed)
      values += scope.value(s) + ", ";
    std::string count = countText(scope);
    values += count.empty() ? "Index(Config::keys)" : count;
    for (bool isKey : {true, false})
      if (newRows(isKey))
        values += std::string(", ") + (isKey ? "keyPosition" : "valuePosition") + "(pair)";
    writer.line("return {" + values + "};");
    writer.close();
    writer.line();
  }

  const std::optional<NewRows> &newRows(bool isKey) const { return isKey ? p.update.newKeys : p.update.newValues; }
  static const char *kind(bool isKey) { return isKey ? "Key" : "Value"; }

  /// Names for the dimensions of new rows.
  ValuePrinter scopeOf(bool isKey, const NewRows &rows, const std::string &row, const std::string &element) {
    ValuePrinter pair = scopeOf(isKey ? p.scores : p.product, "0", "0");
    llvm::SmallVector<std::string> names;
    for (unsigned dim = 0; dim + 1 < rows.index.size(); ++dim)
      names.push_back(dim == rows.axis ? row : "(" + pair.offset(rows.index[dim], {}) + ")");
    names.push_back(element);
    return {rows.graph, writer, names};
  }

  void writePosition(bool isKey, const NewRows &rows) {
    writer.open(llvm::Twine("__device__ __forceinline__ Index ") + (isKey ? "key" : "value") +
                "Position(Index pair) const");
    ValuePrinter scope = scopeOf(isKey, rows, "0", "0");
    const ir::ScalarOutput &state = rows.graph.graph.outputs[0];
    std::string position = scope.value(state.symbols[0]);
    std::string fits = scope.condition(rows.graph.storeGuards[0], state.symbols);
    writer.line("return " + (fits.empty() ? "" : fits + " ? ") + "Index(" + position + ")" +
                (fits.empty() ? "" : " : -Config::new" + std::string(kind(isKey)) + "s") + ";");
    writer.close();
  }

  /// Eight values of a head from `d` on: what no kernel of the run writes is loaded first.
  void writeChunk(const std::string &what, const LinearGraph &graph, unsigned dim, Scalar root,
                  llvm::function_ref<ValuePrinter()> makeScope, const ir::ScalarOutput *state = nullptr) {
    HeadChunk chunk(writer, graph, dim, root, what, "Index pair, int row");
    std::vector<Scalar> fixedOnes, others;
    for (Scalar load : chunk.loads()) {
      bool isFixed = llvm::all_of(inputsRead(graph, load), [&](unsigned input) { return bool(region.isFixed[input]); });
      (isFixed ? fixedOnes : others).push_back(load);
    }
    chunk.writeOperands(state ? "Config::Element *place; // In the cache." : "");
    chunk.writeLoad("loadFixedOf" + what, fixedOnes, makeScope, [&](ValuePrinter &scope) {
      if (!state)
        return;
      std::string offset = scope.offset(state->map.getResult(0), state->symbols);
      writer.line("x.place = new" + what + "s + (" + offset + ");");
    });
    chunk.writeMake(others, makeScope);
  }

  void writeNewRows(bool isKey) {
    const std::optional<NewRows> &rows = newRows(isKey);
    if (!rows)
      return writer.line(llvm::Twine("struct ") + kind(isKey) + "Operands {};");
    const ir::ScalarOutput &state = rows->graph.graph.outputs[0];
    writeChunk(
        kind(isKey), rows->graph, rows->graph.extents().size() - 1, state.value,
        [&] { return scopeOf(isKey, *rows, "row", "d"); }, &state);
  }

  void writeQuery() {
    if (p.computesQuery)
      return writeChunk("Query", p.scores, p.dimS() + 1, p.query,
                        [&] { return scopeOf(p.scores, "row", "0").within(p.dimS() + 1, "d"); });
    writer.line("struct QueryOperands {};");
    writer.open("__device__ __forceinline__ unsigned query(Index pair, int row, int d) const");
    ValuePrinter rows = scopeOf(p.scores, "row", "0").within(p.dimS() + 1, "d");
    writer.line("return *reinterpret_cast<const unsigned *>(" + inputOf(p.scores, p.query) + " + (" +
                rows.offset(p.scores.offset(p.query), {}) + "));");
    writer.close();
  }

  void writeAddress(bool isKey) {
    const LinearGraph &graph = isKey ? p.scores : p.product;
    Scalar load = isKey ? p.key : p.value;
    writer.open("__device__ __forceinline__ const Config::Element *" + llvm::Twine(isKey ? "key" : "value") +
                "(Index pair, Index key) const");
    ValuePrinter scope = isKey ? scopeOf(graph, "0", "key") : scopeOf(graph, "0", "0").within(p.dimS() + 1, "key");
    writer.line("return " + inputOf(graph, load) + " + (" + scope.offset(graph.offset(load), {}) + ");");
    writer.close();
  }

  void writeScore() {
    writer.open("__device__ __forceinline__ float score(const Fixed &fixed, float product, Index pair, int row, Index "
                "key) const");
    ValuePrinter scope = scopeOf(p.scores, "row", "key");
    scope.define(p.scoreProduct, "product");
    for (Scalar s : p.fixed)
      scope.define(s, "fixed.v" + std::to_string(s.id));
    std::string value = scope.value(p.scores.graph.outputs[0].value);
    writer.line("return " + value + ";");
    writer.close();
    writer.line();
  }

  /// The score of a row that no key has.
  void writeSink() {
    writer.open("__device__ __forceinline__ float sink(Index pair, int row) const");
    ValuePrinter scope = scopeOf(*p.sink, "row", "0");
    std::string value = scope.value(p.sink->graph.outputs[0].value);
    writer.line("return " + value + ";");
    writer.close();
  }

  void writeStore() {
    writer.open("__device__ __forceinline__ void store(Index pair, int row, int d, const Vector<float, 4> &acc) const");
    ChunkPrinter chunk(p.product, p.dimS(), 4); // Along the head's elements, which are the product's columns.
    ValuePrinter scope = scopeOf(p.product, "row", "d");
    writer.line("Vector<float, 4> y0;");
    chunk.lanes(
        scope, [](Scalar) { return ""; },
        [&](ValuePrinter &lane) {
          lane.define(p.valueProduct, "acc[j]");
          std::string value = lane.value(p.product.graph.outputs[0].value);
          writer.line("y0[j] = " + value + ";");
        });
    chunk.store(scope, 0);
    writer.close();
  }

  /// Names for the dimensions, given the texts of a pair's row and of the second last dimension.
  ValuePrinter scopeOf(const LinearGraph &graph, const std::string &row, const std::string &column) {
    llvm::SmallVector<int64_t> extents(graph.extents().take_front(p.dimM));
    llvm::SmallVector<std::string> names(batchNames);
    if (p.hasHeads()) {
      extents.back() /= p.group;
      writer.line(splitText("pair", extents, names));
    }
    std::string m = row;
    if (p.group > 1) {
      std::string within = row == "0" ? "" : p.M == 1 ? " + " + row : " + " + row + " / " + std::to_string(p.M);
      names.back() = "(" + names.back() + " * " + std::to_string(p.group) + within + ")";
      m = row == "0" || p.M == 1 ? "0" : "(" + row + " % " + std::to_string(p.M) + ")";
    }
    names.push_back(m);
    names.push_back(column);
    names.push_back("0");
    return {graph, writer, names};
  }

  const Region &region;
  DecodeProblem p;
  const TileConfig &config;
  const DecodeShape shape;
  const ir::Target &target;
  LinearGraph buffers; ///< Inputs and results alone.
  llvm::SmallVector<std::string> batchNames;
  std::string bodyNames;
  SourceWriter writer;
};

} // namespace

KernelPlan decodeKernel(const Region &region, const TileConfig &config, const ir::Target &target) {
  return DecodeKernel(region, *decodeProblem(region), config, target).plan();
}

} // namespace kfuse::codegen::cuda
