// cuda.transpose: elementwise regions that read an operand along another dimension than they write.
#include "codegen/KernelLimits.h"
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/elementwise/PointwiseText.h"
#include "codegen/cuda/elementwise/Templates.h"
#include "codegen/cuda/elementwise/UnalignedTranspose.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Alignment.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <optional>

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t mostAccessBytes = 16;
constexpr int64_t leastExtent = 8; ///< Fewer points and plain loads share their sectors anyway.
constexpr int64_t mostWords = 96;  ///< Registers for one thread's operands.
constexpr size_t mostCandidates = 32;

/// The dimension along which most bytes are dense that are not dense along the last one; the results' is the last.
std::optional<unsigned> transposedDim(const LinearGraph &graph) {
  unsigned across = graph.extents().size() - 1;
  ChunkPrinter along(graph, across, 2);
  std::vector<double> bytes(graph.extents().size());
  for (Scalar load : along.loadsOf(valuesOf(graph))) {
    const ScalarNode &node = graph[load];
    bool isSimple = node.guards.empty() && node.symbols.empty();
    if (!isSimple || !graph.dependsOn(load, across) || along.vectorAlignment(load) > 0)
      continue;
    for (unsigned dim = 0; dim < across; ++dim)
      if (ChunkPrinter(graph, dim, 2).vectorAlignment(load) > 0)
        bytes[dim] += static_cast<double>(byteWidth(graph.graph.inputs[node.input].type));
  }
  auto most = llvm::max_element(bytes);
  if (*most == 0)
    return std::nullopt;
  return static_cast<unsigned>(most - bytes.begin());
}

/// One region under one config, on its way to text.
class TransposeKernel {
public:
  TransposeKernel(const Region &region, const TileConfig &config, const ir::Target &target)
      : region(region), config(config), target(target), graph(linearised(region.graph, 0)),
        across(graph.extents().size() - 1), down(*transposedDim(graph)), row(graph, across, config["across"]),
        column(graph, down, config["down"]) {
    for (Scalar load : row.loadsOf(valuesOf(graph)))
      (isStaged(graph, load, down, across) ? staged : direct).push_back(load);
    for (unsigned dim = 0; dim < graph.extents().size(); ++dim)
      names.push_back("d" + std::to_string(dim));
  }

  /// Whether a load goes through the transposition: dense down, and not across.
  static bool isStaged(const LinearGraph &graph, Scalar load, unsigned down, unsigned across) {
    const ScalarNode &node = graph[load];
    return node.guards.empty() && node.symbols.empty() && graph.dependsOn(load, across) &&
           ChunkPrinter(graph, across, 2).vectorAlignment(load) == 0 &&
           ChunkPrinter(graph, down, 2).vectorAlignment(load) > 0;
  }

  KernelPlan plan() {
    KernelPlan plan = planOf(region, graph, target);
    Launch launch = launchOf(plan, entryName(region), target);
    launch.needsNoL1 = true;
    auto [height, width] = tileOf(config);
    int64_t batches = graph.graph.domain.points() / graph.extents()[across] / graph.extents()[down];
    launch.grid[0] = static_cast<uint32_t>(batches * ceilDiv(graph.extents()[down], height) *
                                           ceilDiv(graph.extents()[across], width));
    launch.block[0] = static_cast<uint32_t>(32 * config["warps_down"] * config["warps_across"]);
    plan.launches = {launch};
    giveSource(plan, source());
    return plan;
  }

  static int64_t stagedBytes(const LinearGraph &graph, llvm::ArrayRef<Scalar> staged) {
    int64_t bytes = 0;
    for (Scalar load : staged)
      bytes += static_cast<int64_t>(byteWidth(graph.graph.inputs[graph[load].input].type));
    return bytes;
  }

  /// The bytes of a vector of `across` points of each load, as a compiler lays out `struct Transposed`.
  static int64_t transposedBytes(const LinearGraph &graph, llvm::ArrayRef<Scalar> staged, int64_t across) {
    llvm::Align most;
    uint64_t bytes = 0;
    for (Scalar load : staged) {
      const uint64_t size = static_cast<uint64_t>(across) * byteWidth(graph.graph.inputs[graph[load].input].type);
      const llvm::Align own(llvm::MinAlign(size, 16));
      bytes = llvm::alignTo(bytes, own) + size;
      most = std::max(most, own);
    }
    return static_cast<int64_t>(llvm::alignTo(bytes, most));
  }

  /// Elements through a square tile in shared memory, where no vector is aligned.
  static bool isByElements(const TileConfig &config) { return config.valueOr("side", 0) > 0; }
  /// Points of a block: down, across. As device/elementwise/transpose.cuh lays them out.
  static std::pair<int64_t, int64_t> tileOf(const TileConfig &config) {
    if (isByElements(config))
      return {config["side"], config["side"]};
    return {config["down"] * config["lanes_down"] * config["warps_down"],
            config["across"] * (32 / config["lanes_down"]) * config["warps_across"]};
  }

private:
  std::string source() {
    writeHead(writer, region, config, target, "transpose.cuh");
    writer.line("using Index = " + indexType(graph) + ";");
    writer.open("struct Config");
    writer.line("using Index = ::Index;");
    writer.line("static constexpr int down = " + llvm::Twine(config["down"]) +
                ", across = " + llvm::Twine(config["across"]) + "; // Points of a thread along " + names[down] +
                " and " + names[across] + ".");
    writer.line("static constexpr int lanesDown = " + llvm::Twine(config["lanes_down"]) + ", warpsDown = " +
                llvm::Twine(config["warps_down"]) + ", warpsAcross = " + llvm::Twine(config["warps_across"]) + ";");
    writer.line(llvm::Twine("static constexpr bool downFirst = ") + (config["down_first"] ? "true;" : "false;"));
    if (isByElements(config))
      writer.line("static constexpr int side = " + llvm::Twine(config["side"]) + ";");
    writer.line("static constexpr Index extentDown = " + llvm::Twine(graph.extents()[down]) +
                ", extentAcross = " + llvm::Twine(graph.extents()[across]) + ";");
    writer.close(";");
    writer.line();
    writeBody();
    writer.line();
    openEntry(writer, llvm::Twine(32 * config["warps_down"] * config["warps_across"]), entryName(region),
              bufferParameters(region, graph));
    endBehindRun();
    std::vector<Scalar> all = staged;
    llvm::append_range(all, direct);
    const char *function = isByElements(config) ? "transposeElements"
                           : config["shared"]   ? "transposeThroughTile"
                                                : "transposeInRegisters";
    writer.line(function + llvm::Twine("<Config>(Body{") + bufferNames(graph, all) + "});");
    writer.close();
    return writer.str();
  }

  /// A block of a tile that a run does not reach ends.
  void endBehindRun() {
    const auto [height, width] = tileOf(config);
    for (const auto &[dim, member] : {std::pair(down, ".down"), {across, ".across"}})
      if (const std::string extent = runExtent(graph, dim, writer); !extent.empty())
        writer.line("if (TransposeTile<Config, " + llvm::Twine(height) + ", " + llvm::Twine(width) + ">()" + member +
                    " >= " + extent + ") return;");
  }

  void writeBody() {
    writer.open("struct Body");
    std::vector<Scalar> all = staged;
    llvm::append_range(all, direct);
    for (const std::string &member : bufferMembers(graph, all))
      writer.line(member);
    writer.line();
    std::string position = "Index batch, Index " + names[down] + ", Index " + names[across] + ") const";
    writer.open("struct Staged");
    column.declare(writer, staged);
    writer.close(";");
    writer.open("__device__ __forceinline__ void stage(Staged &s, " + position);
    column.load(scopeOf(column, down), staged, "s.", ChunkPrinter::Use::Moved);
    writer.close();
    writer.line();
    writer.open("struct Transposed");
    row.declare(writer, staged);
    writer.close(";");
    writer.open("__device__ __forceinline__ Transposed transposed(const Staged (&s)[Config::across], int r) const");
    writer.line("Transposed t;");
    writer.line("#pragma unroll");
    writer.open("for (int j = 0; j < Config::across; ++j)");
    for (Scalar load : staged)
      writer.line(row.element(load, "t.") + " = s[j].v" + llvm::Twine(load.id) + "[r];");
    writer.close();
    writer.line("return t;");
    writer.close();
    writer.line();
    writer.open("struct Operands");
    row.declare(writer, direct);
    writer.close(";");
    writer.open("__device__ __forceinline__ void load(Operands &x, " + position);
    if (!direct.empty())
      row.load(scopeOf(row, across), direct, "x.");
    writer.close();
    writer.line();
    writer.open("__device__ __forceinline__ void apply(const Transposed &t, const Operands &x, " + position);
    writeApply();
    writer.close();
    writer.close(";");
  }

  void writeApply() {
    ValuePrinter scope = scopeOf(row, across);
    for (auto [i, output] : llvm::enumerate(graph.graph.outputs))
      writer.line("Vector<" + valueType(graph[output.value].type) + ", " + llvm::Twine(config["across"]) + "> y" +
                  llvm::Twine(i) + ";");
    auto elementOf = [this](Scalar load) {
      return "decode(" + row.element(load, llvm::is_contained(staged, load) ? "t." : "x.") + ")";
    };
    row.lanes(
        scope, [](Scalar) { return ""; },
        [&](ValuePrinter &lane) {
          lane.readLoadsBy(elementOf);
          for (auto [i, output] : llvm::enumerate(graph.graph.outputs)) {
            std::string value = lane.value(output.value);
            writer.line("y" + llvm::Twine(i) + "[j] = " + value + ";");
          }
        });
    for (unsigned i = 0; i < graph.graph.outputs.size(); ++i)
      row.store(scope, i);
  }

  /// Names for all dimensions, and how many of a partial chunk's lanes along `dim` exist.
  ValuePrinter scopeOf(const ChunkPrinter &chunk, unsigned dim) {
    llvm::SmallVector<std::string> others;
    llvm::SmallVector<int64_t> extents;
    for (unsigned i = 0; i < names.size(); ++i)
      if (i != down && i != across)
        others.push_back(names[i]), extents.push_back(graph.extents()[i]);
    if (!others.empty())
      writer.line(splitText("batch", extents, others));
    if (chunk.isPartial())
      writer.line("const int lanes = static_cast<int>(minimum(Index(" +
                  llvm::Twine(config[dim == down ? "down" : "across"]) + "), Index(" +
                  llvm::Twine(graph.extents()[dim]) + ") - " + names[dim] + "));");
    return {graph, writer, names};
  }

  const Region &region;
  const TileConfig &config;
  const ir::Target &target;
  LinearGraph graph;
  unsigned across, down;
  ChunkPrinter row, column;
  std::vector<Scalar> staged, direct;
  llvm::SmallVector<std::string> names;
  SourceWriter writer;
};

bool isUnaligned(const TileConfig &config) { return config.valueOr("chunks_down", 0) > 0; }

std::optional<UnalignedTranspose> unalignedOf(const LinearGraph &graph) {
  return UnalignedTranspose::of(graph, *transposedDim(graph), graph.extents().size() - 1);
}

/// How much longer the multiprocessors with the most tiles take than the average: 1000 x 1001 in bf16 take 2.9 us as 64
/// tiles, 2.3 as 256.
double imbalance(double tilesPerSm) { return std::ceil(tilesPerSm) / tilesPerSm; }

/// What the estimates know of an H200, by hand from the times named here (commits 677cbf2, 5270d63, 3e25a22, 73c6873
/// and e8ff2b7; the sweeps were not kept). 268 MB of bf16 take 137.4 us with reads of 128 bytes and writes of 64, 132.4
/// through a tile (rows of 256 bytes), 178 with reads and writes of 64; single elements 176, through tiles of 128 by
/// 128 163 to 168.
struct Coefficients {
  /// A warp's accesses to less than a line take more wavefronts, and leave lines half written for a while.
  double lineBytes = 128, shortRead = 0.25, shortWrite = 0.04;
  double aligned = 1.03, downFirst = 0.01;     ///< Requests of vectors; more where lanes count rows first.
  double elements = 1.4, elementsOfTile = 1.3; ///< Requests of single elements; through tiles of more than 64 by 64.
  double tilesAtOnce = 6;                      ///< Blocks of a multiprocessor that have loads under way.
  double perPoint = 4;                         ///< Instructions beside an element's own.
  double padding = 0.1;                        ///< What shows of columns behind the last.
  // Rows that begin anywhere.
  /// Requests where chunks keep their places in lines, and where they do not: 8191 x 16383 in bf16 139.7 and 143.5 us.
  double inLines = 1.015, anywhere = 1.04;
  double fewWarps = 1.02; ///< Fewer warps make longer chains: 148 us where 15 take 144.
  double tileUs = 1;      ///< Nothing of a tile is written before all of it is there.
};
constexpr Coefficients h200;

/// Modelled microseconds of one config of whole chunks of rows that begin anywhere.
double estimate(const Region &region, const LinearGraph &graph, const UnalignedTranspose &shape,
                const TileConfig &config, const ir::Target &target) {
  auto [height, width] = shape.tileOf(config);
  const double points = static_cast<double>(graph.graph.domain.points()), bytesPerPoint = region.bytesRead / points;
  const int64_t tall = std::min(height, graph.extents()[shape.down]), wide = std::min(width, graph.extents().back());
  const double blocks = points / static_cast<double>(tall * wide) / target.multiprocessors,
               perSm = std::floor(static_cast<double>(target.sharedBytesPerBlock + 1024) /
                                  static_cast<double>(shape.sharedBytes(config) + 1024));
  const double inFlight = std::min(perSm, std::ceil(blocks)) * static_cast<double>(tall * wide) * bytesPerPoint;
  // A chunk more of each row, and `vector` rows more: this alone says 133 us of 8191 x 16383.
  const double vector = static_cast<double>(shape.vector);
  const double sectors = 0.5 * (1 + vector / static_cast<double>(height)) * (1 + vector / static_cast<double>(width)) +
                         0.5 * (1 + vector / static_cast<double>(width));
  const double warps = config["warps"] * 3 <= config["chunks_down"] ? h200.fewWarps : 1,
               requests = config["in_lines"] != 0 && shape.sourcePitch % 2 != 0 ? h200.inLines : h200.anywhere;
  return target.launchUs + h200.tileUs +
         streamUs(region.bytesRead, region.bytesWritten, inFlight, target) * requests * sectors * warps *
             imbalance(blocks);
}

/// Modelled microseconds of one config.
double estimate(const Region &region, const LinearGraph &graph, const TileConfig &config, int64_t stagedBytes,
                const ir::Target &target) {
  double points = static_cast<double>(graph.graph.domain.points());
  double bytesPerPoint = region.bytesRead / points;
  auto [height, width] = TransposeKernel::tileOf(config);
  double threads = static_cast<double>(32 * config["warps_down"] * config["warps_across"]);
  const int64_t tall = std::min(height, graph.extents()[*transposedDim(graph)]),
                wide = std::min(width, graph.extents().back()); // What of a tile there is.
  double inFlight = std::min(static_cast<double>(target.threadsPerSm) / threads, h200.tilesAtOnce) *
                    static_cast<double>(tall * wide) * bytesPerPoint;
  double reads = static_cast<double>(config["lanes_down"] * config["down"] * stagedBytes);
  const int64_t lanesAcross = 32 / config["lanes_down"];
  double writes = static_cast<double>(lanesAcross * config["across"]) * region.bytesWritten / points;
  auto shortOfLine = [](double bytes) { return std::max(0.0, h200.lineBytes / bytes - 1); };
  double requests = TransposeKernel::isByElements(config)
                        ? (config["side"] > 64 ? h200.elementsOfTile : h200.elements)
                        : h200.aligned + h200.shortRead * shortOfLine(reads) +
                              (config["shared"] ? 0
                                                : h200.shortWrite * shortOfLine(writes) +
                                                      h200.downFirst * static_cast<double>(config["down_first"]));
  if (TransposeKernel::isByElements(config))
    requests *= imbalance(points / static_cast<double>(tall * wide) / target.multiprocessors);
  double padding =
      static_cast<double>(ceilDiv(graph.extents().back(), width) * width) / static_cast<double>(graph.extents().back());
  double instructions = h200.perPoint + instructionsOf(graph, valuesOf(graph), [](Scalar) { return false; });
  return target.launchUs + std::max(streamUs(region.bytesRead, region.bytesWritten, inFlight, target) * requests *
                                        (1 - h200.padding + h200.padding * padding),
                                    issueUs(points * instructions, target));
}

class TransposeTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.transpose"; }

  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    if (region.graph.domain.reductionDim >= 0 || region.graph.domain.contractionDim >= 0)
      return ir::FusionDecision::no("holds a reduction");
    if (ir::FusionDecision decision = printable(region); !decision)
      return decision;
    LinearGraph graph = linearised(region.graph, 0);
    std::optional<unsigned> down = transposedDim(graph);
    if (!down)
      return ir::FusionDecision::no("every operand lies along the results");
    if (std::min(graph.extents().back(), graph.extents()[*down]) < leastExtent)
      return ir::FusionDecision::no("a transposed dimension has under " + std::to_string(leastExtent) + " points");
    return ir::FusionDecision::yes();
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override;
  /// Tiles of a batch that a run does not reach are computed.
  bool endsWithRun(const Region &region, const TileConfig &config) const override {
    const LinearGraph graph = linearised(region.graph, 0);
    const std::optional<ir::RunExtent> &end = graph.graph.runExtent;
    return end && !isUnaligned(config) && (end->dim == *transposedDim(graph) || end->dim == graph.extents().size() - 1);
  }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    if (isUnaligned(config)) {
      LinearGraph graph = linearised(region.graph, 0);
      return unalignedOf(graph)->plan(region, graph, config, target);
    }
    return TransposeKernel(region, config, target).plan();
  }

private:
  static std::vector<Scalar> stagedOf(const LinearGraph &graph) {
    unsigned across = graph.extents().size() - 1, down = *transposedDim(graph);
    std::vector<Scalar> staged = ChunkPrinter(graph, across, 1).loadsOf(valuesOf(graph));
    llvm::erase_if(staged, [&](Scalar load) { return !TransposeKernel::isStaged(graph, load, down, across); });
    return staged;
  }
};

std::vector<EstimatedConfig> TransposeTemplate::estimated(const Region &region, const ir::Target &target) const {
  LinearGraph graph = linearised(region.graph, 0);
  unsigned across = graph.extents().size() - 1, down = *transposedDim(graph);
  std::vector<Scalar> staged = stagedOf(graph), all = ChunkPrinter(graph, across, 1).loadsOf(valuesOf(graph));
  int64_t stagedBytes = TransposeKernel::stagedBytes(graph, staged),
          allBytes = TransposeKernel::stagedBytes(graph, all);
  int64_t widestRead = 1, widestWrite = 1;
  for (Scalar load : staged)
    widestRead = std::max<int64_t>(widestRead, byteWidth(graph.graph.inputs[graph[load].input].type));
  for (const ir::ScalarOutput &output : graph.graph.outputs)
    widestWrite = std::max<int64_t>(widestWrite, byteWidth(output.type));

  std::vector<EstimatedConfig> ranked;
  auto consider = [&](TileConfig config) {
    ranked.emplace_back(estimate(region, graph, config, stagedBytes, target), std::move(config));
  };
  for (int64_t r : {8, 4, 2})
    for (int64_t v : {8, 4, 2}) {
      bool isAligned =
          llvm::all_of(staged, [&](Scalar load) { return ChunkPrinter(graph, down, r).vectorAlignment(load) == r; }) &&
          ChunkPrinter(graph, across, v).storesWholeVectors();
      bool isTooWide = r * widestRead > mostAccessBytes || v * widestWrite > mostAccessBytes;
      bool isTooNarrow = r * widestRead < 4 || v * widestWrite < 4;
      bool isTooMuch = r * v * allBytes > 4 * mostWords || r > graph.extents()[down] || v > graph.extents()[across];
      if (!isAligned || isTooWide || isTooNarrow || isTooMuch)
        continue;
      for (int64_t lanes : {4, 8, 16})
        for (auto [warpsDown, warpsAcross] : {std::pair{1, 4}, {2, 2}, {2, 4}, {2, 1}})
          for (int64_t downFirst : {0, 1})
            consider({{"down", r},
                      {"across", v},
                      {"lanes_down", lanes},
                      {"warps_down", warpsDown},
                      {"warps_across", warpsAcross},
                      {"down_first", downFirst},
                      {"shared", 0}});
      for (auto [lanes, warpsDown, warpsAcross] :
           {std::tuple{8, 2, 2}, {8, 1, 4}, {16, 1, 4}, {16, 1, 8}, {16, 2, 8}}) {
        TileConfig config{{"down", r},
                          {"across", v},
                          {"lanes_down", lanes},
                          {"warps_down", warpsDown},
                          {"warps_across", warpsAcross},
                          {"down_first", 0},
                          {"shared", 1}};
        auto [height, width] = TransposeKernel::tileOf(config);
        if (height * (width / v) * TransposeKernel::transposedBytes(graph, staged, v) <= mostStaticShared)
          consider(std::move(config));
      }
    }
  if (const std::optional<UnalignedTranspose> unaligned = unalignedOf(graph))
    // 15 warps and more that keep to lines would spill.
    for (auto [lanes, chunks, warps, inLines] :
         {std::tuple{16, 24, 12, 1}, {16, 16, 8, 1}, {32, 15, 15, 0}, {32, 8, 4, 0}, {16, 8, 4, 0}})
      if (const TileConfig config{
              {"chunks_down", chunks}, {"in_lines", inLines}, {"lanes_across", lanes}, {"warps", warps}};
          unaligned->sharedBytes(config) <= target.sharedBytesPerBlock)
        ranked.emplace_back(estimate(region, graph, *unaligned, config, target), config);
  const int64_t side = stagedBytes <= 4 ? 64 : 32;
  for (auto [elementsSide, warps] : {std::pair<int64_t, int64_t>{side, 8}, {side, 16}, {128, 8}})
    if (elementsSide * (elementsSide + 4) * stagedBytes <= mostStaticShared)
      consider({{"down", 1},
                {"across", 1},
                {"lanes_down", 32},
                {"warps_down", 1},
                {"warps_across", warps},
                {"down_first", 0},
                {"shared", 1},
                {"side", elementsSide}});
  return fastest(std::move(ranked), mostCandidates);
}

} // namespace

const KernelTemplate &transposeTemplate() {
  static const TransposeTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
