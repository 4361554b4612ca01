#include "codegen/cuda/rows/WindowBands.h"

#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"
#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Guard;
using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t sequencesOfBlock = 16, acrossOfWarp = 8, deep = 16; ///< A product of tensor cores.
constexpr int64_t vector = 4;                                         ///< Neighbours across that a thread stores.

/// Whether an index is a multiple of `by` at every point.
bool isMultipleOf(AffineExpr index, int64_t by) {
  SmallVector<ir::IndexTerm> terms;
  ir::collectTerms(index, 1, terms);
  return llvm::all_of(terms, [&](const ir::IndexTerm &term) { return term.coefficient % by == 0; });
}

AffineExpr with(AffineExpr index, unsigned dim, int64_t value) {
  MLIRContext *context = index.getContext();
  return index.replace(getAffineDimExpr(dim, context), getAffineConstantExpr(value, context));
}

int64_t tilesAcross(const WindowProblem &problem) {
  return ceilDiv(problem.graph.extents()[problem.strip], acrossOfWarp);
}

/// Zeros ahead of a row's positions, as device/rows/window_bands.cuh has them.
int64_t leadOf(const WindowBands &bands) { return ceilDiv(bands.before, 4) * 4; }

/// A ring of rows of positions, and two rows of results.
int64_t sharedBytes(const WindowProblem &problem, const WindowBands &bands, int64_t stages) {
  const int64_t results = tilesAcross(problem) * acrossOfWarp,
                elements = std::max(results + deep - acrossOfWarp, leadOf(bands) + bands.width),
                ofPositions = (ceilDiv(elements, 8) | 1) * 16, ofResults = ((results + 23) / 32 * 32 + 8) * 4;
  return sequencesOfBlock * (stages * ofPositions + 2 * ofResults);
}

/// The two loads whose products are summed, and nothing else.
bool findLoads(const WindowProblem &problem, WindowBands &bands) {
  if (problem.reductions.size() != 1 || problem.operands.size() != 2)
    return false;
  const ScalarNode &sum = problem.graph[problem.reductions.front()], &product = problem.graph[sum.operands[0]];
  if (sum.function != "sum" || product.function != "mul")
    return false;
  for (const WindowOperand &operand : problem.operands) {
    if (!llvm::is_contained(product.operands, operand.load))
      return false;
    if (operand.along == WindowOperand::Along::Window && operand.unit == 1 && operand.slidesDown)
      bands.images = operand.load;
    if (operand.along == WindowOperand::Along::Tap && problem.graph[operand.load].guards.empty() &&
        !problem.graph.dependsOn(operand.load, *problem.down))
      bands.weights = operand.load;
  }
  if (!bands.images || !bands.weights)
    return false;
  auto typeOf = [&](Scalar load) { return problem.graph.graph.inputs[problem.graph[load].input].type; };
  const DType type = typeOf(bands.images);
  return type == typeOf(bands.weights) && (type == DType::BF16 || type == DType::F16);
}

/// Where a row's positions begin and end, by the guard of the images that moves with them.
bool findRow(const WindowProblem &problem, WindowBands &bands) {
  const ScalarNode &images = problem.graph[bands.images];
  bands.width = problem.positions(problem.graph.extents()[problem.strip]);
  bool isBound = false;
  for (const Guard &guard : images.guards) {
    auto isOf = [&](unsigned dim) { return guard.index.isFunctionOfDim(dim); };
    if (isOf(problem.strip)) {
      std::optional<int64_t> step = coefficientOf(guard.index, problem.strip);
      auto first = dyn_cast<AffineConstantExpr>(
          ir::simplifyIndex(with(with(guard.index, problem.strip, 0), problem.tap, 0), problem.graph.extents(), {}));
      if (isBound || step != 1 || !first)
        return false;
      isBound = true;
      bands.before = guard.low - first.getValue();
      bands.width = guard.high - guard.low;
    } else if (llvm::any_of(bands.sequenceDims, isOf)) {
      return false;
    }
  }
  const AffineExpr row = with(with(images.map.getResult(0), problem.strip, 0), problem.tap, bands.before);
  std::optional<int64_t> stride = coefficientOf(row, problem.rowTap);
  if (bands.before < 0 || !stride)
    return false;
  bands.rowStride = *stride;
  for (int64_t piece : {4, 2})
    if (bands.piece == 0 && bands.width % piece == 0 && isMultipleOf(row, piece))
      bands.piece = piece;
  return bands.piece > 0;
}

} // namespace

std::optional<WindowBands> WindowBands::of(const WindowProblem &problem) {
  constexpr int64_t mostRowTaps = 9, mostTiles = 16, leastSequences = 8;
  WindowBands bands;
  if (!problem.down || problem.dense || problem.stride != 1 || problem.dilation != 1 || problem.strideDown != 1 ||
      problem.rowTaps() < 2 || problem.rowTaps() > mostRowTaps || !findLoads(problem, bands))
    return std::nullopt;
  for (unsigned dim = 0; dim < problem.resultDims(); ++dim)
    if (dim != problem.strip && dim != problem.down && !problem.graph.dependsOn(bands.weights, dim)) {
      bands.sequenceDims.push_back(dim);
      bands.sequences *= problem.graph.extents()[dim];
    }
  if (bands.sequences < leastSequences || tilesAcross(problem) > mostTiles || !findRow(problem, bands))
    return std::nullopt;
  const int64_t reach = leadOf(bands) - bands.before + acrossOfWarp + problem.taps() - 1;
  return reach <= deep ? std::optional(bands) : std::nullopt;
}

namespace {

/// What the estimate knows, by hand (commit 5269e4a; no sweep was kept).
struct Coefficients {
  double registers = 32, registersOfTap = 6;     ///< Addresses; a row of taps.
  double perRow = 40, perTap = 2, perResult = 1; ///< Instructions beside products.
  double cacheSpeedup = 3; ///< Rows that two blocks read come from the last-level cache the second time.
};
constexpr Coefficients byHand;

/// Modelled microseconds of one config.
double estimate(const Region &region, const WindowProblem &problem, const WindowBands &bands, const TileConfig &config,
                const ir::Target &target) {
  const auto extents = problem.graph.extents();
  int64_t blocks = ceilDiv(bands.sequences, sequencesOfBlock) * ceilDiv(extents[*problem.down], config["rows"]);
  for (unsigned dim = 0; dim < problem.resultDims(); ++dim)
    if (dim != problem.strip && dim != problem.down && !llvm::is_contained(bands.sequenceDims, dim))
      blocks *= extents[dim];
  const auto rowsRead = static_cast<double>(config["rows"] + problem.rowTaps() - 1),
             rows = static_cast<double>(config["rows"]), rowTaps = static_cast<double>(problem.rowTaps());
  StreamingGrid grid;
  grid.threads = static_cast<double>(tilesAcross(problem) * 32);
  grid.blocks = static_cast<double>(blocks);
  const double registers = byHand.registers + byHand.registersOfTap * rowTaps,
               shared = static_cast<double>(sharedBytes(problem, bands, config["stages"]));
  grid.blocksPerSm = std::max(
      1.0, std::floor(std::min({target.threadsPerSm / grid.threads, target.registersPerSm / (registers * grid.threads),
                                static_cast<double>(target.sharedBytesPerBlock) / shared})));
  const double result =
      instructionsOf(problem.graph, problem.outputs, [&](Scalar s) { return s == problem.reductions.front(); });
  grid.instructions =
      rowsRead * (byHand.perRow + byHand.perTap * rowTaps) + rows * vector * (result + byHand.perResult);
  grid.bytes = region.bytesRead + region.bytesWritten + region.bytesRead * (rowsRead / rows - 1) / byHand.cacheSpeedup;
  return target.launchUs + streamingGridUs(grid, target);
}

class BandKernel {
public:
  BandKernel(const Region &region, const WindowProblem &problem, const WindowBands &bands, const TileConfig &config,
             const ir::Target &target)
      : region(region), problem(problem), bands(bands), config(config), target(target), graph(problem.graph),
        chunk(graph, problem.strip, vector) {
    extras = chunk.loadsOf(problem.outputs, problem.reductions);
    all = {bands.images, bands.weights};
    llvm::append_range(all, extras);
    for (unsigned dim = 0; dim < problem.resultDims(); ++dim) {
      names.push_back((isOfBlock(dim) ? "d" : "s") + std::to_string(dim));
      if (isOfBlock(dim))
        blockDims.push_back(dim);
    }
    names[problem.strip] = "across";
    names.append(2, "0"); // Rows of taps, taps.
  }

  KernelPlan plan() {
    KernelPlan plan = planOf(region, graph, target);
    plan.inPlace.assign(plan.outputs.size(), -1); // The last rows' block computes results of the one before, too.
    Launch launch = launchOf(plan, entryName(region), target);
    launch.grid[0] = 1;
    for (int64_t count : counts())
      launch.grid[0] *= static_cast<uint32_t>(count);
    launch.block[0] = static_cast<uint32_t>(threads());
    launch.sharedBytes = static_cast<uint32_t>(sharedBytes(problem, bands, config["stages"]));
    plan.launches = {launch};
    giveSource(plan, source());
    return plan;
  }

private:
  int64_t threads() const { return tilesAcross(problem) * 32; }
  bool isOfBlock(unsigned dim) const { return dim != problem.strip && !llvm::is_contained(bands.sequenceDims, dim); }

  /// Blocks of sequences, then of the dimensions that have weights of their own, then of rows: neighbours share rows.
  SmallVector<int64_t> counts() const {
    SmallVector<int64_t> counts{ceilDiv(bands.sequences, sequencesOfBlock)};
    for (unsigned dim : blockDims)
      if (dim != problem.down)
        counts.push_back(graph.extents()[dim]);
    counts.push_back(ceilDiv(graph.extents()[*problem.down], config["rows"]));
    return counts;
  }

  std::string source() {
    writeHead(writer, region, config, target, "window_bands.cuh");
    writer.line("using Index = " + indexType(graph) + ";");
    writer.open("struct Config");
    writer.line("using Element = " + storedType(graph.graph.inputs[graph[bands.images].input].type) + ";");
    writer.line("static constexpr int rows = " + Twine(config["rows"]) + ", stages = " + Twine(config["stages"]) + ";");
    writer.line("static constexpr int rowTaps = " + Twine(problem.rowTaps()) + ", taps = " + Twine(problem.taps()) +
                ", before = " + Twine(bands.before) + ", width = " + Twine(bands.width) +
                ", piece = " + Twine(bands.piece) + ", results = " + Twine(graph.extents()[problem.strip]) + ";");
    writer.line("static constexpr long long rowStride = " + Twine(bands.rowStride) + ";");
    writer.close(";");
    writer.line();
    writeBody();
    writer.line();
    openEntry(writer, Twine(threads()), entryName(region), bufferParameters(region, graph));
    writeBlock();
    writer.close();
    return writer.str();
  }

  void writeBody() {
    writer.open("struct Body");
    for (const std::string &member : bufferMembers(graph, all))
      writer.line(member);
    writer.line("Index firstSequence" + membersOf("") + "; // The block's first.");
    writer.line();
    writer.open("__device__ __forceinline__ bool hasSequence(int sequence) const");
    writer.line("return firstSequence + sequence < " + Twine(bands.sequences) + ";");
    writer.close();
    writeReads();
    writer.open("__device__ __forceinline__ void finish(const Vector<float, " + Twine(vector) +
                "> &sums, int sequence, int h, int across) const");
    writeFinish();
    writer.close();
    writer.close(";");
  }

  void writeReads() {
    const ScalarNode &images = graph[bands.images], &weights = graph[bands.weights];
    const AffineExpr row = with(with(images.map.getResult(0), problem.strip, 0), problem.tap, bands.before);
    writer.open("__device__ __forceinline__ const " + storedType(graph.graph.inputs[images.input].type) +
                " *row(int sequence) const");
    splitSequence();
    writer.line("return in" + Twine(images.input) + " + (" + textOf(row, names) + ");");
    writer.close();
    SmallVector<std::string> at(names), conditions;
    at[problem.rowTap] = "down";
    for (const Guard &guard : images.guards)
      if (!guard.index.isFunctionOfDim(problem.strip))
        conditions.push_back(textOf(guard.index, at) + " >= " + std::to_string(guard.low) + " && " +
                             textOf(guard.index, at) + " < " + std::to_string(guard.high));
    writer.open("__device__ __forceinline__ bool isInside(int down) const");
    writer.line("return " + (conditions.empty() ? "true" : llvm::join(conditions, " && ")) + ";");
    writer.close();
    at[problem.rowTap] = "rowTap";
    at[problem.tap] = "tap";
    writer.open("__device__ __forceinline__ " + storedType(graph.graph.inputs[weights.input].type) +
                " weight(int rowTap, int tap) const");
    writer.line("return in" + Twine(weights.input) + "[" + textOf(weights.map.getResult(0), at) + "];");
    writer.close();
  }

  void writeFinish() {
    splitSequence();
    SmallVector<std::string> at(names);
    at[*problem.down] = "(" + names[*problem.down] + " + h)";
    if (chunk.isPartial())
      writer.line("const int lanes = static_cast<int>(minimum(Index(" + Twine(vector) + "), Index(" +
                  Twine(graph.extents()[problem.strip]) + " - across)));");
    ValuePrinter values(graph, writer, at);
    values.define(problem.reductions.front(), "sums[j]");
    chunk.storeResults(values, problem.outputs, extras);
  }

  void splitSequence() {
    SmallVector<int64_t> extents;
    SmallVector<std::string> parts;
    for (unsigned dim : bands.sequenceDims) {
      extents.push_back(graph.extents()[dim]);
      parts.push_back(names[dim]);
    }
    writer.line("const Index number = firstSequence + sequence;");
    writer.line(splitText("number", extents, parts));
  }

  void writeBlock() {
    SmallVector<std::string> parts{"group"};
    for (unsigned dim : blockDims)
      if (dim != problem.down)
        parts.push_back(names[dim]);
    parts.emplace_back("part");
    writer.line("const Index block = blockIdx.x;");
    writer.line(splitText("block", counts(), parts));
    const int64_t rows = config["rows"], extent = graph.extents()[*problem.down];
    const std::string first = "part * " + std::to_string(rows);
    writer.line(
        "const Index " + names[*problem.down] + " = " +
        (extent % rows == 0 ? first : "minimum(Index(" + first + "), Index(" + std::to_string(extent - rows) + "))") +
        "; // The last block ends with the results.");
    writer.line("const Body body{" + bufferNames(graph, all) + ", group * " + Twine(sequencesOfBlock) + membersOf("") +
                "};");
    writer.line("WindowBands<Config, Body>(body).run();");
  }

  std::string membersOf(StringRef prefix) const {
    std::string members;
    for (unsigned dim : blockDims)
      members += (", " + prefix + names[dim]).str();
    return members;
  }

  static std::string textOf(AffineExpr index, ArrayRef<std::string> names) {
    return indexText(index, {SmallVector<std::string, 6>(names), {}});
  }

  const Region &region;
  const WindowProblem &problem;
  const WindowBands &bands;
  const TileConfig &config;
  const ir::Target &target;
  const LinearGraph &graph;
  ChunkPrinter chunk;
  std::vector<Scalar> extras, all;
  SmallVector<std::string> names; ///< The dimensions' indices at the block's first result of a sequence.
  SmallVector<unsigned> blockDims;
  SourceWriter writer;
};

} // namespace

std::vector<EstimatedConfig> bandConfigs(const Region &region, const WindowProblem &problem, const ir::Target &target) {
  const std::optional<WindowBands> bands = WindowBands::of(problem);
  std::vector<EstimatedConfig> configs;
  if (!bands || target.capability < 80)
    return configs;
  const int64_t height = problem.graph.extents()[*problem.down];
  for (int64_t parts : {1, 2, 4, 8})
    for (int64_t stages : {6, 8, 12}) {
      const TileConfig config{{"rows", ceilDiv(height, parts)}, {"stages", stages}};
      const bool isTooShort = parts > 1 && config["rows"] < problem.rowTaps();
      if (!isTooShort && sharedBytes(problem, *bands, stages) <= target.sharedBytesPerBlock)
        configs.emplace_back(estimate(region, problem, *bands, config, target), config);
    }
  return configs;
}

KernelPlan bandKernel(const Region &region, const WindowProblem &problem, const TileConfig &config,
                      const ir::Target &target) {
  return BandKernel(region, problem, *WindowBands::of(problem), config, target).plan();
}

} // namespace kfuse::codegen::cuda
