// cuda.pointwise: elementwise regions, one chunk of neighbouring points after the other.
#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/elementwise/PointwiseText.h"
#include "codegen/cuda/elementwise/Templates.h"
#include "codegen/cuda/text/Kernel.h"

#include <algorithm>
#include <cmath>

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;

constexpr int64_t mostVectorBytes = 64;   ///< The most of one operand: four 16-byte accesses.
constexpr int64_t mostOperandBytes = 256; ///< In registers of a thread: 64 of them.

/// Bytes that one point moves: its loads and stores.
int64_t bytesPerPoint(const LinearGraph &graph, llvm::ArrayRef<Scalar> loads) {
  int64_t bytes = 0;
  for (Scalar load : loads)
    bytes += static_cast<int64_t>(byteWidth(graph.graph.inputs[graph[load].input].type));
  return bytes;
}

int64_t widestElement(const LinearGraph &graph) {
  size_t widest = 1;
  for (const ir::ScalarInput &input : graph.graph.inputs)
    widest = std::max(widest, byteWidth(input.type));
  for (const ir::ScalarOutput &output : graph.graph.outputs)
    widest = std::max(widest, byteWidth(output.type));
  return static_cast<int64_t>(widest);
}

/// One region under one config, on its way to text.
class PointwiseKernel {
public:
  PointwiseKernel(const Region &region, const TileConfig &config, const ir::Target &target)
      : region(region), config(config), target(target), text(region, config, writer) {}

  KernelPlan plan() {
    KernelPlan plan = pointwisePlan(region, text.linear(), target, text.blocks(), config["threads"]);
    giveSource(plan, source());
    return plan;
  }

private:
  std::string source() {
    writeHead(writer, region, config, target, "pointwise.cuh");
    writer.line("using Index = " + indexType(text.linear()) + ";");
    text.writeConfig();
    writer.line();
    text.writeBody();
    writer.line();
    openEntry(writer, "Config::threads", entryName(region), bufferParameters(region, text.linear()));
    const std::string members = text.members();
    writer.line("forEachChunk<Config>(Body{" + members + "});");
    writer.close();
    return writer.str();
  }

  const Region &region;
  const TileConfig &config;
  const ir::Target &target;
  SourceWriter writer;
  PointwiseText text;
};

/// What a point costs under any config.
struct PointWork {
  explicit PointWork(const LinearGraph &graph) {
    const std::vector<Scalar> loads = ChunkPrinter(graph, graph.extents().size() - 1, 1).loadsOf(valuesOf(graph));
    points = static_cast<double>(graph.graph.domain.points());
    widest = widestElement(graph);
    operands = static_cast<double>(loads.size() + graph.graph.outputs.size());
    operandBytes = bytesPerPoint(graph, loads);
    instructions = instructionsOf(graph, valuesOf(graph), [](Scalar) { return false; });
  }

  double points;        ///< The whole domain's.
  int64_t widest;       ///< Bytes of the widest element.
  double operands;      ///< Read and written.
  int64_t operandBytes; ///< The bytes of what is read.
  double instructions;
};

/// What the estimate knows of an H200, beside streamingGridUs(), with which these were fitted (commit a15c9e7; the
/// sweep was not kept).
struct Coefficients {
  double registers = 20, registersOfPoint = 1.2; ///< Beside those of operands.
  double perChunk = 12, perAccess = 2.5;         ///< Instructions: addresses, 16 bytes of an operand.
  double wide = 1.03; ///< A warp's accesses of more than 16 bytes leave gaps that the next ones fill.
};
constexpr Coefficients h200;

/// Modelled microseconds of one config.
double estimate(const Region &region, const PointWork &work, const TileConfig &config, const ir::Target &target) {
  double vector = static_cast<double>(config["vector"]), unroll = static_cast<double>(config["unroll"]);
  double wide = vector * static_cast<double>(work.widest) / 16;
  double accesses = work.operands * std::max(1.0, wide);
  double registers =
      h200.registers + vector * unroll * (static_cast<double>(work.operandBytes) / 4 + h200.registersOfPoint);

  StreamingGrid grid;
  grid.threads = static_cast<double>(config["threads"]);
  grid.blocks = std::ceil(work.points / (vector * unroll * grid.threads));
  grid.blocksPerSm = std::min(std::floor(target.threadsPerSm / grid.threads),
                              std::floor(target.registersPerSm / (registers * grid.threads)));
  grid.instructions = unroll * (vector * work.instructions + h200.perChunk + h200.perAccess * accesses);
  grid.bytes = region.bytesRead + region.bytesWritten;
  if (wide > 1)
    grid.bytes *= h200.wide;
  return target.launchUs + streamingGridUs(grid, target);
}

class PointwiseTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.pointwise"; }

  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    if (region.graph.domain.reductionDim >= 0)
      return ir::FusionDecision::no("holds a row reduction");
    if (region.graph.domain.contractionDim >= 0)
      return ir::FusionDecision::no("holds a matrix product");
    return printable(region);
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override;
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return PointwiseKernel(region, config, target).plan();
  }
};

std::vector<EstimatedConfig> PointwiseTemplate::estimated(const Region &region, const ir::Target &target) const {
  LinearGraph graph = linearised(region.graph, 0);
  const PointWork work(graph);
  int64_t inner = graph.extents().back(), widest = work.widest;
  std::vector<EstimatedConfig> ranked;
  auto consider = [&](int64_t vector, int64_t threads, int64_t unroll) {
    bool isTooWide = vector > 1 && (vector * widest > mostVectorBytes || vector >= 2 * inner);
    bool isTooNarrow = vector * widest < 8 && 2 * vector <= inner;
    bool isTooMuch = unroll > 1 && work.operandBytes * vector * unroll > mostOperandBytes;
    if (isTooWide || isTooNarrow || isTooMuch)
      return;
    TileConfig config{{"threads", threads}, {"vector", vector}, {"unroll", unroll}};
    ranked.emplace_back(estimate(region, work, config, target), config);
  };
  for (int64_t vector : {16, 8, 4, 2, 1})
    for (int64_t threads : {128, 256, 512})
      for (int64_t unroll : {1, 2, 4})
        consider(vector, threads, unroll);
  llvm::sort(ranked);
  return ranked;
}

} // namespace

const KernelTemplate &pointwiseTemplate() {
  static const PointwiseTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
