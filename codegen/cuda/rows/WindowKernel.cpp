#include "codegen/cuda/rows/WindowKernel.h"

#include "codegen/cuda/rows/RowPasses.h"
#include "codegen/cuda/rows/WindowReads.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Guard;
using ir::Scalar;
using ir::ScalarNode;
using Along = WindowOperand::Along;

namespace {

SmallVector<std::string> namesOfFirst(const WindowProblem &problem) {
  SmallVector<std::string> names;
  for (unsigned dim = 0; dim < problem.resultDims(); ++dim)
    names.push_back("d" + std::to_string(dim));
  names.append(3, "0"); // Rows of taps, taps, positions.
  return names;
}

class WindowKernel {
public:
  WindowKernel(const Region &region, const WindowProblem &problem, const TileConfig &config, const ir::Target &target)
      : region(region), problem(problem), config(config), target(target), graph(problem.graph), tiles(problem, config),
        chunk(graph, problem.dense.value_or(problem.strip), problem.dense ? tiles.vector : tiles.strip),
        isPartial(!problem.dense && chunk.isPartial()), first(namesOfFirst(problem)),
        reads(problem, tiles, config, chunk, isPartial, first, writer) {
    extras = chunk.loadsOf(problem.outputs, problem.reductions);
    for (const WindowOperand &operand : problem.operands)
      all.push_back(operand.load);
    llvm::append_range(all, extras);
  }

  KernelPlan plan() {
    KernelPlan plan = planOf(region, graph, target);
    plan.inPlace.assign(plan.outputs.size(), -1); // Tiles at an end compute results of their neighbours, too.
    Launch launch = launchOf(plan, entryName(region), target);
    launch.grid[0] = static_cast<uint32_t>(ceilDiv(tiles.count, config["threads"]));
    launch.block[0] = static_cast<uint32_t>(config["threads"]);
    plan.launches = {launch};
    giveSource(plan, source());
    return plan;
  }

private:
  std::string source() {
    writeHead(writer, region, config, target, "windows.cuh");
    writer.line("using Index = " + indexType(graph) + ";");
    writer.open("struct Config");
    writer.line("static constexpr int rows = " + Twine(tiles.rows) + ", strideDown = " + Twine(problem.strideDown) +
                ", rowTaps = " + Twine(problem.rowTaps()) + ";");
    writer.line(std::string("static constexpr bool unrolled = ") + (config["unrolled"] ? "true" : "false") + ";");
    writer.close(";");
    writer.line();
    writeBody();
    writer.line();
    openEntry(writer, Twine(config["threads"]), entryName(region), bufferParameters(region, graph));
    writeTile();
    writer.close();
    return writer.str();
  }

  void writeBody() {
    writer.open("struct Body");
    for (const std::string &member : bufferMembers(graph, all))
      writer.line(member);
    writer.line("Index " + llvm::join(ArrayRef(first).take_front(problem.resultDims()), ", ") +
                "; // The first of a tile.");
    if (isPartial)
      writer.line("int lanes;");
    writer.line();
    writer.open("struct Loaded");
    forEachOfRow([&](const WindowOperand &operand) { reads.declareLoaded(operand); });
    writer.close(";");
    writer.open("struct Row");
    forEachOfRow([&](const WindowOperand &operand) { reads.declare(operand); });
    writer.close(";");
    writeTotals();
    writer.open("__device__ __forceinline__ void load(Loaded &x, Index down) const");
    forEachOfRow([&](const WindowOperand &operand) { reads.load(operand, "x.", named({{problem.rowTap, "down"}})); });
    writer.close();
    writer.open("__device__ __forceinline__ void decodeRow(Row &x, const Loaded &from) const");
    forEachOfRow([&](const WindowOperand &operand) { reads.decode(operand, "x.", "from."); });
    writer.close();
    writer.open("__device__ __forceinline__ void add(Totals &totals, const Row &x, Index h, Index rowTap) const");
    writeAdd();
    writer.close();
    writer.open("__device__ __forceinline__ void finish(const Totals &totals, Index h) const");
    writeFinish();
    writer.close();
    writer.close(";");
  }

  //===- Names -------------------------------------------------------------------------------===//

  /// The names of dimensions, some of them others than those of the tile's first.
  SmallVector<std::string> named(ArrayRef<std::pair<unsigned, std::string>> others) const {
    SmallVector<std::string> names = first;
    for (const auto &[dim, name] : others)
      names[dim] = name;
    return names;
  }
  std::string moved(unsigned dim, StringRef by) const { return ("(" + first[dim] + " + " + by + ")").str(); }
  /// Those of a row of results and a row of taps.
  SmallVector<std::string> atRow() const {
    SmallVector<std::string> names = named({{problem.rowTap, "rowTap"}});
    if (problem.down)
      names[*problem.down] = moved(*problem.down, "h");
    return names;
  }

  bool isOfRow(const WindowOperand &operand) const {
    return operand.along != Along::Both && (tiles.rows == 1 || operand.slidesDown);
  }
  void forEachOfRow(llvm::function_ref<void(const WindowOperand &)> body) const {
    for (const WindowOperand &operand : problem.operands)
      if (isOfRow(operand))
        body(operand);
  }
  /// What is loaded for each row of taps and row of results.
  void forEachOther(llvm::function_ref<void(const WindowOperand &)> body) const {
    for (const WindowOperand &operand : problem.operands)
      if (operand.along != Along::Both && !isOfRow(operand))
        body(operand);
  }
  //===- Reductions --------------------------------------------------------------------------===//

  std::string total(Scalar reduction) const { return "a" + std::to_string(reduction.id); }
  void openLoop(StringRef name, int64_t count) { openUnrolled(writer, name, count); }

  void writeTotals() {
    writer.open("struct Totals");
    for (Scalar reduction : problem.reductions)
      writer.line(valueType(graph[reduction].type) + " " + total(reduction) + "[" + Twine(tiles.strip) + "][" +
                  Twine(tiles.vector) + "]; // " + graph[reduction].function);
    writer.open("static __device__ __forceinline__ Totals identity()");
    writer.line("Totals t;");
    openLoop("j", tiles.strip);
    openLoop("l", tiles.vector);
    for (Scalar reduction : problem.reductions)
      writer.line("t." + total(reduction) + "[j][l] = " + reductionTypeName(graph[reduction].function) + "::identity<" +
                  valueType(graph[reduction].type) + ">();");
    writer.close();
    writer.close();
    writer.line("return t;");
    writer.close();
    writer.close(";");
  }

  void writeAdd() {
    SmallVector<std::string> names = atRow();
    bool hasOthers = false;
    forEachOther([&](const WindowOperand &) { hasOthers = true; });
    if (hasOthers) {
      writer.open("struct Loaded");
      forEachOther([&](const WindowOperand &operand) { reads.declareLoaded(operand); });
      writer.close(" from;");
      writer.open("struct Values");
      forEachOther([&](const WindowOperand &operand) { reads.declare(operand); });
      writer.close(" w;");
    }
    forEachOther([&](const WindowOperand &operand) {
      reads.load(operand, "from.", names);
      reads.decode(operand, "w.", "from.");
    });
    names[problem.tap] = "k";
    names[problem.strip] = moved(problem.strip, "j");
    if (problem.dense)
      names[*problem.dense] = moved(*problem.dense, "l");
    openLoop("k", problem.taps());
    openLoop("j", tiles.strip);
    openLoop("l", tiles.vector);
    ValuePrinter at(graph, writer, names);
    at.readLoadsBy([&](Scalar load) {
      const WindowOperand &operand =
          *llvm::find_if(problem.operands, [&](const WindowOperand &each) { return each.load == load; });
      return elementText(operand, names);
    });
    for (Scalar reduction : problem.reductions) {
      std::string value = at.value(graph[reduction].operands[0]), to = "totals." + total(reduction) + "[j][l]";
      writer.line(to + " = " + reductionTypeName(graph[reduction].function) + "::combine(" + to + ", " + value + ");");
    }
    for (int i = 0; i < 3; ++i)
      writer.close();
  }

  /// An operand's value for result j, tap k and channel l.
  std::string elementText(const WindowOperand &operand, ArrayRef<std::string> names) const {
    std::string index;
    switch (operand.along) {
    case Along::Window:
      index = "j * " + std::to_string(problem.stride) + " + k * " + std::to_string(problem.dilation);
      break;
    case Along::Tap:
      index = "k";
      break;
    case Along::Strip:
      index = "j";
      break;
    case Along::Both:
      return reads.element(operand, names);
    }
    return (isOfRow(operand) ? "x." : "w.") + reads.nameOf(operand) + "[" + index + "][" +
           (reads.widthOf(operand) > 1 ? "l" : "0") + "]";
  }

  //===- Results -----------------------------------------------------------------------------===//

  void writeFinish() {
    SmallVector<std::string> names = atRow();
    names[problem.rowTap] = "0";
    if (problem.dense) {
      openLoop("s", tiles.strip);
      names[problem.strip] = moved(problem.strip, "s");
    }
    ValuePrinter at(graph, writer, names);
    for (Scalar reduction : problem.reductions)
      at.define(reduction, "totals." + total(reduction) + (problem.dense ? "[s][j]" : "[j][0]"));
    chunk.storeResults(at, problem.outputs, extras);
    if (problem.dense)
      writer.close();
  }

  //===- Threads -----------------------------------------------------------------------------===//

  void writeTile() {
    writer.line("const Index tile = Index(blockIdx.x) * " + Twine(config["threads"]) + " + Index(threadIdx.x);");
    writer.line("if (tile >= " + Twine(tiles.count) + ")");
    writer.line("  return;");
    // Groups of channels, then what is left, so that a block's threads are neighbours across and down.
    SmallVector<int64_t> counts;
    SmallVector<std::string> names, starts(problem.resultDims());
    auto add = [&](unsigned dim) {
      counts.push_back(tiles.counts[dim]);
      names.push_back("t" + std::to_string(dim));
    };
    auto isOfTile = [&](unsigned dim) { return dim == problem.strip || dim == problem.down || dim == problem.dense; };
    for (unsigned dim = 0; dim < problem.resultDims(); ++dim)
      if (!isOfTile(dim))
        add(dim);
    if (problem.dense)
      add(*problem.dense);
    for (unsigned dim = 0; dim < problem.resultDims(); ++dim)
      if (isOfTile(dim) && dim != problem.dense)
        add(dim);
    if (problem.dense) {
      counts.push_back(tiles.lanes);
      names.emplace_back("lane");
    }
    writer.line(splitText("tile", counts, names));
    for (unsigned dim = 0; dim < problem.resultDims(); ++dim) {
      const int64_t extent = graph.extents()[dim];
      std::string number = "t" + std::to_string(dim);
      auto within = [&](int64_t part) { // The last one ends with the dimension.
        std::string start = number + " * " + std::to_string(part);
        return extent % part == 0 ? start
                                  : "minimum(Index(" + start + "), Index(" + std::to_string(extent - part) + "))";
      };
      if (dim == problem.dense)
        starts[dim] = "(" + number + " * " + std::to_string(tiles.lanes) + " + lane) * " + std::to_string(tiles.vector);
      else if (dim == problem.down)
        starts[dim] = within(tiles.rows);
      else if (dim == problem.strip && problem.dense)
        starts[dim] = within(tiles.strip);
      else if (dim == problem.strip)
        starts[dim] = number + " * " + std::to_string(tiles.strip);
      else
        starts[dim] = number;
      writer.line("const Index d" + Twine(dim) + " = " + starts[dim] + ";");
    }
    std::string members = bufferNames(graph, all);
    for (unsigned dim = 0; dim < problem.resultDims(); ++dim)
      members += ", d" + std::to_string(dim);
    if (isPartial)
      members += ", static_cast<int>(minimum(Index(" + std::to_string(tiles.strip) + "), Index(" +
                 std::to_string(graph.extents()[problem.strip]) + ") - d" + std::to_string(problem.strip) + "))";
    writer.line("reduceWindows<Config>(Body{" + members + "});");
  }

  const Region &region;
  const WindowProblem &problem;
  const TileConfig &config;
  const ir::Target &target;
  const LinearGraph &graph;
  WindowTiles tiles;
  ChunkPrinter chunk; ///< Prints accesses to channels, or to a strip.
  bool isPartial;     ///< Whether a strip may end behind the last result.
  std::vector<Scalar> extras, all;
  SmallVector<std::string> first; ///< The names of a tile's first point.
  SourceWriter writer;
  WindowReads reads;
};

} // namespace

KernelPlan windowKernel(const Region &region, const WindowProblem &problem, const TileConfig &config,
                        const ir::Target &target) {
  return WindowKernel(region, problem, config, target).plan();
}

} // namespace kfuse::codegen::cuda
