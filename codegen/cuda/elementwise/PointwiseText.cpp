#include "codegen/cuda/elementwise/PointwiseText.h"

#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"

namespace kfuse::codegen::cuda {

using ir::Scalar;

std::vector<Scalar> valuesOf(const LinearGraph &graph) {
  std::vector<Scalar> values;
  for (const ir::ScalarOutput &output : graph.graph.outputs)
    values.push_back(output.value);
  return values;
}

PointwiseText::PointwiseText(const Region &region, const TileConfig &config, SourceWriter &writer)
    : config(config), writer(writer), graph(linearised(region.graph, 0)), inner(graph.extents().size() - 1),
      chunk(graph, inner, config["vector"]), loads(chunk.loadsOf(valuesOf(graph))) {
  chunks = graph.graph.domain.points() / graph.extents()[inner] * ceilDiv(graph.extents()[inner], config["vector"]);
}

int64_t PointwiseText::blocks() const { return ceilDiv(chunks, config["threads"] * config["unroll"]); }

void PointwiseText::writeConfig() {
  writer.open("struct Config");
  writer.line("using Index = ::Index;");
  writer.line("static constexpr int threads = " + llvm::Twine(config["threads"]) +
              ", unroll = " + llvm::Twine(config["unroll"]) + ";");
  writer.line("static constexpr Index chunks = " + llvm::Twine(chunks) + "; // of " + llvm::Twine(config["vector"]) +
              " points");
  writer.close(";");
}

std::string PointwiseText::members(llvm::ArrayRef<unsigned> outputs) const {
  std::string names = cuda::bufferNames(graph, loads, outputs);
  if (const std::optional<ir::RunExtent> &end = graph.graph.runExtent)
    names += ", " + runExtent(graph, end->dim, writer);
  return names;
}

void PointwiseText::writeBody() {
  writer.open("struct Body");
  for (const std::string &member : bufferMembers(graph, loads))
    writer.line(member);
  if (graph.graph.runExtent)
    writer.line("Index runExtent;");
  writer.line();
  writer.open("struct Operands");
  chunk.declare(writer, loads);
  writer.close(";");
  writer.line();
  writer.open("__device__ __forceinline__ void load(Operands &x, Index chunk) const");
  // Words of several operands are taken apart where they are loaded: 80 registers instead of 48 for a rotary of chunks
  // of eight, 143 us instead of 129 (16 x 32 x 2048 x 128).
  chunk.load(atChunk(), loads, "x.", loads.size() > 1 ? ChunkPrinter::Use::Moved : ChunkPrinter::Use::Computed);
  writer.close();
  writer.line();
  writer.open("__device__ __forceinline__ void apply(const Operands &x, Index chunk) const");
  writeApply();
  writer.close();
  writer.close(";");
}

void PointwiseText::writeApply() {
  ValuePrinter scope = atChunk();
  for (auto [i, output] : llvm::enumerate(graph.graph.outputs))
    writer.line("Vector<" + valueType(graph[output.value].type) + ", " + llvm::Twine(config["vector"]) + "> y" +
                llvm::Twine(i) + ";");
  chunk.lanes(
      scope, [](Scalar) { return "x."; },
      [&](ValuePrinter &lane) {
        for (auto [i, output] : llvm::enumerate(graph.graph.outputs)) {
          std::string value = lane.value(output.value);
          writer.line("y" + llvm::Twine(i) + "[j] = " + value + ";");
        }
      });
  for (unsigned i = 0; i < graph.graph.outputs.size(); ++i)
    chunk.store(scope, i);
}

/// The scope at the start of a chunk, where every dimension has its name.
ValuePrinter PointwiseText::atChunk() {
  llvm::SmallVector<std::string> names;
  llvm::SmallVector<int64_t> counts(graph.extents());
  for (unsigned dim = 0; dim < counts.size(); ++dim)
    names.push_back("d" + std::to_string(dim));
  counts[inner] = ceilDiv(counts[inner], config["vector"]);
  std::string split = splitText("chunk", counts, names);
  if (config["vector"] > 1) // The last one counts chunks.
    split.insert(split.size() - 1, " * " + std::to_string(config["vector"]));
  writer.line(split);
  if (const std::optional<ir::RunExtent> &end = graph.graph.runExtent)
    writer.line("if (" + names[end->dim] + " >= runExtent) return;");
  if (chunk.isPartial())
    writer.line("const int lanes = static_cast<int>(minimum(Index(" + llvm::Twine(config["vector"]) + "), Index(" +
                llvm::Twine(graph.extents()[inner]) + ") - d" + llvm::Twine(inner) + "));");
  return {graph, writer, names};
}

KernelPlan pointwisePlan(const Region &region, const LinearGraph &buffers, const ir::Target &target, int64_t blocks,
                         int64_t threads) {
  KernelPlan plan = planOf(region, buffers, target);
  Launch launch = launchOf(plan, entryName(region), target);
  launch.needsNoL1 = true;
  launch.grid[0] = static_cast<uint32_t>(std::clamp<int64_t>(blocks, 1, INT32_MAX));
  launch.block[0] = static_cast<uint32_t>(threads);
  plan.launches = {launch};
  return plan;
}

} // namespace kfuse::codegen::cuda
