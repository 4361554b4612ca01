// cuda.windows: reductions of windows that overlap, as of a depthwise convolution or a pool.
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/rows/RowPasses.h"
#include "codegen/cuda/rows/Templates.h"
#include "codegen/cuda/rows/WindowBands.h"
#include "codegen/cuda/rows/WindowKernel.h"
#include "codegen/cuda/rows/WindowTiles.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <set>

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;
using Along = WindowOperand::Along;

constexpr size_t mostCandidates = 40;
constexpr int64_t mostValues = 190;        ///< Floats that a thread holds: totals, a row of operands.
constexpr int64_t mostInstructions = 4096; ///< In a loop's body: 64 KB, what an SM holds of a kernel's text.

/// What a tap, a row's operand and a result cost under any config.
struct WindowWork {
  explicit WindowWork(const WindowProblem &problem) {
    auto isLoad = [&](Scalar s) { return problem.graph[s].kind == ScalarNode::Kind::Load; };
    for (Scalar reduction : problem.reductions) {
      const ScalarNode &node = problem.graph[reduction], &value = problem.graph[node.operands[0]];
      const double all = instructionsOf(problem.graph, {node.operands[0]}, isLoad);
      // A product is added by the same instruction.
      tap += all + (node.function == "sum" && value.function == "mul" ? 0 : 1);
    }
    result = instructionsOf(problem.graph, problem.outputs,
                            [&](Scalar s) { return llvm::is_contained(problem.reductions, s); });
    for (const ir::ScalarInput &input : problem.graph.graph.inputs)
      widest = std::max(widest, static_cast<int64_t>(byteWidth(input.type)));
    for (const WindowOperand &operand : problem.operands)
      if (operand.along == Along::Window)
        window = std::max(window, static_cast<int64_t>(
                                      byteWidth(problem.graph.graph.inputs[problem.graph[operand.load].input].type)));
    for (const ir::ScalarOutput &output : problem.graph.graph.outputs)
      widest = std::max(widest, static_cast<int64_t>(byteWidth(output.type)));
  }

  double tap = 0, result = 0; ///< Instructions.
  int64_t widest = 1;         ///< Bytes of the widest element.
  int64_t window = 1;         ///< Bytes of the widest that windows slide over.
};

/// One config's tile.
struct WindowShape {
  WindowShape(const WindowProblem &problem, const TileConfig &config) : tiles(problem, config) {
    rowsRead = (tiles.rows - 1) * problem.strideDown + problem.rowTaps();
    for (const WindowOperand &operand : problem.operands) {
      if (operand.along == Along::Both)
        continue;
      const int64_t count = operand.along == Along::Window ? problem.positions(tiles.strip)
                            : operand.along == Along::Tap  ? problem.taps()
                                                           : 1;
      const bool isWide = problem.dense && problem.graph.dependsOn(operand.load, *problem.dense);
      const int64_t width = isWide ? tiles.vector : 1;
      values += count * width;
      if (operand.along == Along::Window)
        values += ceilDiv(
            count * width *
                static_cast<int64_t>(byteWidth(problem.graph.graph.inputs[problem.graph[operand.load].input].type)),
            4); // The next row, as it was loaded.
    }
    totals = static_cast<int64_t>(problem.reductions.size()) * tiles.rows * tiles.strip * tiles.vector;
  }

  WindowTiles tiles;
  int64_t rowsRead, values = 0, totals;
};

/// What the estimate knows, by hand (commits 0fbe2a1 and 9eb5c50; no sweep was kept).
struct Coefficients {
  double perTile = 60, perRow = 12; ///< Instructions: addresses and guards.
  double guarded = 3;               ///< Instructions of an access along a strip, with its guards.
  double schedulers = 4;            ///< L1 takes one wavefront of a warp a clock, for the SM's four schedulers.
  double registers = 40;            ///< A thread takes them beside totals and values.
  double cacheSpeedup = 3;          ///< What blocks read beyond their own part comes from the last-level cache.
  double rowUs = 0.2;               ///< A row's way from there, less the work on the one before.
};
constexpr Coefficients byHand;

/// Modelled microseconds of one config.
double estimate(const Region &region, const WindowProblem &problem, const WindowWork &work, const TileConfig &config,
                const ir::Target &target) {
  const WindowShape shape(problem, config);
  const WindowTiles &tiles = shape.tiles;
  const auto results = static_cast<double>(tiles.rows * tiles.strip * tiles.vector);
  const auto taps = static_cast<double>(problem.taps() * problem.rowTaps());
  double instructions = byHand.perTile + byHand.perRow * static_cast<double>(shape.rowsRead) +
                        results * (taps * work.tap + work.result + 1);
  double wavefronts = 0;
  for (const WindowOperand &operand : problem.operands) {
    const auto bytes =
        static_cast<double>(byteWidth(problem.graph.graph.inputs[problem.graph[operand.load].input].type));
    const bool isWide = problem.dense && problem.graph.dependsOn(operand.load, *problem.dense);
    const double width = isWide ? static_cast<double>(tiles.vector) : 1;
    const bool isOfRow = operand.along != Along::Both && (tiles.rows == 1 || operand.slidesDown);
    // The compiler keeps what rows of a tile read alike where their loop is unrolled.
    const double rows = static_cast<double>(
        isOfRow || (config["unrolled"] && !operand.slidesDown) ? shape.rowsRead : tiles.rows * problem.rowTaps());
    double accesses = 0, wide = width * bytes / 4;
    int64_t lead = 0;
    if (operand.along == Along::Window) {
      const int64_t piece = windowAccess(problem, operand, tiles.strip, config["access"], lead);
      accesses = static_cast<double>(ceilDiv(lead + problem.positions(tiles.strip), piece));
      if (!problem.dense)
        wide = std::max(static_cast<double>(piece) * bytes / 4, 1.0) * (piece == 1 ? 4 : 1); // A step of a strip apart.
    } else if (operand.along == Along::Tap) {
      accesses = static_cast<double>(problem.taps());
    } else {
      accesses = operand.along == Along::Both ? static_cast<double>(problem.taps() * tiles.strip) : 1;
    }
    const bool isGathered =
        isWide &&
        ChunkPrinter(problem.graph, *problem.dense, std::max<int64_t>(tiles.vector, 2)).vectorAlignment(operand.load) ==
            0;
    const double steps = isGathered ? width : 1;
    wavefronts += rows * accesses * (isGathered ? 32 * width : std::max(isWide || !problem.dense ? wide : 1.0, 0.5));
    const double elements =
        width * static_cast<double>(operand.along == Along::Window ? problem.positions(tiles.strip) : problem.taps());
    const bool areWords = width > 1 || accesses < elements;
    const double perAccess = !problem.dense && operand.along == Along::Window ? byHand.guarded : 1;
    instructions += rows * (accesses * steps * perAccess + (bytes < 4 ? elements * (areWords ? 1 : 2) : 0));
  }
  instructions = std::hypot(instructions, byHand.schedulers * wavefronts);

  StreamingGrid grid;
  grid.threads = static_cast<double>(config["threads"]);
  grid.blocks = std::ceil(static_cast<double>(tiles.count) / grid.threads);
  const double registers = byHand.registers + static_cast<double>(shape.totals + shape.values);
  grid.blocksPerSm = std::max(1.0, std::min(std::floor(target.threadsPerSm / grid.threads),
                                            std::floor(target.registersPerSm / (registers * grid.threads))));
  grid.instructions = instructions;
  const double stripsAcross = static_cast<double>(tiles.counts[problem.strip]),
               spatial = std::max(1.0, grid.threads / static_cast<double>(tiles.lanes));
  const double across = std::min(stripsAcross, spatial) * static_cast<double>(tiles.strip * problem.stride),
               down = std::max(1.0, spatial / stripsAcross) * static_cast<double>(tiles.rows * problem.strideDown);
  const double again = (1 + static_cast<double>(problem.dilation * (problem.taps() - 1)) / across) *
                           (1 + static_cast<double>(problem.rowTaps() - 1) / down) -
                       1;
  grid.bytes = region.bytesRead + region.bytesWritten + region.bytesRead * again / byHand.cacheSpeedup;
  grid.waitsUs = static_cast<double>(shape.rowsRead) * byHand.rowUs;
  return target.launchUs + streamingGridUs(grid, target);
}

/// Whether a thread's registers hold a tile, and the SM's caches the loop over its rows.
bool fits(const WindowProblem &problem, const WindowWork &work, const TileConfig &config, const ir::Target &target) {
  const WindowShape shape(problem, config);
  const int64_t most = std::min<int64_t>(mostValues, target.registersPerSm / config["threads"] - 60);
  const double body = static_cast<double>(shape.totals * problem.taps()) * std::max(work.tap, 1.0) *
                      static_cast<double>(config["unrolled"] ? problem.rowTaps() : 1);
  return shape.totals + shape.values <= most && body <= static_cast<double>(mostInstructions);
}

/// Whether a config is of bands on tensor cores.
bool isOfBands(const TileConfig &config) { return config.has("stages"); }

class WindowsTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.windows"; }

  ir::FusionDecision match(const Region &region, const ir::Target &target) const override {
    if (ir::FusionDecision text = printable(region); !text)
      return text;
    if (region.graph.domain.contractionDim >= 0)
      return ir::FusionDecision::no("holds a matrix product");
    if (region.graph.domain.reductionDim < 0)
      return ir::FusionDecision::no("holds no reduction");
    for (const ScalarNode &node : region.graph.nodes)
      if (node.kind == ScalarNode::Kind::Reduce && reductionTypeName(node.function).empty())
        return ir::FusionDecision::no("no CUDA text for the reduction '" + node.function + "'");
    Result<WindowProblem> problem = WindowProblem::of(region);
    if (!problem)
      return ir::FusionDecision::no(problem.error().message);
    if (configs(region, *problem, target).empty())
      return ir::FusionDecision::no("reduces windows that do not fit a thread's registers");
    return ir::FusionDecision::yes();
  }

  bool endsWithRun(const Region &, const TileConfig &) const override { return false; }
  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    return configs(region, *WindowProblem::of(region), target);
  }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    const WindowProblem problem = *WindowProblem::of(region);
    return isOfBands(config) ? bandKernel(region, problem, config, target)
                             : windowKernel(region, problem, config, target);
  }
  TileConfig kind(const TileConfig &config) const override {
    return isOfBands(config) ? config.with("stages", 1)
                             : config.with("threads", 0).with("unrolled", 0).with("lanes", 0);
  }

private:
  static std::vector<EstimatedConfig> configs(const Region &region, const WindowProblem &problem,
                                              const ir::Target &target);
};

/// Strips whose tiles cover a dimension with the fewest results too many, and powers of two.
std::vector<int64_t> stripsOf(const WindowProblem &problem) {
  const int64_t extent = problem.graph.extents()[problem.strip];
  if (!problem.dense)
    return {16, 8, 4};
  std::set<int64_t> strips;
  for (int64_t strip : {14, 8, 7, 5, 4, 2, 1})
    strips.insert(std::min(strip, extent));
  return {strips.begin(), strips.end()};
}

std::vector<EstimatedConfig> WindowsTemplate::configs(const Region &region, const WindowProblem &problem,
                                                      const ir::Target &target) {
  constexpr int64_t mostAccessBytes = 16, sectorBytes = 32;
  const WindowWork work(problem);
  const int64_t channels = problem.dense ? problem.graph.extents()[*problem.dense] : 1;
  std::vector<EstimatedConfig> ranked = bandConfigs(region, problem, target);
  auto consider = [&](const TileConfig &config) {
    if (fits(problem, work, config, target))
      ranked.emplace_back(estimate(region, problem, work, config, target), config);
  };
  auto ofTile = [&](int64_t strip, int64_t rows, int64_t vector, int64_t lanes, int64_t access) {
    for (int64_t threads : {128, 256, 512})
      for (int64_t unrolled : {0, 1})
        if (unrolled == 0 || problem.rowTaps() > 1)
          consider({{"strip", strip},
                    {"rows", rows},
                    {"vector", vector},
                    {"lanes", lanes},
                    {"access", access},
                    {"threads", threads},
                    {"unrolled", unrolled}});
  };
  for (int64_t strip : stripsOf(problem))
    for (int64_t rows : {1, 2, 4}) {
      if (rows > 1 && (!problem.down || problem.graph.extents()[*problem.down] < rows))
        continue;
      if (!problem.dense) {
        std::set<int64_t> known; // Accesses of operands that differ from those of another config.
        for (int64_t access : {8, 4, 2, 1}) {
          int64_t taken = 1, lead = 0;
          for (const WindowOperand &operand : problem.operands)
            taken = std::max(taken, windowAccess(problem, operand, strip, access, lead));
          if (access * work.window <= mostAccessBytes && known.insert(taken).second)
            ofTile(strip, rows, 1, 1, access);
        }
        continue;
      }
      for (int64_t vector : {8, 4, 2, 1}) {
        if (channels % vector != 0 || vector * work.widest > 2 * mostAccessBytes)
          continue;
        int64_t most = std::min<int64_t>(channels / vector, 32);
        while (channels / vector % most != 0)
          --most;
        for (int64_t lanes : {32, 16, 8, 4})
          if (lanes < most && channels % (vector * lanes) == 0 && lanes * vector * work.window >= sectorBytes)
            ofTile(strip, rows, vector, lanes, 1);
        ofTile(strip, rows, vector, most, 1);
      }
    }
  return fastest(std::move(ranked), mostCandidates);
}

} // namespace

const KernelTemplate &windowsTemplate() {
  static const WindowsTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
