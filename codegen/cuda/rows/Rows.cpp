// cuda.rows: regions with row reductions. A row is read once, kept, and passed over once for each
// stage of reductions (softmax: maximum, sum, result).
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/rows/RowPrinter.h"
#include "codegen/cuda/rows/RowShape.h"
#include "codegen/cuda/rows/Templates.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Clusters.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t mostChunksInRegisters = 16; ///< Unrolled passes grow with them.
constexpr int64_t leastClusterColumns = 8192; ///< Shorter rows fit one block's registers.
constexpr size_t mostCandidates = 48;

/// Whether a run ends the outermost dimension of the rows, and with it the kernel.
bool endsRows(const LinearGraph &graph) {
  const std::optional<ir::RunExtent> &end = graph.graph.runExtent;
  return end && end->dim == 0 && graph.graph.domain.reductionDim > 0;
}

/// One region under one config, on its way to text.
class RowKernel {
public:
  RowKernel(const Region &region, const TileConfig &config, const ir::Target &target)
      : region(region), config(config), target(target), graph(linearised(region.graph, 1)), passes(graph),
        work(graph, passes), columnDim(graph.graph.domain.reductionDim), names(dimNames(graph)),
        row(graph, passes, storageOf(config), config["vector"], "Config", names, writer) {
    rowCount = graph.graph.domain.points() / graph.extents().back();
  }

  KernelPlan plan() {
    KernelPlan plan = planOf(region, graph, target);
    Launch launch = launchOf(plan, entryName(region), target);
    launch.needsNoL1 = storageOf(config) != RowStorage::Reload;
    const RowResources resources(graph, passes, work, config, target);
    launch.grid[0] = static_cast<uint32_t>(ceilDiv(rowCount, rowsOfBlock(config)) * config["cluster"]);
    if (storageOf(config) == RowStorage::Stream)
      setPersistentGrid(launch, rowCount * config["cluster"], resources.rowsAtOnce(config, target) * config["cluster"],
                        target);
    launch.cluster[0] = static_cast<uint32_t>(config["cluster"]);
    launch.block[0] = static_cast<uint32_t>(config["threads"] * config["rows"]);
    launch.sharedBytes = static_cast<uint32_t>(resources.sharedBytes);
    plan.launches = {launch};
    giveSource(plan, source());
    return plan;
  }

private:
  static llvm::SmallVector<std::string> dimNames(const LinearGraph &graph) {
    llvm::SmallVector<std::string> names;
    for (unsigned dim = 0; dim < graph.extents().size(); ++dim)
      names.push_back("d" + std::to_string(dim));
    return names;
  }

  std::string source() {
    const bool isTiled = rowsEachOf(config) > 0;
    writeHead(writer, region, config, target,
              isTiled                 ? "row_tile.cuh"
              : config["cluster"] > 1 ? "cluster.cuh"
                                      : "rows.cuh");
    writer.line("using Index = " + indexType(graph) + ";");
    row.writeConfig(config["threads"], config["rows"], config["cluster"], printedRows());
    if (isTiled)
      writeTiled();
    else
      writeEntry();
    return writer.str();
  }

  /// How many rows the text has.
  int64_t printedRows() const {
    return columnDim == 1 && storageOf(config) != RowStorage::Stream ? printedExtent(graph, 0, rowsOfBlock(config))
                                                                     : rowCount;
  }

  /// Rows that come to shared memory, a block's all at once.
  void writeTiled() {
    writer.open("struct Body");
    work.tile.writeMembers(writer);
    writer.line();
    writer.open("__device__ __forceinline__ void operator()(Row<Config> &row) const");
    ValuePrinter scope(graph, writer, names);
    writePasses(scope);
    writer.close();
    writer.close(";");
    writer.line();
    openEntry(writer, "Config::threads * Config::rows", entryName(region), bufferParameters(region, graph));
    ValuePrinter entry(graph, writer, names);
    endRun(entry);
    work.tile.writeEntry(writer, rowsOfBlock(config), rowsEachOf(config));
    writer.close();
  }

  void writeEntry() {
    openEntry(writer, "Config::threads * Config::rows", entryName(region), bufferParameters(region, graph));
    ValuePrinter scope(graph, writer, names);
    const std::string runRows = endRun(scope);
    bool isStream = storageOf(config) == RowStorage::Stream;
    writer.line("Row<Config> row;");
    if (isStream)
      openStream(scope, runRows);
    writePasses(scope);
    if (isStream)
      writer.close();
    writer.close();
  }

  /// A block whose rows are all behind those of the run ends, once nothing waits for it. Returns how many rows there
  /// are; "" where a run has all.
  std::string endRun(ValuePrinter &scope) {
    if (!endsRows(graph))
      return "";
    writer.line("const Index runRows = " + runExtent(scope, graph, 0) + " * " +
                llvm::Twine(rowCount / graph.extents().front()) + ";");
    writer.line("if (Index(blockIdx.x) / Config::cluster * " + llvm::Twine(rowsOfBlock(config)) +
                " >= runRows) return;");
    return "runRows";
  }

  void writePasses(ValuePrinter &scope) {
    splitRow("row.index");
    if (storageOf(config) != RowStorage::Stream)
      row.writeCache(scope);
    for (size_t pass = 0; pass < passes.reductions.size(); ++pass)
      row.writeReductions(scope, pass);
    writeRowOutputs(scope);
    if (!passes.elementOutputs.empty())
      row.writeElements(scope, [&](ValuePrinter &inner) {
        writer.line("if (!row.valid) return;");
        for (unsigned i : passes.elementOutputs)
          row.chunks().store(inner, i);
      });
  }

  void splitRow(llvm::StringRef index) {
    if (columnDim > 0)
      writer.line(splitText(index, graph.extents().drop_back(), llvm::ArrayRef(names).drop_back()));
  }

  /// Opens the loop over the rows, with the current one in `cache`.
  void openStream(const ValuePrinter &scope, const std::string &runRows) {
    writer.open("struct Operands");
    row.declareKept();
    writer.open("auto load = [&](Operands &x, Index index, Index " + row.columnName() + ")");
    splitRow("index");
    row.chunks().startCopies(scope, row.kept(), "x.");
    writer.close(";");
    writer.line("RowStream<Config, Operands> cache;");
    writer.line("cache.start(row, row.index, load);");
    writer.line("#pragma unroll 1");
    const std::string isThere = runRows.empty() ? "row.valid" : "row.first < " + runRows;
    writer.open("for (; " + isThere + "; row.advance())");
    writer.line("cache.turn(row, load);");
  }

  void writeRowOutputs(ValuePrinter &scope) {
    for (unsigned i : passes.rowOutputs) {
      const ir::ScalarOutput &output = graph.graph.outputs[i];
      std::string value = scope.value(output.value);
      std::string where = scope.offset(output.map.getResult(0), output.symbols);
      std::string when = scope.condition(graph.storeGuards[i], output.symbols);
      writer.line("if (row.writesRow()" + (when.empty() ? "" : " && " + when) + ") encode(out" + llvm::Twine(i) + "[" +
                  where + "], " + value + ");");
    }
  }

  const Region &region;
  const TileConfig &config;
  const ir::Target &target;
  LinearGraph graph;
  RowPasses passes;
  RowWork work;
  unsigned columnDim;
  llvm::SmallVector<std::string> names;
  SourceWriter writer;
  RowPrinter row;
  int64_t rowCount = 0;
};

class RowsTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.rows"; }

  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    if (region.graph.domain.contractionDim >= 0)
      return ir::FusionDecision::no("holds a matrix product");
    if (region.graph.domain.reductionDim < 0)
      return ir::FusionDecision::no("holds no row reduction");
    for (const ScalarNode &node : region.graph.nodes)
      if (node.kind == ScalarNode::Kind::Reduce && reductionTypeName(node.function).empty())
        return ir::FusionDecision::no("no CUDA text for the reduction '" + node.function + "'");
    return printable(region);
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override;
  bool endsWithRun(const Region &region, const TileConfig &) const override {
    return endsRows(linearised(region.graph, 1));
  }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return RowKernel(region, config, target).plan();
  }
};

/// Where the row may stay: in registers when a thread's part is short, else shared memory or nowhere.
std::vector<RowStorage> storagesFor(const RowWork &work) {
  if (work.loads.at(RowStorage::Registers).kept.empty())
    return {RowStorage::Reload};
  return {RowStorage::Registers, RowStorage::Shared, RowStorage::Reload};
}

constexpr int64_t mostTileColumns = 512; ///< Longer rows are whole pieces of 16 bytes but for little.
constexpr int64_t smallestBlock = 128;   ///< Threads; of few and short rows most are idle.

std::vector<EstimatedConfig> RowsTemplate::estimated(const Region &region, const ir::Target &target) const {
  LinearGraph graph = linearised(region.graph, 1);
  RowPasses passes(graph);
  const RowWork work(graph, passes);
  int64_t columns = graph.extents().back(), rowCount = graph.graph.domain.points() / columns;
  std::vector<EstimatedConfig> ranked;
  auto consider = [&](int64_t vector, int64_t threads, int64_t block, RowStorage storage, int64_t cluster) {
    int64_t rows = block / threads, chunks = ceilDiv(columns, cluster * threads * vector);
    bool isIdle = vector * threads * cluster >= 2 * columns && vector * threads > 1;
    bool isEmpty = block > smallestBlock && rows > 1 && rows >= 2 * rowCount;
    bool isLong = storage == RowStorage::Registers ? chunks > mostChunksInRegisters : false;
    if (rows < 1 || isIdle || isEmpty || isLong || (block == 1024 && threads < 1024))
      return;
    TileConfig config{{"threads", threads},
                      {"rows", rows},
                      {"vector", vector},
                      {"storage", static_cast<int64_t>(storage)},
                      {"cluster", cluster}};
    if (RowResources(graph, passes, work, config, target).fit())
      ranked.emplace_back(rowsUs(region, graph, passes, work, config, target), config);
  };
  for (RowStorage storage : storagesFor(work))
    for (int64_t vector : {8, 4, 2, 1})
      for (int64_t threads = 1; threads <= 1024; threads *= 2)
        for (int64_t block : {smallestBlock, int64_t{256}, int64_t{512}, int64_t{1024}})
          consider(vector, threads, block, storage, 1);
  auto considerTile = [&](int64_t vector, int64_t threads, int64_t block, RowStorage storage, int64_t rowsEach) {
    const int64_t rows = block / threads, chunks = ceilDiv(columns, threads * vector);
    const bool isIdle = vector * threads >= 2 * columns && vector * threads > 1;
    const bool isLong = storage == RowStorage::Registers && chunks > mostChunksInRegisters;
    const bool isEmpty = rows * rowsEach > smallestBlock && rows * rowsEach >= 2 * rowCount;
    if (isIdle || isLong || isEmpty || columns % vector != 0 || !work.tile.isWhole(rows * rowsEach))
      return;
    const TileConfig config{{"threads", threads}, {"rows", rows},
                            {"vector", vector},   {"storage", static_cast<int64_t>(storage)},
                            {"cluster", 1},       {"rows_each", rowsEach}};
    if (RowResources(graph, passes, work, config, target).fit())
      ranked.emplace_back(rowsUs(region, graph, passes, work, config, target), config);
  };
  if (!work.tile.isEmpty() && columns <= mostTileColumns)
    for (RowStorage storage : storagesFor(work))
      for (int64_t vector : {8, 4, 2, 1})
        for (int64_t threads : {1, 2, 4, 8, 16, 32})
          for (int64_t block : {smallestBlock, int64_t{256}, int64_t{512}})
            for (int64_t rowsEach : {1, 2, 4})
              if (storage != RowStorage::Shared) // They are there.
                considerTile(vector, threads, block, storage, rowsEach);
  bool hasClusters = target.capability >= 90 && columns >= leastClusterColumns;
  for (RowStorage storage : storagesFor(work))
    for (int64_t vector : {8, 4, 2, 1})
      for (int64_t threads : {128, 256, 512, 1024})
        for (int64_t cluster : {2, 4, 8})
          if (hasClusters && (storage != RowStorage::Reload || passes.count() == 1))
            consider(vector, threads, threads, storage, cluster);
  for (int64_t vector : {8, 4, 2}) {
    ChunkPrinter chunk(graph, graph.graph.domain.reductionDim, vector);
    const RowLoads &loads = work.loads.at(RowStorage::Stream);
    if (loads.kept.empty() || !llvm::all_of(loads.kept, [&](Scalar load) { return chunk.canCopy(load); }))
      continue;
    for (int64_t threads : {128, 256, 512, 1024})
      for (int64_t cluster : {1, 2, 4, 8})
        if (cluster == 1 || hasClusters)
          consider(vector, threads, threads, RowStorage::Stream, cluster);
  }
  return fastest(std::move(ranked), mostCandidates);
}

} // namespace

const KernelTemplate &rowsTemplate() {
  static const RowsTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
