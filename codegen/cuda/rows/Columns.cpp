// cuda.columns: reductions over a dimension that is not the dense one, as the sum of a matrix's rows.
#include "codegen/KernelLimits.h"
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/rows/RowPasses.h"
#include "codegen/cuda/rows/Templates.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"
#include "codegen/cuda/text/LastBlock.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <optional>

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t mostAccessBytes = 16;
constexpr size_t mostCandidates = 40;

/// Loads of a column reduction, and the dimension along which its blocks lie.
struct ColumnAccess {
  std::vector<Scalar> loads; ///< Read at every row.
  std::optional<unsigned> across;

  ColumnAccess(const LinearGraph &graph, const RowPasses &passes) {
    unsigned reduced = graph.graph.domain.reductionDim;
    loads = ChunkPrinter(graph, reduced, 1).loadsOf(passes.roots(graph, 0));
    ChunkPrinter alongRows(graph, reduced, 2);
    std::vector<double> bytes(graph.extents().size());
    for (Scalar load : loads)
      for (unsigned dim = 0; dim < graph.extents().size(); ++dim)
        if (graph.dependsOn(load, reduced) && ChunkPrinter(graph, dim, 2).vectorAlignment(load) > 0)
          bytes[dim] += static_cast<double>(byteWidth(graph.graph.inputs[graph[load].input].type));
    auto most = llvm::max_element(bytes);
    if (*most > bytes[reduced])
      across = static_cast<unsigned>(most - bytes.begin());
  }
};

/// The bytes of a thread's totals. Vectors are aligned to their size, 16 bytes at most.
int64_t totalsBytes(const LinearGraph &graph, const RowPasses &passes, int64_t vector) {
  int64_t bytes = 0;
  for (Scalar reduction : passes.reductions[0])
    bytes = llvm::alignTo(bytes, mostAccessBytes) + vector * byteWidth(graph[reduction].type);
  return llvm::alignTo(bytes, mostAccessBytes);
}

/// One region under one config, on its way to text.
class ColumnKernel {
public:
  ColumnKernel(const Region &region, const TileConfig &config, const ir::Target &target)
      : region(region), config(config), target(target), graph(linearised(region.graph, 1)), passes(graph),
        reduced(graph.graph.domain.reductionDim), access(graph, passes), across(access.across.value()),
        chunk(graph, across, config["vector"]) {
    for (unsigned dim = 0; dim < graph.extents().size(); ++dim)
      names.push_back("d" + std::to_string(dim));
    for (const ir::ScalarOutput &output : graph.graph.outputs)
      values.push_back(output.value);
    extras = chunk.loadsOf(values, passes.reductions[0]);
  }

  KernelPlan plan() {
    KernelPlan plan = planOf(region, graph, target);
    Launch launch = launchOf(plan, entryName(region), target);
    int64_t columns = graph.extents()[across], splits = config["splits"];
    int64_t batches = graph.graph.domain.points() / columns / graph.extents()[reduced];
    int64_t tiles = batches * ceilDiv(columns, config["lanes"] * config["vector"]);
    launch.grid[0] = static_cast<uint32_t>(tiles);
    launch.grid[1] = static_cast<uint32_t>(splits);
    launch.block[0] = static_cast<uint32_t>(config["lanes"] * config["groups"]);
    if (splits > 1)
      addLastBlock(plan, launch, tiles, tiles * splits * config["lanes"] * totalsBytes());
    plan.launches = {launch};
    giveSource(plan, source());
    return plan;
  }

private:
  int64_t totalsBytes() const { return cuda::totalsBytes(graph, passes, config["vector"]); }

  std::string source() {
    writeHead(writer, region, config, target, "columns.cuh");
    writer.line("using Index = " + indexType(graph) + ";");
    writer.open("struct Config");
    writer.line("using Index = ::Index;");
    writer.line("static constexpr int vector = " + llvm::Twine(config["vector"]) +
                ", lanes = " + llvm::Twine(config["lanes"]) + ", groups = " + llvm::Twine(config["groups"]) +
                ", unroll = " + llvm::Twine(config["unroll"]) + ", splits = " + llvm::Twine(config["splits"]) + ";");
    writer.line("static constexpr Index columns = " + llvm::Twine(graph.extents()[across]) +
                ", rows = " + llvm::Twine(graph.extents()[reduced]) + ";");
    writer.close(";");
    writer.line();
    writeBody();
    writer.line();
    bool isSplit = config["splits"] > 1;
    openEntry(writer, "Config::lanes * Config::groups", entryName(region),
              bufferParameters(region, graph) + (isSplit ? ", unsigned *arrivals, Body::Totals *partials" : ""));
    std::vector<Scalar> all = access.loads;
    llvm::append_range(all, extras);
    writer.line("const Body body{" + bufferNames(graph, all) + "};");
    writer.line("const ColumnReduction<Config, Body> columns{body};");
    endRun();
    writer.line(llvm::Twine("columns.run(") + (isSplit ? "arrivals, partials" : "nullptr, nullptr") + ");");
    writer.close();
    return writer.str();
  }

  /// Blocks whose columns, or batches of them, are all behind those of the run end at once.
  void endRun() {
    const std::optional<ir::RunExtent> &end = graph.graph.runExtent;
    if (!end)
      return;
    const std::string count = runExtent(graph, end->dim, writer);
    splitBatch("columns.batch");
    writer.line("if (" + (end->dim == across ? "columns.first()" : names[end->dim]) + " >= " + count + ") return;");
  }

  void writeBody() {
    writer.open("struct Body");
    std::vector<Scalar> all = access.loads;
    llvm::append_range(all, extras);
    for (const std::string &member : bufferMembers(graph, all))
      writer.line(member);
    writer.line();
    writeTotals();
    writer.line();
    writer.open("struct Operands");
    chunk.declare(writer, access.loads);
    writer.close(";");
    std::string column = "Index batch, Index " + names[across], position = column + ", Index " + names[reduced];
    writer.open("__device__ __forceinline__ void load(Operands &x, " + position + ") const");
    chunk.load(scope(), access.loads, "x.");
    writer.close();
    writer.open("__device__ __forceinline__ void add(Totals &totals, const Operands &x, " + position + ") const");
    chunk.lanes(
        scope(), [](Scalar) { return "x."; },
        [&](ValuePrinter &lane) {
          for (Scalar reduction : passes.reductions[0]) {
            std::string value = lane.value(graph[reduction].operands[0]);
            combine(reduction, "totals." + total(reduction), value);
          }
        });
    writer.close();
    writer.open("__device__ __forceinline__ void finish(const Totals &totals, " + column + ") const");
    writeFinish();
    writer.close();
    writer.close(";");
  }

  std::string total(Scalar reduction) const { return "a" + std::to_string(reduction.id) + "[j]"; }
  std::string operation(Scalar reduction) const { return reductionTypeName(graph[reduction].function).str(); }
  void combine(Scalar reduction, const std::string &to, const std::string &value) {
    writer.line(to + " = " + operation(reduction) + "::combine(" + to + ", " + value + ");");
  }
  void forEachTotal(llvm::function_ref<void(Scalar)> body) {
    writer.line("#pragma unroll");
    writer.open("for (int j = 0; j < Config::vector; ++j)");
    for (Scalar reduction : passes.reductions[0])
      body(reduction);
    writer.close();
  }

  void writeTotals() {
    writer.open("struct alignas(16) Totals");
    for (Scalar reduction : passes.reductions[0])
      writer.line("Vector<" + valueType(graph[reduction].type) + ", Config::vector> a" + llvm::Twine(reduction.id) +
                  "; // " + graph[reduction].function);
    writer.open("static __device__ __forceinline__ Totals identity()");
    writer.line("Totals t;");
    forEachTotal([&](Scalar reduction) {
      writer.line("t." + total(reduction) + " = " + operation(reduction) + "::identity<" +
                  valueType(graph[reduction].type) + ">();");
    });
    writer.line("return t;");
    writer.close();
    writer.open("__device__ __forceinline__ void merge(const Totals &other)");
    forEachTotal([&](Scalar reduction) { combine(reduction, total(reduction), "other." + total(reduction)); });
    writer.close();
    writer.close(";");
  }

  void writeFinish() {
    ValuePrinter at = scope();
    // Addresses may hold them, too: a row that a reduction selects. One that all columns share is that of the first.
    for (Scalar reduction : passes.reductions[0])
      at.define(reduction,
                "totals.a" + std::to_string(reduction.id) + (graph.dependsOn(reduction, across) ? "[j]" : "[0]"));
    chunk.storeResults(at, values, extras);
  }

  /// Names the dimensions of a batch.
  void splitBatch(llvm::StringRef batch) {
    llvm::SmallVector<std::string> others;
    llvm::SmallVector<int64_t> extents;
    for (unsigned i = 0; i < names.size(); ++i)
      if (i != across && i != reduced)
        others.push_back(names[i]), extents.push_back(graph.extents()[i]);
    if (!others.empty())
      writer.line(splitText(batch, extents, others));
  }

  ValuePrinter scope() {
    splitBatch("batch");
    if (chunk.isPartial())
      writer.line("const int lanes = static_cast<int>(minimum(Index(" + llvm::Twine(config["vector"]) + "), Index(" +
                  llvm::Twine(graph.extents()[across]) + ") - " + names[across] + "));");
    return {graph, writer, names};
  }

  const Region &region;
  const TileConfig &config;
  const ir::Target &target;
  LinearGraph graph;
  RowPasses passes;
  unsigned reduced;
  ColumnAccess access;
  unsigned across;
  ChunkPrinter chunk;
  std::vector<Scalar> values, extras;
  llvm::SmallVector<std::string> names;
  SourceWriter writer;
};

/// What the estimate knows of an H200. Where no time is named, the constants are by hand, so that the best of its
/// configs come first (commits 677cbf2 and 3e02a1d; the sweeps were not kept).
struct Coefficients {
  double threadsOfSm = 1024;           ///< Wide accumulators and unrolled operands take about 64 registers.
  double perRow = 2, perAccess = 8;    ///< Instructions beside an element's: a row's, and a vector's.
  double splitUs = 1.5, mergeUs = 0.3; ///< The last block: totals written, counted and read again; rounds of these.
  double mergedAtOnce = 8;             ///< Totals that a group of threads has under way.
  /// Blocks of a wave end together, and those of the next start together: 8192 x 4096 takes 21.6 us in two waves, 19.2
  /// in one. So do the threads of a block: 262144 x 512 takes 64.1, 63.7, 64.2 and 71.2 us with 128, 256, 512 and 1024.
  double waveUs = 1, mostWaves = 4, threadUs = 0.003;
  /// What shows of multiprocessors that are idle at the end, of columns behind the last, and of rows of a block that
  /// are shorter than a line.
  double tail = 0.25, padding = 0.2, narrow = 0.1, lineBytes = 128;
};
constexpr Coefficients h200;

/// Modelled microseconds of one config.
double estimate(const Region &region, const LinearGraph &graph, const RowPasses &passes, const ColumnAccess &access,
                const TileConfig &config, const ir::Target &target) {
  double points = static_cast<double>(graph.graph.domain.points());
  int64_t columns = graph.extents()[*access.across], rows = graph.extents()[graph.graph.domain.reductionDim];
  int64_t width = config["lanes"] * config["vector"], threads = config["lanes"] * config["groups"];
  double tiles = static_cast<double>(ceilDiv(columns, width)) * points / static_cast<double>(columns * rows);
  double blocks = tiles * static_cast<double>(config["splits"]);
  double bytesPerPoint = region.bytesRead / points;
  double most = std::max(1.0, std::floor(h200.threadsOfSm / static_cast<double>(threads)));
  double resident = std::min(most, blocks / target.multiprocessors);
  double inFlight = resident * static_cast<double>(threads * config["vector"] * config["unroll"]) * bytesPerPoint;
  double waves = std::ceil(blocks / (target.multiprocessors * most)) / (blocks / (target.multiprocessors * most));
  double tail = blocks > target.multiprocessors * most
                    ? waves
                    : std::max(1.0, std::ceil(blocks / target.multiprocessors) / (blocks / target.multiprocessors));
  double padding = static_cast<double>(ceilDiv(columns, width) * width) / static_cast<double>(columns);
  double narrow = std::max(1.0, h200.lineBytes / (static_cast<double>(width) * bytesPerPoint));
  double instructions = h200.perRow + h200.perAccess / static_cast<double>(config["vector"]) +
                        instructionsOf(graph, passes.roots(graph, 0), [](Scalar) { return false; });
  double partials =
      config["splits"] > 1
          ? h200.splitUs + h200.mergeUs * std::ceil(static_cast<double>(config["splits"]) /
                                                    (h200.mergedAtOnce * static_cast<double>(config["groups"])))
          : 0;
  double further = std::clamp(std::ceil(blocks / (target.multiprocessors * most)), 1.0, h200.mostWaves) - 1;
  auto shown = [](double share, double ratio) { return 1 - share + share * ratio; };
  return target.launchUs + partials + further * h200.waveUs + h200.threadUs * static_cast<double>(threads) +
         std::max(streamUs(region.bytesRead, region.bytesWritten, inFlight, target) * shown(h200.tail, tail) *
                      shown(h200.padding, padding) * shown(h200.narrow, narrow),
                  issueUs(points * padding * instructions, target));
}

class ColumnsTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.columns"; }

  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    if (region.graph.domain.contractionDim >= 0)
      return ir::FusionDecision::no("holds a matrix product");
    if (region.graph.domain.reductionDim < 0)
      return ir::FusionDecision::no("holds no reduction");
    for (const ScalarNode &node : region.graph.nodes)
      if (node.kind == ScalarNode::Kind::Reduce && reductionTypeName(node.function).empty())
        return ir::FusionDecision::no("no CUDA text for the reduction '" + node.function + "'");
    LinearGraph graph = linearised(region.graph, 1);
    RowPasses passes(graph);
    if (passes.reductions.size() != 1 || !passes.elementOutputs.empty())
      return ir::FusionDecision::no("passes over its rows more than once");
    if (!ColumnAccess(graph, passes).across)
      return ir::FusionDecision::no("reduces along the dense dimension");
    return printable(region);
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override;
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return ColumnKernel(region, config, target).plan();
  }
};

std::vector<EstimatedConfig> ColumnsTemplate::estimated(const Region &region, const ir::Target &target) const {
  LinearGraph graph = linearised(region.graph, 1);
  RowPasses passes(graph);
  ColumnAccess access(graph, passes);
  int64_t columns = graph.extents()[*access.across], rows = graph.extents()[graph.graph.domain.reductionDim];
  int64_t widest = 1;
  for (Scalar load : access.loads)
    widest = std::max<int64_t>(widest, byteWidth(graph.graph.inputs[graph[load].input].type));
  std::vector<EstimatedConfig> ranked;
  auto add = [&](const TileConfig &config) {
    ranked.emplace_back(estimate(region, graph, passes, access, config, target), config);
  };
  auto consider = [&](const TileConfig &config) {
    int64_t width = config["lanes"] * config["vector"], threads = config["lanes"] * config["groups"];
    bool isIdle = (config["lanes"] > 8 && width >= 2 * columns) || config["groups"] * config["splits"] > 2 * rows;
    bool isTooMany = config["splits"] > 1 && ceilDiv(columns, width) * config["splits"] > 16 * target.multiprocessors;
    // The groups' totals lie in static shared memory.
    bool isTooLarge = threads * totalsBytes(graph, passes, config["vector"]) + 64 > mostStaticShared;
    if (threads < 128 || threads > 1024 || isIdle || isTooMany || isTooLarge)
      return;
    add(config);
  };
  for (int64_t vector : {8, 4, 2, 1}) {
    bool isAligned = llvm::all_of(access.loads, [&](Scalar load) {
      int64_t alignment = ChunkPrinter(graph, *access.across, vector).vectorAlignment(load);
      return alignment == 0 || alignment == vector;
    });
    if (vector > 1 && (vector * widest > mostAccessBytes || !isAligned))
      continue;
    for (int64_t lanes : {8, 16, 32, 64})
      for (int64_t groups : {2, 4, 8, 16, 32})
        for (int64_t unroll : {4, 8})
          for (int64_t splits = 1; splits <= 512; splits *= 2)
            consider(
                {{"vector", vector}, {"lanes", lanes}, {"groups", groups}, {"unroll", unroll}, {"splits", splits}});
  }
  if (ranked.empty()) // A handful of points: one block does it.
    add({{"vector", 1}, {"lanes", 32}, {"groups", 4}, {"unroll", 4}, {"splits", 1}});
  return fastest(std::move(ranked), mostCandidates);
}

} // namespace

const KernelTemplate &columnsTemplate() {
  static const ColumnsTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
