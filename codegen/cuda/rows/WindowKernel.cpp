#include "codegen/cuda/rows/WindowKernel.h"

#include "codegen/cuda/rows/RowPasses.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"
#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {

using ir::Guard;
using ir::Scalar;
using ir::ScalarNode;
using Along = WindowOperand::Along;

WindowTiles::WindowTiles(const WindowProblem &problem, const TileConfig &config)
    : strip(config["strip"]), rows(config["rows"]), vector(config["vector"]), lanes(config["lanes"]), count(lanes) {
  for (unsigned dim = 0; dim < problem.resultDims(); ++dim) {
    int64_t extent = problem.graph.extents()[dim], part = dim == problem.strip   ? strip
                                                          : dim == problem.down  ? rows
                                                          : dim == problem.dense ? vector * lanes
                                                                                 : 1;
    counts.push_back(ceilDiv(extent, part));
    count *= counts.back();
  }
}

/// An index of a window's operand at the position that dimension `rank` counts.
static AffineExpr atPosition(const WindowProblem &problem, AffineExpr index) {
  MLIRContext *context = index.getContext();
  const int64_t unit = *coefficientOf(index, problem.strip) / problem.stride;
  return index.replace(getAffineDimExpr(problem.tap, context), getAffineConstantExpr(0, context)) +
         getAffineDimExpr(problem.graph.extents().size(), context) * unit;
}

/// Its constant modulo `by`, where everything else but positions is a multiple of it.
static std::optional<int64_t> remainder(const WindowProblem &problem, AffineExpr index, int64_t strip, int64_t by) {
  SmallVector<ir::IndexTerm> terms;
  ir::collectTerms(index, 1, terms);
  int64_t constant = 0;
  for (const ir::IndexTerm &term : terms) {
    auto dim = dyn_cast_or_null<AffineDimExpr>(term.term);
    if (!term.term)
      constant += term.coefficient;
    else if (dim && dim.getPosition() == problem.tap)
      continue;
    else if (term.coefficient * (dim && dim.getPosition() == problem.strip ? strip : 1) % by != 0)
      return std::nullopt;
  }
  return (constant % by + by) % by;
}

int64_t windowAccess(const WindowProblem &problem, const WindowOperand &operand, int64_t strip, int64_t most,
                     int64_t &lead) {
  const ScalarNode &node = problem.graph[operand.load];
  auto fits = [&](int64_t by) {
    std::optional<int64_t> first = remainder(problem, node.map.getResult(0), strip, by);
    if (!first || operand.unit != 1 || elementCount(problem.graph.graph.inputs[node.input].shape) % by != 0)
      return false;
    lead = *first;
    return llvm::all_of(node.guards, [&](const Guard &guard) {
      const int64_t step = *coefficientOf(guard.index, problem.strip);
      return step == 0 || (step == problem.stride && guard.low % by == 0 && guard.high % by == 0 &&
                           remainder(problem, guard.index, strip, by) == lead);
    });
  };
  if (!problem.dense && operand.along == Along::Window)
    for (int64_t by = most; by > 1; by /= 2)
      if (fits(by))
        return by;
  lead = 0;
  return 1;
}

namespace {

std::string textOf(AffineExpr index, ArrayRef<std::string> names) {
  return indexText(index, {SmallVector<std::string, 6>(names), {}});
}

class WindowKernel {
public:
  WindowKernel(const Region &region, const WindowProblem &problem, const TileConfig &config, const ir::Target &target)
      : region(region), problem(problem), config(config), target(target), graph(problem.graph), tiles(problem, config),
        chunk(graph, problem.dense.value_or(problem.strip), problem.dense ? tiles.vector : tiles.strip),
        isPartial(!problem.dense && chunk.isPartial()) {
    for (unsigned dim = 0; dim < problem.resultDims(); ++dim)
      first.push_back("d" + std::to_string(dim));
    first.append(3, "0"); // Rows of taps, taps, positions.
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
    forEachOfRow([&](const WindowOperand &operand) { declareLoaded(operand); });
    writer.close(";");
    writer.open("struct Row");
    forEachOfRow([&](const WindowOperand &operand) { declare(operand); });
    writer.close(";");
    writeTotals();
    writer.open("__device__ __forceinline__ void load(Loaded &x, Index down) const");
    forEachOfRow([&](const WindowOperand &operand) { load(operand, "x.", named({{problem.rowTap, "down"}})); });
    writer.close();
    writer.open("__device__ __forceinline__ void decodeRow(Row &x, const Loaded &from) const");
    forEachOfRow([&](const WindowOperand &operand) { decode(operand, "x.", "from."); });
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
  /// Channels of an operand that a thread holds.
  int64_t widthOf(const WindowOperand &operand) const {
    return problem.dense && graph.dependsOn(operand.load, *problem.dense) ? tiles.vector : 1;
  }
  int64_t countOf(const WindowOperand &operand) const {
    return operand.along == Along::Window ? problem.positions(tiles.strip)
           : operand.along == Along::Tap  ? problem.taps()
                                          : tiles.strip;
  }
  DType inputType(const WindowOperand &operand) const { return graph.graph.inputs[graph[operand.load].input].type; }
  std::string nameOf(const WindowOperand &operand) const { return "v" + std::to_string(operand.load.id); }

  //===- Operands ----------------------------------------------------------------------------===//

  void declare(const WindowOperand &operand) {
    writer.line(valueType(graph[operand.load].type) + " " + nameOf(operand) + "[" + Twine(countOf(operand)) + "][" +
                Twine(widthOf(operand)) + "];");
  }

  /// An access of `width` elements of a type, zeros where not all of `when` holds.
  std::string access(const WindowOperand &operand, AffineExpr offset, ArrayRef<std::string> names, StringRef type,
                     int64_t width, int64_t alignment, ArrayRef<std::string> when) const {
    std::string from = "in" + std::to_string(graph[operand.load].input) + " + (" + textOf(offset, names) + ")";
    if (type != storedType(inputType(operand)))
      from = "reinterpret_cast<const " + type.str() + " *>(" + from + ")";
    std::string text = "loadVector<" + std::to_string(width) + ", " + std::to_string(alignment) + ">(" + from + ")";
    if (when.empty())
      return text;
    return llvm::join(when, " && ") + " ? " + text + " : Vector<" + type.str() + ", " + std::to_string(width) + ">{}";
  }
  static std::string conditionOf(const Guard &guard, AffineExpr index, ArrayRef<std::string> names) {
    return "isWithin(Index(" + textOf(index, names) + "), Index(" + std::to_string(guard.low) + "), Index(" +
           std::to_string(guard.high) + "))";
  }

  /// How an operand's elements lie in registers as they were loaded: `count` vectors of `size` elements, of which the
  /// first begins `lead` elements ahead of the first position.
  struct Pieces {
    int64_t count, size, lead;
    bool areChannels;  ///< Else positions.
    int64_t alignment; ///< In elements; 0 where channels are no neighbours.
    bool areWords;     ///< Two elements in a word, which the compiler takes apart by one instruction each.
    int64_t perWord() const { return areWords ? 2 : 1; }
  };
  Pieces piecesOf(const WindowOperand &operand) const {
    int64_t lead = 0;
    const int64_t size = windowAccess(problem, operand, tiles.strip, config["access"], lead), count = countOf(operand);
    Pieces pieces{count, widthOf(operand), 0, true, alignmentOf(operand), false};
    if (size > 1)
      pieces = {ceilDiv(lead + count, size), size, lead, false, size, false};
    const DType type = inputType(operand);
    pieces.areWords = isFloat(type) && byteWidth(type) == 2 && pieces.size % 2 == 0 && pieces.alignment > 0 &&
                      pieces.alignment % 2 == 0;
    return pieces;
  }
  std::string typeOf(const WindowOperand &operand, const Pieces &pieces) const {
    return pieces.areWords ? "unsigned" : storedType(inputType(operand)).str();
  }

  void declareLoaded(const WindowOperand &operand) {
    const Pieces pieces = piecesOf(operand);
    writer.line("Vector<" + typeOf(operand, pieces) + ", " + Twine(pieces.size / pieces.perWord()) + "> " +
                nameOf(operand) + "[" + Twine(pieces.count) + "];");
  }

  /// Reads an operand's elements for a row.
  void load(const WindowOperand &operand, const std::string &prefix, SmallVector<std::string> names) {
    const ScalarNode &node = graph[operand.load];
    const unsigned position = graph.extents().size();
    const bool isWindow = operand.along == Along::Window;
    const Pieces pieces = piecesOf(operand);
    const unsigned moving = isWindow ? position : operand.along == Along::Tap ? problem.tap : problem.strip;
    auto at = [&](const std::string &number) {
      SmallVector<std::string> there = names;
      there[moving] = moving == problem.strip ? moved(problem.strip, number) : number;
      return there;
    };
    names = at(pieces.areChannels ? "i"
               : pieces.lead == 0 ? "i * " + std::to_string(pieces.size)
                                  : "(i * " + std::to_string(pieces.size) + " - " + std::to_string(pieces.lead) + ")");
    auto placed = [&](AffineExpr index) { return isWindow ? atPosition(problem, index) : index; };
    const AffineExpr offset = placed(node.map.getResult(0));

    SmallVector<std::string> ofRow, ofElement, ofAll;
    for (const Guard &guard : node.guards) {
      AffineExpr index = placed(guard.index);
      if (!guard.index.isFunctionOfDim(problem.strip) && !guard.index.isFunctionOfDim(problem.tap)) {
        ofRow.push_back(conditionOf(guard, index, names));
        continue;
      }
      ofElement.push_back(conditionOf(guard, index, names));
      for (int64_t end : {int64_t{0}, countOf(operand) - 1})
        ofAll.push_back(conditionOf(guard, index, at(std::to_string(end))));
    }
    if (isPartial && operand.along == Along::Strip)
      ofElement.emplace_back("i < lanes");
    if (isPartial && isWindow && ofElement.empty()) // Behind a tile's last result there may be nothing.
      ofElement.push_back(textOf(offset, names) + " < " +
                          std::to_string(elementCount(graph.graph.inputs[node.input].shape)));
    const std::string value = prefix + nameOf(operand);
    // Most strips touch no border. A warp's threads have the same one where channels are dense.
    if (problem.dense && isWindow && !ofAll.empty()) {
      llvm::append_range(ofAll, ofRow);
      llvm::append_range(ofElement, ofRow);
      writer.open("if (" + llvm::join(ofAll, " && ") + ")");
      loadPieces(operand, pieces, value, names, offset, {});
      writer.close();
      writer.open("else");
      loadPieces(operand, pieces, value, names, offset, ofElement);
      writer.close();
      return;
    }
    if (!ofRow.empty()) {
      const std::string holds = "holds" + std::to_string(operand.load.id);
      writer.line("const bool " + holds + " = " + llvm::join(ofRow, " && ") + ";");
      ofElement.push_back(holds);
    }
    loadPieces(operand, pieces, value, names, offset, ofElement);
  }

  void loadPieces(const WindowOperand &operand, const Pieces &pieces, const std::string &value,
                  ArrayRef<std::string> names, AffineExpr offset, ArrayRef<std::string> when) {
    openLoop("i", pieces.count);
    const std::string type = typeOf(operand, pieces);
    if (pieces.alignment > 0) {
      writer.line(value + "[i] = " +
                  access(operand, offset, names, type, pieces.size / pieces.perWord(),
                         pieces.alignment / pieces.perWord(), when) +
                  ";");
    } else { // Channels that are no neighbours.
      openLoop("l", pieces.size);
      SmallVector<std::string> lane(names);
      lane[*problem.dense] = moved(*problem.dense, "l");
      writer.line(value + "[i][l] = (" + access(operand, offset, lane, type, 1, 1, when) + ")[0];");
      writer.close();
    }
    writer.close();
  }

  /// Makes values of what was loaded.
  void decode(const WindowOperand &operand, const std::string &to, const std::string &from) {
    const Pieces pieces = piecesOf(operand);
    const std::string name = nameOf(operand);
    const std::string word = from + name + "[i][l]";
    openLoop("i", pieces.count);
    openLoop("l", pieces.size / pieces.perWord());
    auto put = [&](const std::string &element, const std::string &value) {
      if (pieces.areChannels)
        return writer.line(to + name + "[i][" + element + "] = " + value + ";");
      const std::string q =
          "i * " + std::to_string(pieces.size) + " - " + std::to_string(pieces.lead) + " + " + element;
      writer.line("if (const int q = " + q + "; q >= 0 && q < " + Twine(countOf(operand)) + ")");
      writer.line("  " + to + name + "[q][0] = " + value + ";");
    };
    if (pieces.areWords) {
      writer.line("float pair[2];");
      writer.line("decodeWord(pair, " + storedType(inputType(operand)) + "{}, " + word + ");");
      put("2 * l", "pair[0]");
      put("2 * l + 1", "pair[1]");
    } else {
      put("l", "decode(" + word + ")");
    }
    writer.close();
    writer.close();
  }

  /// Elements to which the address of an access to several is aligned; 1 of single ones.
  int64_t alignmentOf(const WindowOperand &operand) const {
    return widthOf(operand) > 1 ? chunk.vectorAlignment(operand.load) : 1;
  }

  //===- Reductions --------------------------------------------------------------------------===//

  std::string total(Scalar reduction) const { return "a" + std::to_string(reduction.id); }
  void openLoop(StringRef name, int64_t count) {
    writer.line("#pragma unroll");
    writer.open("for (int " + name + " = 0; " + name + " < " + Twine(count) + "; ++" + name + ")");
  }

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
      forEachOther([&](const WindowOperand &operand) { declareLoaded(operand); });
      writer.close(" from;");
      writer.open("struct Values");
      forEachOther([&](const WindowOperand &operand) { declare(operand); });
      writer.close(" w;");
    }
    forEachOther([&](const WindowOperand &operand) {
      load(operand, "from.", names);
      decode(operand, "w.", "from.");
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
    case Along::Both: {
      SmallVector<std::string> when;
      for (const Guard &guard : graph[operand.load].guards)
        when.push_back(conditionOf(guard, guard.index, names));
      if (isPartial)
        when.emplace_back("j < lanes");
      return "decode((" +
             access(operand, graph[operand.load].map.getResult(0), names, storedType(inputType(operand)), 1, 1, when) +
             ")[0])";
    }
    }
    return (isOfRow(operand) ? "x." : "w.") + nameOf(operand) + "[" + index + "][" +
           (widthOf(operand) > 1 ? "l" : "0") + "]";
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
    if (!extras.empty()) {
      writer.open("struct Extras");
      chunk.declare(writer, extras);
      writer.close(" w;");
      chunk.load(at, extras, "w.");
    }
    for (auto [i, value] : llvm::enumerate(problem.outputs))
      writer.line("Vector<" + valueType(graph[value].type) + ", " + Twine(problem.dense ? tiles.vector : tiles.strip) +
                  "> y" + Twine(i) + ";");
    chunk.lanes(
        at, [](Scalar) { return "w."; },
        [&](ValuePrinter &lane) {
          for (auto [i, value] : llvm::enumerate(problem.outputs)) {
            std::string text = lane.value(value);
            writer.line("y" + Twine(i) + "[j] = " + text + ";");
          }
        });
    for (unsigned i = 0; i < problem.outputs.size(); ++i)
      chunk.store(at, i);
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
};

} // namespace

KernelPlan windowKernel(const Region &region, const WindowProblem &problem, const TileConfig &config,
                        const ir::Target &target) {
  return WindowKernel(region, problem, config, target).plan();
}

} // namespace kfuse::codegen::cuda
