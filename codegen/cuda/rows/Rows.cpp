// cuda.rows: regions with row reductions. A row is read once, kept, and passed over once for each
// stage of reductions (softmax: maximum, sum, result).
#include "codegen/cuda/rows/RowPrinter.h"
#include "codegen/cuda/rows/RowTile.h"
#include "codegen/cuda/rows/Templates.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Clusters.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t mostChunksInRegisters = 16; ///< Unrolled passes grow with them.
constexpr int64_t leastClusterColumns = 8192; ///< Shorter rows fit one block's registers.
constexpr size_t mostCandidates = 48;

RowStorage storageOf(const TileConfig &config) { return static_cast<RowStorage>(config["storage"]); }

/// Rows that each of a block's groups of threads takes of a tile in shared memory; 0 where there is no tile.
int64_t rowsEachOf(const TileConfig &config) { return config.valueOr("rows_each", 0); }
int64_t rowsOfBlock(const TileConfig &config) { return config["rows"] * std::max<int64_t>(1, rowsEachOf(config)); }

/// What a thread takes for a row.
int64_t chunksOf(const LinearGraph &graph, const TileConfig &config) {
  return ceilDiv(graph.extents().back(), config["cluster"] * config["threads"] * config["vector"]);
}

/// What no config changes.
struct RowWork {
  RowWork(const LinearGraph &graph, const RowPasses &passes) : tile(graph) {
    const unsigned columnDim = graph.graph.domain.reductionDim;
    const ChunkPrinter chunk(graph, columnDim, 1);
    for (RowStorage storage : {RowStorage::Registers, RowStorage::Shared, RowStorage::Reload, RowStorage::Stream})
      loads.try_emplace(storage, graph, passes, chunk, storage);
    for (size_t pass = 0; pass < passes.count(); ++pass)
      instructions += 1 + instructionsOf(graph, passes.roots(graph, pass),
                                         [&](Scalar s) { return !graph.dependsOn(s, columnDim); });
  }

  const RowLoads &loadsOf(const TileConfig &config) const { return loads.at(storageOf(config)); }

  std::map<RowStorage, RowLoads> loads;
  double instructions = 0; ///< For an element, in all passes.
  RowTile tile;
};

/// What a config asks of an SM, before it is compiled.
struct RowResources {
  double registers = 0; ///< Per thread.
  int64_t sharedBytes = 0;
  int64_t blocksPerSm = 0;

  RowResources(const LinearGraph &graph, const RowPasses &passes, const RowWork &work, const TileConfig &config,
               const ir::Target &target) {
    const RowLoads &loads = work.loadsOf(config);
    int64_t vector = config["vector"], block = config["threads"] * config["rows"];
    int64_t chunks = chunksOf(graph, config);
    ChunkPrinter chunk(graph, graph.graph.domain.reductionDim, vector);
    auto storage = storageOf(config);
    double inFlight = 0;
    for (const std::vector<Scalar> &own : loads.own)
      inFlight =
          std::max(inFlight, static_cast<double>(own.size() * vector * std::min(chunks, RowPrinter::chunksInFlight)));
    double accumulators = 0;
    for (const std::vector<Scalar> &reductions : passes.reductions)
      accumulators = std::max(accumulators, static_cast<double>(reductions.size() * vector));
    // Kept elements stay decoded: ptxas would rather hold a float than convert it again.
    double kept = storage == RowStorage::Registers ? static_cast<double>(loads.kept.size() * vector * chunks) : 0;
    registers = 32 + kept + inFlight + accumulators;
    if (storage == RowStorage::Stream) { // Its loops keep operands as they are stored: 32 to 54 registers.
      double packed = 0;
      for (const std::vector<Scalar> &own : loads.own) {
        const int64_t words = chunk.bytesOf(own) / 4 * std::min(chunks, RowPrinter::chunksInFlight);
        packed = std::max(packed, static_cast<double>(words));
      }
      registers = 32 + std::max(packed, accumulators);
    }
    if (storage == RowStorage::Shared || storage == RowStorage::Stream)
      sharedBytes = (storage == RowStorage::Stream ? 2 : 1) * block * chunks * chunk.bytesOf(loads.kept);
    if (rowsEachOf(config) > 0)
      sharedBytes = work.tile.bytesOf(rowsOfBlock(config));
    blocksPerSm = target.threadsPerSm / block;
    blocksPerSm =
        std::min(blocksPerSm, static_cast<int64_t>(target.registersPerSm / (registers * static_cast<double>(block))));
    if (sharedBytes > 0)
      blocksPerSm = std::min(blocksPerSm, target.sharedBytesPerBlock / (sharedBytes + 1024));
  }
  bool fit() const { return blocksPerSm >= 1 && registers <= 224; }
};

/// Rows that fit on the device together.
int64_t rowsAtOnce(const RowResources &resources, const TileConfig &config, const ir::Target &target) {
  // Clusters of 4 and more leave 12 of Hopper's 132 SMs unused: its groups of SMs are no multiples of them.
  int64_t usable = config["cluster"] > 2 ? target.multiprocessors * 10 / 11 : target.multiprocessors;
  return std::max<int64_t>(usable * resources.blocksPerSm / config["cluster"], 1);
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
      setPersistentGrid(launch, rowCount * config["cluster"], rowsAtOnce(resources, config, target) * config["cluster"],
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
    row.writeConfig(config["threads"], config["rows"], config["cluster"], rowCount);
    if (isTiled)
      writeTiled();
    else
      writeEntry();
    return writer.str();
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
    const std::string extent = columnDim > 0 ? runExtent(scope, graph, 0) : "";
    if (extent.empty())
      return "";
    writer.line("const Index runRows = " + extent + " * " + llvm::Twine(rowCount / graph.extents().front()) + ";");
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

/// What the estimate knows, beside streamingGridUs(), with which these were fitted to kernels of an H200 (commit
/// a15c9e7) where nothing else is said. The sweeps were not kept.
struct Coefficients {
  // Instructions of a thread.
  double perChunk = 1, perAccess = 2, fromShared = 12; ///< Beside those of the elements, for each pass over a chunk.
  double unalignedAccess = 2, line = 4; ///< By the order of 48 configs of layer_norm of 49 and 197 columns (10dddde).
  double ofTile = 60, ofPiece = 4, ofRow = 20, ofElement = 1, ofElementAgain = 4,
         ofConflict = 1; ///< Rows in tiles; fitted to 54 cases of 33 to 300 columns on an H100 (10dddde).
  // What a row waits for.
  double shuffleUs = 0.02, barrierUs = 0.05, warpUs = 0.03, clusterUs = 0.5; ///< Each stage of reductions.
  double batchUs = 0.36, rereadUs = 1; ///< Further chunks in flight; each pass that reads them again.
  double turnUs = 0.6;                 ///< A streamed row after the one before.
};
constexpr Coefficients h200;

/// What the accesses of a chunk to rows that begin anywhere take beyond one instruction each: so many more of fewer
/// elements, and the lines of 128 bytes that a warp touches with one, which L1 looks up one after the other, beyond
/// those that it would with its lanes side by side.
double unalignedInstructions(const LinearGraph &graph, const RowPasses &passes, const RowWork &work,
                             const TileConfig &config) {
  constexpr int64_t warp = 32, lineBytes = 128, leastBytes = 8; // Rows that vectors of these divide are aligned.
  const int64_t columns = graph.extents().back(), vector = config["vector"], threads = config["threads"];
  const ChunkPrinter chunk(graph, graph.graph.domain.reductionDim, vector);
  double instructions = 0;
  auto add = [&](int64_t alignment, DType type) {
    const auto bytes = static_cast<int64_t>(byteWidth(type));
    if (alignment == 0 || (alignment == vector && vector * bytes >= leastBytes))
      return;
    std::set<int64_t> lines;
    for (int64_t lane = 0; lane < warp; ++lane)
      lines.insert((lane / threads * columns + lane % threads * vector) * bytes / lineBytes);
    const auto further = static_cast<double>(lines.size() - ceilDiv(warp * alignment * bytes, lineBytes));
    instructions +=
        static_cast<double>(vector / alignment) * (h200.unalignedAccess + h200.line * further) - h200.unalignedAccess;
  };
  auto addLoads = [&](const std::vector<Scalar> &loads) {
    for (Scalar load : loads)
      add(chunk.vectorAlignment(load), graph.graph.inputs[graph[load].input].type);
  };
  addLoads(work.loadsOf(config).kept);
  for (const std::vector<Scalar> &own : work.loadsOf(config).own)
    addLoads(own);
  for (unsigned output : passes.elementOutputs)
    add(chunk.storeAlignment(output), graph.graph.outputs[output].type);
  return instructions;
}

/// Instructions of a thread for its part of a row.
double instructionsPerThread(const LinearGraph &graph, const RowPasses &passes, const RowWork &work,
                             const TileConfig &config) {
  RowStorage storage = storageOf(config);
  const RowLoads &loads = work.loadsOf(config);
  double accesses = static_cast<double>(loads.kept.size() + passes.elementOutputs.size());
  for (const std::vector<Scalar> &own : loads.own)
    accesses += static_cast<double>(own.size());
  bool isShared = storage == RowStorage::Shared || storage == RowStorage::Stream;
  double ofChunk = static_cast<double>(config["vector"]) * work.instructions + h200.perAccess * accesses +
                   static_cast<double>(passes.count()) * (h200.perChunk + (isShared ? h200.fromShared : 0));
  if (rowsEachOf(config) == 0)
    return static_cast<double>(chunksOf(graph, config)) *
           (ofChunk + unalignedInstructions(graph, passes, work, config));
  // Pieces of 16 bytes are brought and given; single elements come from shared memory, again in each pass where
  // registers do not keep them.
  const double turns = work.tile.bankTurns(config["threads"], config["vector"]) - 1;
  ofChunk += accesses * ((storage == RowStorage::Registers ? h200.ofElement : h200.ofElementAgain) - h200.perAccess +
                         h200.ofConflict * turns);
  const double each = static_cast<double>(chunksOf(graph, config)) * ofChunk + h200.ofRow;
  const double pieces = 2 * static_cast<double>(work.tile.bytesOf(rowsOfBlock(config))) /
                        static_cast<double>(16 * config["threads"] * config["rows"]);
  return h200.ofTile + pieces * h200.ofPiece + static_cast<double>(rowsEachOf(config)) * each;
}

/// What a row waits for beyond its first bytes.
double waitsUs(const LinearGraph &graph, const RowPasses &passes, const TileConfig &config) {
  double warps = static_cast<double>(config["threads"] * config["rows"]) / 32;
  double stageUs = h200.shuffleUs + (config["threads"] > 32 ? h200.barrierUs + h200.warpUs * warps : 0) +
                   (config["cluster"] > 1 ? h200.clusterUs : 0);
  double us = static_cast<double>(passes.reductions.size()) * stageUs;
  RowStorage storage = storageOf(config);
  if (rowsEachOf(config) > 0)
    return us * static_cast<double>(rowsEachOf(config)) + 2 * h200.barrierUs;
  if (storage == RowStorage::Shared || storage == RowStorage::Reload)
    us += static_cast<double>(ceilDiv(chunksOf(graph, config), RowPrinter::chunksInFlight) - 1) * h200.batchUs;
  if (storage == RowStorage::Reload)
    us += static_cast<double>(passes.count() - 1) * h200.rereadUs;
  return storage == RowStorage::Stream ? us + h200.turnUs : us;
}

/// Modelled microseconds of one config.
double estimate(const Region &region, const LinearGraph &graph, const RowPasses &passes, const RowWork &work,
                const TileConfig &config, const ir::Target &target) {
  ChunkPrinter chunk(graph, graph.graph.domain.reductionDim, config["vector"]);
  RowResources resources(graph, passes, work, config, target);
  double rows = static_cast<double>(graph.graph.domain.points()) / static_cast<double>(graph.extents().back());

  StreamingGrid grid;
  grid.blocks = std::ceil(rows / static_cast<double>(rowsOfBlock(config))) * static_cast<double>(config["cluster"]);
  grid.threads = std::max(32.0, static_cast<double>(config["threads"] * config["rows"]));
  grid.blocksPerSm = static_cast<double>(std::max<int64_t>(1, resources.blocksPerSm));
  grid.instructions = instructionsPerThread(graph, passes, work, config);
  grid.waitsUs = waitsUs(graph, passes, config);
  grid.startsOnce = storageOf(config) == RowStorage::Stream;

  // Neighbouring lanes read neighbouring columns; of a strided row each lane would fetch 32 bytes.
  double waste = 1;
  for (const ScalarNode &node : graph.graph.nodes)
    if (node.kind == ScalarNode::Kind::Load)
      waste = std::max(waste, chunk.sectorWaste(node, config["rows"]));
  double onSms = std::min(grid.blocks, grid.blocksPerSm * target.multiprocessors) *
                 static_cast<double>(config["rows"]) / static_cast<double>(config["cluster"]);
  const bool isTiled = rowsEachOf(config) > 0;
  bool staysInL2 = onSms * region.bytesRead / rows < target.l2Bytes / 2;
  double rereads = storageOf(config) == RowStorage::Reload && !isTiled
                       ? static_cast<double>(passes.count() - 1) * (staysInL2 ? 0.4 : 1)
                       : 0;
  grid.bytes = region.bytesRead * waste * (1 + rereads) + region.bytesWritten;
  // Where one block holds many rows the others hide as much: streams were 4 to 40 % slower. With two rows a block a
  // stream took 10.4 us, the best of the others 11.3 (layer_norm 2048x4096, whose variance may need a second exchange);
  // with one row there is nothing to stream.
  const auto atOnce = static_cast<double>(rowsAtOnce(resources, config, target));
  if (grid.startsOnce && config["cluster"] == 1)
    grid.bytes *= !passes.spreads.empty() && rows > atOnce && rows <= 4 * atOnce ? 0.9 : 1.08;
  // Two operands in vectors of eight: rows of 131072 took 722 to 794 us, in vectors of four 537 to 621.
  if (grid.startsOnce && chunk.bytesOf(work.loadsOf(config).kept) > 16)
    grid.bytes *= 1.35;
  // Clusters that start anew for each row of 131072 took 2 to 15 % more than streams, pairs of blocks and rows in
  // registers 30 to 45 %.
  if (!grid.startsOnce && config["cluster"] > 1)
    grid.bytes *= storageOf(config) == RowStorage::Registers ? 1.4 : config["cluster"] == 2 ? 1.3 : 1.06;
  return target.launchUs + streamingGridUs(grid, target);
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
      ranked.emplace_back(estimate(region, graph, passes, work, config, target), config);
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
      ranked.emplace_back(estimate(region, graph, passes, work, config, target), config);
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
