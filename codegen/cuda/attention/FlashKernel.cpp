#include "codegen/cuda/attention/FlashKernel.h"

#include "codegen/cuda/attention/AttentionForms.h"
#include "codegen/cuda/attention/HeadChunk.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Clusters.h"
#include "codegen/cuda/text/Kernel.h"
#include "codegen/cuda/text/TensorMaps.h"
#include "codegen/cuda/text/Wgmma.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;

/// One region under one config, on its way to text.
class FlashKernel {
public:
  FlashKernel(const Region &region, FlashProblem problem, const TileConfig &config, const ir::Target &target)
      : region(region), p(std::move(problem)), config(config), shape(config), target(target),
        buffers{region.graph, {}, {}} {
    if (shape.isWgmma) {
      const FlashMaps all = *p.maps();
      maps = {{"key", shape.keys, p.type(), all.keys}, {"value", shape.keys, p.type(), all.values}};
      if (all.queries)
        maps.push_back({"query", shape.rows, p.type(), *all.queries});
      if (all.mask)
        maps.push_back({"mask", shape.rows / shape.sharers, p.scores.graph.inputs[all.mask->buffer].type, *all.mask});
    }
    p.product.graph.inputs.pop_back(); // The probabilities never are in memory.
    for (unsigned dim = 0; dim < p.dimRow(); ++dim)
      batchNames.push_back("b" + std::to_string(dim));
  }

  KernelPlan plan() {
    KernelPlan plan = planOf(region, buffers, target);
    Launch launch = launchOf(plan, entryName(region), target);
    launch.grid[0] = static_cast<uint32_t>(shape.batches > 1 ? shape.gridBlocks(p) : shape.blocks(p));
    if (shape.isPersistent)
      setPersistentGrid(launch, shape.blocks(p), target.multiprocessors * shape.resident, target);
    launch.block[0] = static_cast<uint32_t>(shape.threads());
    launch.cluster[0] = static_cast<uint32_t>(shape.sharers);
    launch.sharedBytes = static_cast<uint32_t>(shape.sharedBytes(p));
    if (shape.splits > 1) {
      launch.grid[1] = static_cast<uint32_t>(shape.splits);
      plan.zeroedBytes = llvm::alignTo(shape.blocks(p) * 4, zeroedGranule);
      plan.workspaceBytes =
          plan.zeroedBytes + static_cast<uint64_t>(shape.blocks(p) * shape.splits * shape.partialBytes(p));
      launch.args.push_back({KernelArg::Kind::Workspace, 0});
      launch.args.push_back({KernelArg::Kind::Workspace, plan.zeroedBytes});
    }
    if (shape.isPersistent) {
      plan.workspaceBytes = plan.zeroedBytes = zeroedGranule;
      launch.args.push_back({KernelArg::Kind::Workspace, 0});
    }
    plan.launches = {launch};
    std::vector<TensorMapRecipe> recipes;
    for (const Brought &map : maps)
      recipes.push_back(map.rows.recipe(map.type, map.boxRows));
    if (shape.isWgmma)
      passTensorMaps(plan, recipes);
    giveSource(plan, source());
    return plan;
  }

private:
  std::string source() {
    writeHead(writer, region, config, target,
              shape.isWgmma       ? "flash_sm90.cuh"
              : shape.isScalar    ? "flash_scalar.cuh"
              : shape.batches > 1 ? "flash_batches.cuh"
                                  : "flash_attention.cuh");
    writer.line("using Index = " + Twine(p.scores.fits32Bits() && p.product.fits32Bits() ? "int" : "long long") + ";");
    writeConfig();
    writer.line();
    writeBody();
    writer.line();
    if (shape.isWgmma) {
      writeProducts();
      writeWgmmaEntry();
      return writer.str();
    }
    const bool isSplit = shape.splits > 1;
    openEntry(writer, "Config::warps * 32", entryName(region),
              bufferParameters(region, buffers) + (isSplit ? ", unsigned *arrivals, float *partials" : ""));
    writeBodyOfEntry();
    if (shape.batches > 1)
      writer.line("FlashBatches<Config, Body>{body}.run();");
    else
      writer.line(std::string(shape.isScalar ? "FlashScalar" : "FlashAttention") + "<Config, Body>(body).run(" +
                  (isSplit ? "arrivals, partials" : "") + ");");
    writer.close();
    return writer.str();
  }

  void writeBodyOfEntry() {
    const std::optional<ir::RunExtent> &end = p.product.graph.runExtent;
    writer.line("const Body body{" + bodyNames + (end ? ", " + runExtent(p.product, end->dim, writer) : "") + "};");
  }

  void writeWgmmaEntry() {
    std::string parameters, arguments;
    for (const Brought &map : maps)
      parameters += "const __grid_constant__ TensorMap " + map.name + "Map, ";
    for (const char *name : {"key", "value", "query", "mask"})
      arguments += llvm::any_of(maps, [&](const Brought &map) { return map.name == name; })
                       ? std::string(", &") + name + "Map"
                       : ", nullptr";
    writer.open("extern \"C\" __global__ void __launch_bounds__(" + Twine(shape.threads()) + ", Config::resident) " +
                entryName(region) + "(" + parameters + bufferParameters(region, buffers) +
                (shape.isPersistent ? ", unsigned *tickets)" : ")"));
    writeBodyOfEntry();
    writer.line("flashSm90<Config, ScoreProduct, ValueProduct>(body" + arguments +
                (shape.isPersistent ? ", tickets);" : ");"));
    writer.close();
  }

  /// The instructions: queries by keys, both in shared memory, and weights in registers by values, whose columns are
  /// contiguous.
  void writeProducts() {
    writeWgmma(writer, {.name = "ScoreProduct", .rowsType = p.type(), .columnsType = p.type(), .columns = shape.keys});
    writeWgmma(writer, {.name = "ValueProduct",
                        .rowsType = p.type(),
                        .columnsType = p.type(),
                        .columns = p.valueSize,
                        .areRowsInRegisters = true,
                        .areColumnsTransposed = true});
  }

  void writeConfig() {
    auto flag = [](bool value) { return value ? "true" : "false"; };
    writer.open("struct Config");
    writer.line("using Index = ::Index;");
    writer.line("using Element = " + storedType(p.type()) + ";");
    writer.line("static constexpr Index rows = " + Twine(p.rows) + ", keys = " + Twine(p.keys) + "; // In a head.");
    writer.line("static constexpr int keySize = " + Twine(p.keySize) + ", valueSize = " + Twine(p.valueSize) + ";");
    writer.line("static constexpr int tileRows = " + Twine(shape.rows) + ", tileKeys = " + Twine(shape.keys) +
                ", warps = " + Twine(shape.warps) + ", stages = " + Twine(shape.stages) +
                ", together = " + Twine(shape.together(p, target)) + ";");
    if (shape.isWgmma) {
      writer.line("static constexpr unsigned blocks = " + Twine(shape.blocks(p)) +
                  "; // Tiles of rows, over all heads.");
      writer.line("static constexpr int resident = " + Twine(shape.resident) + "; // Blocks on a multiprocessor.");
      writer.line("static constexpr bool pingPong = " + Twine(flag(shape.pingPong)) +
                  ", isPersistent = " + flag(shape.isPersistent) + ";");
      writer.line("static constexpr int maskSharers = " + Twine(shape.sharers) +
                  "; // Blocks of a cluster, which read a mask together.");
    }
    if (!shape.isWgmma && !shape.isScalar)
      writer.line("static constexpr int splits = " + Twine(shape.splits) +
                  ", newKeys = " + Twine(p.update.newKeys ? p.update.newKeys->count() : 0) + ", newValues = " +
                  Twine(p.update.newValues ? p.update.newValues->count() : 0) + "; // Written into a cache.");
    writer.line("static constexpr bool readsBounds = " + Twine(flag(p.bounds.areRead())) + ", readsFirst = " +
                flag(!p.bounds.firsts.empty()) + ", readsOfRow = " + flag(p.bounds.areOfRow()) + ";");
    writer.line("static constexpr bool holdsQuery = " + Twine(flag(shape.holdsQuery(p))) +
                ", computesQuery = " + flag(p.computesQuery) + ", emptyIsZero = " + flag(p.emptyIsZero) + ";");
    if (p.computesQuery)
      writer.line("static constexpr int queryOperandBytes = " + Twine(shape.queryOperandBytes()) +
                  "; // In a thread's registers.");
    writer.line("static constexpr bool hasLowest = " + Twine(flag(p.bounds.lowest.has_value())) +
                ", hasHighest = " + flag(p.bounds.highest.has_value()) + ";");
    writer.line("static constexpr Index period = " + Twine(p.period) +
                "; // Rows of a head, of several in a row; else 0.");
    writer.line("static constexpr Index lowest = " + Twine(p.bounds.lowest.value_or(0)) +
                ", highest = " + Twine(p.bounds.highest.value_or(0)) + "; // Keys of a row, from its own number on.");
    const KeyChunks chunks = p.bounds.chunks.value_or(KeyChunks{.size = 0});
    writer.line("static constexpr Index chunk = " + Twine(chunks.size) + ", rowInChunks = " + Twine(chunks.rowOffset) +
                ", keyInChunks = " + Twine(chunks.keyOffset) + "; // Where the first row and key stand in a chunk.");
    writer.line("static constexpr bool hasSink = " + Twine(flag(p.sink.has_value())) + ", bringsMask = " +
                flag(shape.isWgmma && p.mask) + ", holdsMask = " + flag(shape.batches > 1 && p.heldMask) + ";");
    if (shape.batches > 1)
      writer.line("static constexpr unsigned batches = " + Twine(shape.batches) + ", batchStride = " +
                  Twine(p.batchStride) + ", allBatches = " + Twine(p.batches()) + "; // A block takes so many.");
    if (tileMask())
      writer.line("using Mask = " + storedType(p.scores.graph.inputs[p.scores[tileMask()].input].type) + ";");
    writer.line("static constexpr bool isScaled = " + Twine(flag(p.scale.has_value())) + ";");
    writer.line("static constexpr float scale = " + literalText(p.scale.value_or(1)) + ";");
    writer.close(";");
  }

  /// The mask that tiles have of their own: TMA brings it, or registers hold it; or none.
  Scalar tileMask() const { return shape.isWgmma ? p.mask : shape.batches > 1 ? p.heldMask : Scalar{}; }
  std::string inputOf(const LinearGraph &graph, Scalar load) const { return "in" + std::to_string(graph[load].input); }

  void writeBody() {
    writer.open("struct Body");
    for (auto [i, input] : llvm::enumerate(p.product.graph.inputs)) {
      writer.line("const " + storedType(input.type) + " *in" + Twine(i) + ";");
      bodyNames += "in" + std::to_string(i) + ", ";
    }
    writer.line(storedType(p.product.graph.outputs[0].type) + " *out0;");
    bodyNames += "out" + std::to_string(p.update.output);
    for (bool isKey : {true, false})
      if (const std::optional<NewRows> &rows = newRows(isKey)) {
        writer.line(std::string("Config::Element *kept") + kind(isKey) + "s; // The cache.");
        bodyNames += ", out" + std::to_string(rows->output);
      }
    if (const std::optional<ir::RunExtent> &end = p.product.graph.runExtent)
      writeEnd(end->dim);
    writer.line();
    if (p.bounds.areRead())
      writeBounds();
    if (p.update.writes())
      writeNewRows();
    if (p.computesQuery)
      writeQuery();
    if (shape.isWgmma)
      writeBatches();
    else if (shape.isScalar)
      writeElements();
    else
      writeAddresses();
    writer.line();
    if (!p.scale) {
      writeRow();
      writeSeen();
    }
    if (shape.batches > 1 && p.heldMask)
      writeHeldMask();
    if (p.sink)
      writeSink();
    if (shape.isScalar)
      writeStoreOfOne();
    else
      writeStore();
    writer.close(";");
  }

  /// Whether nobody reads a row: the run has fewer, or fewer sequences. Blocks of a cluster wait for each other's parts
  /// of a mask: all ask for the first one's sequence, so that none is behind a run that another belongs to.
  void writeEnd(unsigned dim) {
    writer.line("Index runEnd;");
    writer.open("__device__ __forceinline__ bool isBehindRun(Index batch, Index row) const");
    if (shape.sharers > 1)
      writer.line("batch -= batch % Config::maskSharers;");
    if (dim < p.dimRow())
      scopeOf(p.product, "row", "0");
    writer.line("return " + (dim < p.dimRow() ? batchNames[dim] : "row") + " >= runEnd;");
    writer.close();
  }

  /// Bounds of keys that are read: the largest of the first ones, the smallest of the last ones.
  void writeBounds() {
    writer.line("struct Bounds { Index firstKey, firstOfRow, endKey, endOfRow; };");
    writer.open("__device__ __forceinline__ Bounds bounds(Index batch) const");
    ValuePrinter scope = scopeOf(p.scores, "0", "0");
    const std::string values = boundsText(scope, p.bounds, false, p.rows, p.keys);
    writer.line("return {" + values + "};");
    writer.close();
    if (!p.bounds.areOfRow())
      return;
    writer.open("__device__ __forceinline__ Bounds bounds(Index batch, Index row) const");
    ValuePrinter rowScope = scopeOf(p.scores, "row", "0");
    const std::string ofRow = boundsText(rowScope, p.bounds, true, p.rows, p.keys);
    writer.line("return {" + ofRow + "};");
    writer.close();
  }

  /// Where new rows of the cache are, and how they get there.
  void writeNewRows() {
    writer.line("struct NewRowsAt { Index key, value; }; // Negative where they have no place.");
    for (bool isKey : {true, false})
      if (const std::optional<NewRows> &rows = newRows(isKey)) {
        writePosition(isKey ? "key" : "value", *rows, isKey ? p.scores : p.product);
        writeKept(kind(isKey), *rows, isKey ? p.scores : p.product);
      }
    writer.line(std::string("__device__ __forceinline__ NewRowsAt newRowsAt(Index batch) const { return {") +
                (p.update.newKeys ? "keyPosition(batch), " : "0, ") +
                (p.update.newValues ? "valuePosition(batch)" : "0") + "}; }");
  }
  const std::optional<NewRows> &newRows(bool isKey) const { return isKey ? p.update.newKeys : p.update.newValues; }
  static const char *kind(bool isKey) { return isKey ? "Key" : "Value"; }
  void writePosition(const std::string &kind, const NewRows &rows, const LinearGraph &graph) {
    writer.open("__device__ __forceinline__ Index " + kind + "Position(Index batch) const");
    ValuePrinter scope = scopeOf(rows, graph, "0", "0");
    const ir::ScalarOutput &state = rows.graph.graph.outputs[0];
    const std::string position = scope.value(state.symbols[0]),
                      fits = scope.condition(rows.graph.storeGuards[0], state.symbols);
    writer.line("return " + (fits.empty() ? "" : fits + " ? ") + "Index(" + position + ")" +
                (fits.empty() ? "" : " : Index(" + std::to_string(-rows.count()) + ")") + ";");
    writer.close();
  }
  void writeKept(const std::string &kind, const NewRows &rows, const LinearGraph &graph) {
    writer.open("__device__ __forceinline__ void keep" + kind + "(Index batch, int row, int d, NewRowsAt at) const");
    const ir::ScalarOutput &state = rows.graph.graph.outputs[0];
    ValuePrinter scope = scopeOf(rows, graph, "row", "d");
    const std::string from = sourceText(rows, scope), to = scope.offset(state.map.getResult(0), state.symbols);
    writer.line("if (at." + llvm::StringRef(kind).lower() + " >= 0) storeVector<8, 8>(kept" + kind + "s + (" + to +
                "), loadVector<8, 8>(" + from + "));");
    writer.close();
  }
  std::string sourceText(const NewRows &rows, ValuePrinter &scope) const {
    const Scalar root = rows.graph.graph.outputs[0].value;
    return inputOf(rows.graph, root) + " + (" + scope.offset(rows.graph.offset(root), {}) + ")";
  }
  /// Names for the dimensions of new rows of a batch, given `graph`, over which their places are.
  ValuePrinter scopeOf(const NewRows &rows, const LinearGraph &graph, const std::string &row,
                       const std::string &element) {
    ValuePrinter batch = scopeOf(graph, "0", "0");
    SmallVector<std::string> names;
    for (unsigned dim = 0; dim + 1 < rows.index.size(); ++dim)
      names.push_back(dim == rows.axis ? row : "(" + batch.offset(rows.index[dim], {}) + ")");
    names.push_back(element);
    return {rows.graph, writer, names};
  }

  /// The coordinates of a batch in the tensors that TMA reads.
  void writeBatches() {
    for (const Brought &map : maps) {
      writer.open("__device__ __forceinline__ int " + map.name + "Batch(Index batch) const");
      ValuePrinter scope = scopeOf(p.scores, "0", "0");
      writer.line("return " + scope.offset(map.rows.batch, {}) + ";");
      writer.close();
    }
  }

  void writeQuery() {
    HeadChunk chunk(writer, p.scores, p.rank() - 1, p.query, "Query", "Index batch, Index row");
    auto makeScope = [&] { return scopeOf(p.scores, "row", "0").within(p.rank() - 1, "d"); };
    chunk.writeOperands();
    chunk.writeLoad("loadQuery", chunk.loads(), makeScope);
    chunk.writeMake({}, makeScope);
  }

  void writeAddresses() {
    if (!p.computesQuery)
      writeAddress("query", "row", p.scores, p.query, [&] { return scopeOf(p.scores, "row", "0"); });
    writeAddress("key", "key", p.scores, p.key, [&] { return scopeOf(p.scores, "0", "key"); });
    writeAddress("value", "key", p.product, p.value,
                 [&] { return scopeOf(p.product, "0", "0").within(p.rank() - 1, "key"); });
  }

  void writeAddress(const std::string &name, const std::string &index, const LinearGraph &graph, Scalar load,
                    llvm::function_ref<ValuePrinter()> makeScope) {
    const bool isCached = p.update.writes() && name != "query";
    const NewRows *rows = isCached && newRows(name == "key") ? &*newRows(name == "key") : nullptr;
    writer.open("__device__ __forceinline__ const Config::Element *" + name + "(Index batch, Index " + index +
                (isCached ? ", NewRowsAt at) const" : ") const"));
    if (rows) {
      writer.line("const Index fresh = key - at." + name + ";");
      writer.open("if (fresh >= 0 && fresh < " + Twine(rows->count()) + ")");
      ValuePrinter scope = scopeOf(*rows, graph, "fresh", "0");
      writer.line("return " + sourceText(*rows, scope) + ";");
      writer.close();
    }
    ValuePrinter scope = makeScope();
    writer.line("return " + inputOf(graph, load) + " + (" + scope.offset(graph.offset(load), {}) + ");");
    writer.close();
  }

  void writeElements() {
    const unsigned last = p.rank() - 1;
    writeElement("query", "row", p.query, [&] { return scopeOf(p.scores, "row", "0").within(last, "d"); });
    writeElement("key", "key", p.key, [&] { return scopeOf(p.scores, "0", "key").within(last, "d"); });
    writeElement("value", "key", p.value, [&] { return scopeOf(p.product, "0", "d").within(last, "key"); });
  }

  void writeElement(const std::string &name, const std::string &index, Scalar load,
                    llvm::function_ref<ValuePrinter()> makeScope) {
    writer.open("__device__ __forceinline__ float " + name + "(Index batch, Index " + index + ", int d) const");
    ValuePrinter scope = makeScope();
    std::string text = scope.value(load);
    writer.line("return " + text + ";");
    writer.close();
  }

  /// What the scores of a row read once.
  void writeRow() {
    writer.open("struct Row");
    for (Scalar s : p.ofRow)
      writer.line(valueType(p.scores[s].type) + " v" + Twine(s.id) + ";");
    writer.close(";");
    writer.open("__device__ __forceinline__ Row row(Index batch, Index row) const");
    std::string values;
    if (!p.ofRow.empty()) {
      ValuePrinter scope = scopeOf(p.scores, "row", "0");
      for (Scalar s : p.ofRow)
        values += (values.empty() ? "" : ", ") + scope.value(s);
    }
    writer.line("return {" + values + "};");
    writer.close();
  }

  /// The score of a key that the row sees.
  void writeSeen() {
    writer.open("__device__ __forceinline__ float seen(const Row &ofRow, float product, Index batch, Index row, Index "
                "key" +
                std::string(tileMask() ? ", Config::Mask mask" : "") + ") const");
    ValuePrinter scope = scopeOf(p.scores, "row", "key");
    scope.define(p.scoreProduct, "product");
    if (tileMask())
      scope.define(tileMask(), "decode(mask)");
    for (Scalar s : p.ofRow)
      scope.define(s, "ofRow.v" + std::to_string(s.id));
    std::string text = scope.value(p.bounds.seen);
    writer.line("return " + text + ";");
    writer.close();
  }

  /// An element of the mask that batches share.
  void writeHeldMask() {
    writer.open("__device__ __forceinline__ Config::Mask mask(Index batch, Index row, Index key) const");
    ValuePrinter scope = scopeOf(p.scores, "row", "key");
    writer.line("return " + inputOf(p.scores, p.heldMask) + "[" + scope.offset(p.scores.offset(p.heldMask), {}) + "];");
    writer.close();
  }

  /// The score of a row that no key has.
  void writeSink() {
    writer.open("__device__ __forceinline__ float sink(Index batch, Index row) const");
    ValuePrinter scope = scopeOf(*p.sink, "row", "0");
    std::string text = scope.value(p.sink->graph.outputs[0].value);
    writer.line("return " + text + ";");
    writer.close();
  }

  void writeStore() {
    writer.open(
        "__device__ __forceinline__ void store(Index batch, Index row, int d, const Vector<float, 8> &acc) const");
    const Scalar root = p.product.graph.outputs[0].value;
    ChunkPrinter chunk(p.product, p.dimColumn(), 8); // Along a head's elements, which are the product's columns.
    ValuePrinter scope = scopeOf(p.product, "row", "d");
    const std::vector<Scalar> loads = chunk.loadsOf(root, p.valueProduct);
    chunk.declare(writer, loads);
    chunk.load(scope, loads, "");
    writer.line("Vector<float, 8> y0;");
    chunk.lanes(
        scope, [](Scalar) { return ""; },
        [&](ValuePrinter &lane) {
          lane.define(p.valueProduct, "acc[j]");
          std::string value = lane.value(root);
          writer.line("y0[j] = " + value + ";");
        });
    chunk.store(scope, 0);
    writer.close();
  }

  void writeStoreOfOne() {
    writer.open("__device__ __forceinline__ void store(Index batch, Index row, int d, float sum) const");
    ChunkPrinter chunk(p.product, p.dimColumn(), 1);
    ValuePrinter scope = scopeOf(p.product, "row", "d");
    scope.define(p.valueProduct, "sum");
    writer.line("Vector<float, 1> y0;");
    std::string value = scope.value(p.product.graph.outputs[0].value);
    writer.line("y0[0] = " + value + ";");
    chunk.store(scope, 0);
    writer.close();
  }

  /// Names for the dimensions, given the texts of the row and of the second last dimension.
  ValuePrinter scopeOf(const LinearGraph &graph, const std::string &row, const std::string &column) {
    SmallVector<int64_t> extents(graph.extents().take_front(p.dimRow()));
    if (!extents.empty())
      writer.line(splitText("batch", extents, batchNames));
    SmallVector<std::string> names(batchNames);
    names.append({row, column, "0"});
    return {graph, writer, names};
  }

  /// What TMA brings, in boxes of so many rows.
  struct Brought {
    std::string name;
    int64_t boxRows;
    DType type;
    FlashRowsMap rows;
  };

  const Region &region;
  FlashProblem p;
  const TileConfig &config;
  const FlashShape shape;
  const ir::Target &target;
  LinearGraph buffers; ///< Inputs and results alone.
  std::vector<Brought> maps;
  SmallVector<std::string> batchNames;
  std::string bodyNames;
  SourceWriter writer;
};

} // namespace

KernelPlan flashKernel(const Region &region, const TileConfig &config, const ir::Target &target) {
  return FlashKernel(region, *flashProblem(region, config.valueOr("packed", 0) != 0), config, target).plan();
}

} // namespace kfuse::codegen::cuda
