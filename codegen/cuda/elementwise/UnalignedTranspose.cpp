#include "codegen/cuda/elementwise/UnalignedTranspose.h"

#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;

/// How far `offset` moves with `dim`; 0 where that is not always as far.
int64_t pitchOf(AffineExpr offset, unsigned dim, unsigned dims) {
  AffineExpr along = getAffineDimExpr(dim, offset.getContext());
  auto pitch = dyn_cast<AffineConstantExpr>(simplifyAffineExpr(offset.replace(along, along + 1) - offset, dims, 0));
  return pitch ? pitch.getValue() : 0;
}

AffineExpr atZero(AffineExpr offset, unsigned down, unsigned across, unsigned dims) {
  AffineExpr zero = getAffineConstantExpr(0, offset.getContext());
  for (unsigned dim : {down, across})
    offset = offset.replace(getAffineDimExpr(dim, offset.getContext()), zero);
  return simplifyAffineExpr(offset, dims, 0);
}

/// One region under one config, on its way to text.
class UnalignedTransposeKernel {
public:
  UnalignedTransposeKernel(const UnalignedTranspose &shape, const LinearGraph &graph)
      : t(shape), graph(graph), output(graph.graph.outputs[0]) {
    for (unsigned dim = 0; dim < graph.extents().size(); ++dim)
      names.push_back("d" + std::to_string(dim));
  }

  std::string source(const Region &region, const TileConfig &config, const ir::Target &target) {
    writeHead(writer, region, config, target, "transpose_unaligned.cuh");
    writer.line("using Index = " + indexType(graph) + ";");
    writer.open("struct Config");
    writer.line("using Index = ::Index;");
    writer.line("static constexpr int lanesAcross = " + llvm::Twine(config["lanes_across"]) + ", chunksDown = " +
                llvm::Twine(config["chunks_down"]) + ", warps = " + llvm::Twine(config["warps"]) + ";");
    writer.line(std::string("static constexpr bool inLines = ") + (config["in_lines"] ? "true;" : "false;"));
    writer.line("static constexpr Index extentDown = " + llvm::Twine(graph.extents()[t.down]) +
                ", extentAcross = " + llvm::Twine(graph.extents()[t.across]) + "; // The extents of " + names[t.down] +
                " and " + names[t.across] + ".");
    writer.line("static constexpr Index sourcePitch = " + llvm::Twine(t.sourcePitch) +
                ", resultPitch = " + llvm::Twine(t.resultPitch) + ";");
    writer.close(";");
    writer.line();
    writeBody();
    writer.line();
    // Without a number of blocks the compiler spills a few registers where 64 or 96 almost do.
    openEntry(writer, llvm::Twine(32 * config["warps"]) + ", 2", entryName(region), bufferParameters(region, graph));
    writer.line("transposeUnaligned<Config>(Body{" + bufferNames(graph, {t.load}) + "});");
    writer.close();
    return writer.str();
  }

private:
  void writeBody() {
    const ir::ScalarInput &input = graph.graph.inputs[graph[t.load].input];
    const std::string element = storedType(input.type).str(), in = "in" + std::to_string(graph[t.load].input);
    writer.open("struct Body");
    for (const std::string &member : bufferMembers(graph, {t.load}))
      writer.line(member);
    writer.line();
    writer.line("using Element = " + element + ";");
    writer.open("__device__ __forceinline__ const Element *source(Index batch) const");
    ValuePrinter source = scopeOf();
    writer.line("return " + in + " + (" + source.offset(t.sourceBase, {}) + ");");
    writer.close();
    writer.line("__device__ __forceinline__ const Element *sourceEnd() const { return " + in + " + " +
                llvm::Twine(elementCount(input.shape)) + "; }");
    writer.line();
    writer.open("__device__ __forceinline__ void store(const Vector<Element, " + llvm::Twine(t.vector) +
                "> &x, Index batch, Index " + names[t.down] + ", Index " + names[t.across] +
                ", int begin, int end) const");
    writeStore();
    writer.close();
    writer.close(";");
  }

  /// Elements that only move are not computed with.
  void writeStore() {
    ValuePrinter scope = scopeOf();
    const bool moves = output.value == t.load && output.type == graph.graph.inputs[graph[t.load].input].type;
    if (!moves) {
      ChunkPrinter row(graph, t.across, t.vector);
      writer.line("Vector<" + valueType(graph[output.value].type) + ", " + llvm::Twine(t.vector) + "> y0;");
      row.lanes(
          scope, [](Scalar) { return ""; },
          [&](ValuePrinter &lane) {
            lane.readLoadsBy([](Scalar) { return "decode(x[j])"; });
            std::string value = lane.value(output.value);
            writer.line("y0[j] = " + value + ";");
          });
    }
    std::string where = scope.offset(output.map.getResult(0), {});
    writer.line("storePart(out0 + (" + where + "), " + (moves ? "x" : "y0") + ", begin, end);");
  }

  /// Names for all dimensions.
  ValuePrinter scopeOf() {
    llvm::SmallVector<std::string> others;
    llvm::SmallVector<int64_t> extents;
    for (unsigned dim = 0; dim < names.size(); ++dim)
      if (dim != t.down && dim != t.across)
        others.push_back(names[dim]), extents.push_back(graph.extents()[dim]);
    if (!others.empty())
      writer.line(splitText("batch", extents, others));
    return {graph, writer, names};
  }

  const UnalignedTranspose &t;
  const LinearGraph &graph;
  const ir::ScalarOutput &output;
  llvm::SmallVector<std::string> names;
  SourceWriter writer;
};

} // namespace

std::optional<UnalignedTranspose> UnalignedTranspose::of(const LinearGraph &graph, unsigned down, unsigned across) {
  constexpr size_t accessBytes = 16;
  if (graph.graph.outputs.size() != 1)
    return std::nullopt;
  const ir::ScalarOutput &output = graph.graph.outputs[0];
  const std::vector<Scalar> loads = ChunkPrinter(graph, across, 1).loadsOf(output.value);
  if (loads.size() != 1)
    return std::nullopt;
  const ScalarNode &load = graph[loads[0]];
  const size_t bytes = byteWidth(output.type);
  const bool isGuarded =
      !load.guards.empty() || !load.symbols.empty() || !graph.storeGuards[0].empty() || !output.symbols.empty();
  if (isGuarded || byteWidth(graph.graph.inputs[load.input].type) != bytes || (bytes != 2 && bytes != 4))
    return std::nullopt;

  const unsigned dims = graph.extents().size();
  const AffineExpr from = graph.offset(loads[0]), to = output.map.getResult(0);
  const UnalignedTranspose t{.load = loads[0],
                             .down = down,
                             .across = across,
                             .vector = static_cast<int64_t>(accessBytes / bytes),
                             .sourcePitch = pitchOf(from, across, dims),
                             .resultPitch = pitchOf(to, down, dims),
                             .sourceBase = atZero(from, down, across, dims)};
  const bool isDense =
      pitchOf(from, down, dims) == 1 && pitchOf(to, across, dims) == 1 && t.sourcePitch > 0 && t.resultPitch > 0;
  const bool startsAligned =
      t.sourceBase.isMultipleOf(t.vector) && atZero(to, down, across, dims).isMultipleOf(t.vector);
  return isDense && startsAligned ? std::make_optional(t) : std::nullopt;
}

std::pair<int64_t, int64_t> UnalignedTranspose::tileOf(const TileConfig &config) const {
  return {config["chunks_down"] * vector, config["lanes_across"] * vector};
}

int64_t UnalignedTranspose::sharedBytes(const TileConfig &config) const {
  const int64_t rows = tileOf(config).second + vector, chunks = config["chunks_down"] + 1;
  constexpr int64_t lineChunks = 8;
  if (config["in_lines"])
    return 16 * rows * ((chunks + 2 * lineChunks - 2) / lineChunks * lineChunks);
  return 16 * (rows * chunks + rows / vector - 1);
}

KernelPlan UnalignedTranspose::plan(const Region &region, const LinearGraph &graph, const TileConfig &config,
                                    const ir::Target &target) const {
  KernelPlan plan = planOf(region, graph, target);
  Launch launch = launchOf(plan, entryName(region), target);
  auto [height, width] = tileOf(config);
  int64_t batches = graph.graph.domain.points() / graph.extents()[across] / graph.extents()[down];
  // Chunks of the result belong to the tile that they end in.
  launch.grid[0] = static_cast<uint32_t>(batches * ceilDiv(graph.extents()[down], height) *
                                         ceilDiv(graph.extents()[across] + vector - 1, width));
  launch.block[0] = static_cast<uint32_t>(32 * config["warps"]);
  launch.sharedBytes = static_cast<uint32_t>(sharedBytes(config));
  plan.launches = {launch};
  giveSource(plan, UnalignedTransposeKernel(*this, graph).source(region, config, target));
  return plan;
}

} // namespace kfuse::codegen::cuda
