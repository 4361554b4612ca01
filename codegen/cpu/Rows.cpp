// cpu.rows: row reductions and what is computed from them.
//
// A row is walked once per pass. Reductions that need nothing of each other share a pass; what needs
// their results comes in a later one:
//
//   softmax   pass 0: max x    pass 1: sum e^(x - max), e saved in the row buffer    last: e / sum
//
// Where memory is dense along the row, strips run along it and each lane keeps its own partial result.
// Where it is dense across rows (a sum over columns), strips hold one element of neighbouring rows.
#include "codegen/cpu/Costs.h"
#include "codegen/cpu/Kernel.h"
#include "codegen/cpu/PassPlan.h"
#include "codegen/cpu/ScalarFunctions.h"
#include "codegen/cpu/Templates.h"
#include "codegen/cpu/TileEmitter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <cmath>
#include <map>

namespace kfuse::codegen::cpu {
namespace {

using ir::Scalar;
using ir::ScalarNode;
using Kind = ScalarNode::Kind;

constexpr int64_t rowsTogether = 4;          // Across rows: loads for each load and store of what they are added to.
constexpr int64_t maxSavedBytes = 256 << 10; // Row buffers of a thread: a quarter of a usual L2.

//===- Tiling --------------------------------------------------------------------------------===//

struct Tiling {
  unsigned dense; ///< The dimension that strips run along.
  int64_t width;  ///< Lanes of a strip.
  int64_t strips; ///< Across rows: strips of an item.
  bool isAlong;   ///< Strips run along the row.
  bool fetchesAhead;
};

Tiling tilingOf(const LinearGraph &graph, const TileConfig &config) {
  Tiling tiling;
  tiling.dense = densestDim(graph, graph.extents().size());
  tiling.isAlong = static_cast<int>(tiling.dense) == graph.graph.domain.reductionDim;
  tiling.width = std::min(config["width"], graph.extents()[tiling.dense]);
  tiling.strips = config["strips"];
  tiling.fetchesAhead = config["ahead"] != 0;
  return tiling;
}

llvm::SmallVector<int64_t> itemGrid(const LinearGraph &graph, const Tiling &tiling) {
  llvm::SmallVector<int64_t> grid(graph.extents());
  grid[graph.graph.domain.reductionDim] = 1;
  if (!tiling.isAlong)
    grid[tiling.dense] = blocksOf(graph.extents()[tiling.dense], tiling.width, tiling.strips);
  return grid;
}

bool fitsRowBuffer(const LinearGraph &graph, const Tiling &tiling) {
  int64_t row = graph.extents()[graph.graph.domain.reductionDim];
  return tiling.isAlong && row * static_cast<int64_t>(sizeof(double)) <= maxSavedBytes;
}

//===- Writers -------------------------------------------------------------------------------===//

/// A partial result per lane, and its final value.
struct Accumulator {
  Scalar node;
  View lanes;
  int64_t size;
};

class RowWriter {
public:
  RowWriter(Kernel &kernel, const Tiling &tiling)
      : kernel(kernel), text(kernel.text), tiling(tiling), column(kernel.graph.graph.domain.reductionDim),
        extent(kernel.graph.extents()[column]),
        passes(PassPlan::of(kernel.graph, fitsRowBuffer(kernel.graph, tiling))) {}

  /// The row, or rows, of an item; `next` is the item after it.
  void write(const Names &item, const Names &next) { tiling.isAlong ? writeAlong(item, next) : writeAcross(item); }

private:
  const ScalarNode &node(Scalar s) const { return kernel.graph[s]; }

  std::vector<Accumulator> makeAccumulators(unsigned pass, int64_t size) {
    std::vector<Accumulator> accumulators;
    for (Scalar s : passes.reductions[pass]) {
      DType type = node(s).type;
      Accumulator accumulator{s, text.stack({size}, storedTypeName(type)), size};
      const Reduction &reduction = *findReduction(node(s).function);
      std::string neutral = isFloat(type) ? text.constant(reduction.neutralReal(), type)
                                          : text.integer(reduction.neutralInteger(type), type);
      text.line("linalg.fill ins(" + neutral + " : " + computeTypeName(type) + ") outs(" + accumulator.lanes.name +
                " : " + accumulator.lanes.type + ")");
      accumulators.push_back(std::move(accumulator));
    }
    return accumulators;
  }

  /// The lanes from `offset` on, as a view of a strip.
  TileView lanes(const View &memory, DType type, const std::string &offset, int64_t size) {
    return {text.slice(memory, storedTypeName(type), offset, ViewDim{size, 1}), {0}, type};
  }

  std::vector<TileStore> intoAccumulators(const std::vector<Accumulator> &accumulators, const std::string &offset,
                                          int64_t size) {
    std::vector<TileStore> stores;
    for (const Accumulator &accumulator : accumulators) {
      const ScalarNode &reduction = node(accumulator.node);
      stores.push_back(
          {reduction.operands[0], lanes(accumulator.lanes, reduction.type, offset, size), reduction.function});
    }
    return stores;
  }

  std::string finish(const Accumulator &accumulator) {
    const ScalarNode &reduction = node(accumulator.node);
    const Reduction *row = findReduction(reduction.function);
    std::string kind(isFloat(reduction.type) ? row->floatKind : row->integerKind);
    std::string element = computeTypeName(reduction.type);
    std::string vector = "vector<" + std::to_string(accumulator.size) + "x" + element + ">";
    std::string loaded = text.let("v", "vector.load " + accumulator.lanes.name + "[" + text.index(0) +
                                           "] : " + accumulator.lanes.type + ", " + vector);
    return text.let("v", "vector.reduction <" + kind + ">, " + loaded + " : " + vector + " into " + element);
  }

  //===- Along the row -----------------------------------------------------------------------===//

  void writeAlong(const Names &item, const Names &next) {
    Names base = item;
    base[column] = text.index(0);
    TileEmitter row(kernel, base, {});
    for (unsigned pass = 0; pass < passes.reductions.size(); ++pass) {
      std::vector<Accumulator> accumulators = makeAccumulators(pass, tiling.width);
      for (Scalar s : passes.saved[pass])
        buffers[s.id] = text.stack({extent}, storedTypeName(node(s).type));
      forStrips(text, extent, tiling.width, [&](const std::string &at, int64_t size) {
        TileEmitter strip = stripAt(row, item, at, size, pass);
        std::vector<TileStore> stores = intoAccumulators(accumulators, text.index(0), size);
        for (Scalar s : passes.saved[pass])
          stores.push_back({s, lanes(buffers[s.id], node(s).type, at, size)});
        strip.store(stores);
        if (pass == 1 && tiling.fetchesAhead)
          prefetch(next, column, at, size);
      });
      for (const Accumulator &accumulator : accumulators)
        row.bind(accumulator.node, finish(accumulator));
    }
    if (!passes.elementOutputs.empty())
      forStrips(text, extent, tiling.width, [&](const std::string &at, int64_t size) {
        stripAt(row, item, at, size, passes.reductions.size()).storeOutputs(passes.elementOutputs);
        if (passes.reductions.size() == 1 && tiling.fetchesAhead)
          prefetch(next, column, at, size);
      });
    row.storeOutputs(passes.rowOutputs);
  }

  /// Fetches a strip along dimension `along` of the point `next` into the second-level cache. The first
  /// pass over a row waits for memory and the others do not: fetching the next row in the second one
  /// keeps memory busy throughout. Past the last row the address is of nothing, which a fetch ignores.
  void prefetch(Names next, unsigned along, const std::string &at, int64_t size) {
    constexpr int64_t lineBytes = 64;
    next[along] = at;
    for (const ScalarNode &load : kernel.graph.graph.nodes) {
      if (load.kind != Kind::Load || !load.symbols.empty() || !load.guards.empty() || !isDenseAlong(load, along))
        continue;
      View memory = kernel.input(load.input);
      std::string first = text.apply(load.map.getResult(0), next);
      int64_t line = lineBytes / byteWidth(kernel.graph.graph.inputs[load.input].type);
      for (int64_t offset = 0; offset < size; offset += line) {
        std::string i = text.let("i", "arith.addi " + first + ", " + text.index(offset) + " : index");
        text.line("memref.prefetch " + memory.name + "[" + i + "], read, locality<2>, data : " + memory.type);
      }
    }
  }

  /// Whether the load is dense along that dimension and differs along others.
  bool isDenseAlong(const ScalarNode &load, unsigned along) const {
    mlir::AffineExpr offset = load.map.getResult(0);
    std::optional<TileIndex> index = linearInTile(offset, TileDim{along, tiling.width, tiling.width});
    return index && index->strides[0] == 1 &&
           llvm::any_of(llvm::seq<unsigned>(0, kernel.graph.extents().size()),
                        [&](unsigned dim) { return dim != along && offset.isFunctionOfDim(dim); });
  }

  /// A strip of the row in pass `pass`, which knows what earlier passes saved.
  TileEmitter stripAt(const TileEmitter &row, Names base, const std::string &at, int64_t size, unsigned pass) {
    base[column] = at;
    TileEmitter strip = row.inner(base, TileDim{column, size, tiling.width});
    for (unsigned earlier = 0; earlier < pass; ++earlier)
      for (Scalar s : passes.saved[earlier])
        strip.bind(s, lanes(buffers[s.id], node(s).type, at, size));
    return strip;
  }

  //===- Across rows -------------------------------------------------------------------------===//

  void writeAcross(const Names &item) {
    int64_t block = tiling.width * tiling.strips;
    std::string first = text.let("first", "arith.muli " + item[tiling.dense] + ", " + text.index(block) + " : index");
    std::vector<Accumulator> finished;
    // Row by row within a strip, so that what a strip adds up stays in registers over those rows.
    auto forStripsAcross =
        [&](llvm::ArrayRef<std::string> rows,
            llvm::function_ref<void(TileEmitter &, const std::string &, const std::string &, int64_t)> body) {
          forStripsOfBlock(text, item[tiling.dense], tiling.strips, kernel.graph.extents()[tiling.dense], tiling.width,
                           [&](const std::string &at, int64_t size) {
                             std::string local = text.let("i", "arith.subi " + at + ", " + first + " : index");
                             for (const std::string &k : rows) {
                               Names base = item;
                               base[tiling.dense] = at;
                               base[column] = k;
                               TileEmitter strip(kernel, base, TileDim{tiling.dense, size, tiling.width});
                               for (const Accumulator &reduction : finished)
                                 strip.bind(reduction.node,
                                            lanes(reduction.lanes, node(reduction.node).type, local, size));
                               body(strip, k, local, size);
                             }
                           });
        };
    for (unsigned pass = 0; pass < passes.reductions.size(); ++pass) {
      std::vector<Accumulator> accumulators = makeAccumulators(pass, block);
      forStrips(text, extent, rowsTogether, [&](const std::string &k, int64_t count) {
        Names rows{k};
        for (int64_t i = 1; i < count; ++i)
          rows.push_back(text.let("i", "arith.addi " + k + ", " + text.index(i) + " : index"));
        forStripsAcross(rows, [&](TileEmitter &strip, const std::string &row, const std::string &local, int64_t size) {
          strip.store(intoAccumulators(accumulators, local, size));
          if (pass == 0 && tiling.fetchesAhead)
            prefetchRow(item, row, local, size);
        });
      });
      finished.insert(finished.end(), accumulators.begin(), accumulators.end());
    }
    if (!passes.elementOutputs.empty())
      text.loop(text.index(0), text.index(extent), 1, [&](const std::string &k) {
        forStripsAcross(k, [&](TileEmitter &strip, const std::string &, const std::string &, int64_t) {
          strip.storeOutputs(passes.elementOutputs);
        });
      });
    if (!passes.rowOutputs.empty())
      forStripsAcross(text.index(0), [&](TileEmitter &strip, const std::string &, const std::string &, int64_t) {
        strip.storeOutputs(passes.rowOutputs);
      });
  }

  /// Fetches a strip some rows below: rows are far apart, which the processor does not foresee.
  void prefetchRow(Names item, const std::string &k, const std::string &local, int64_t size) {
    constexpr int64_t rowsAhead = 8;
    int64_t block = tiling.width * tiling.strips;
    std::string first = text.let("i", "arith.muli " + item[tiling.dense] + ", " + text.index(block) + " : index");
    std::string at = text.let("i", "arith.addi " + first + ", " + local + " : index");
    item[column] = text.let("i", "arith.addi " + k + ", " + text.index(rowsAhead) + " : index");
    prefetch(item, tiling.dense, at, size);
  }

  Kernel &kernel;
  KernelText &text;
  Tiling tiling;
  unsigned column;
  int64_t extent;
  PassPlan passes;
  std::map<int, View> buffers; ///< Where saved nodes lie.
};

//===- Template ------------------------------------------------------------------------------===//

struct Coefficients : StripCosts {
  double perPass = 40; ///< To begin and finish a pass over a row.
};
constexpr Coefficients byHand;

/// Modelled microseconds of one config.
double estimate(const Region &region, const LinearGraph &graph, const TileConfig &config, const ir::Target &target) {
  Tiling tiling = tilingOf(graph, config);
  PassPlan passes = PassPlan::of(graph, fitsRowBuffer(graph, tiling));
  double points = static_cast<double>(graph.graph.domain.points());
  double rows = points / static_cast<double>(graph.extents()[graph.graph.domain.reductionDim]);
  double walks = static_cast<double>(passes.reductions.size()) + !passes.elementOutputs.empty();
  double width = static_cast<double>(tiling.width), ops = static_cast<double>(graph.graph.nodes.size());
  int staged = stagedAccesses(graph, TileDim{tiling.dense, tiling.width, tiling.width});
  double rowNs = tiling.isAlong ? byHand.perPass * walks : byHand.perPass * walks / width;
  double strips = tiling.isAlong ? rows * std::ceil(points / rows / width) : points / width;
  double ns = rows * rowNs + strips * walks * byHand.perStrip + points * byHand.ofPoint(ops, staged);
  double items = static_cast<double>(ir::elementsIn(itemGrid(graph, tiling)));
  double computeUs = ns * 1e-3 / std::min<double>(target.multiprocessors, items);
  double memoryUs = (region.bytesRead + region.bytesWritten) / target.memoryBytesPerUs;
  return target.launchUs + std::max(computeUs, memoryUs);
}

class RowsTemplate final : public KernelTemplate {
public:
  std::string_view name() const override { return "cpu.rows"; }

  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    if (region.graph.domain.contractionDim >= 0)
      return ir::FusionDecision::no("holds a matrix product");
    if (region.graph.domain.reductionDim < 0)
      return ir::FusionDecision::no("holds no row reduction");
    for (const ScalarNode &node : region.graph.nodes)
      if (node.kind == Kind::Reduce && node.type == DType::Bool)
        return ir::FusionDecision::no("reduces booleans");
    return canWrite(region.graph);
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    LinearGraph graph = linearised(region.graph, 1);
    bool isAlong = tilingOf(graph, {{"width", 64}, {"strips", 1}, {"ahead", 1}}).isAlong;
    std::vector<EstimatedConfig> configs;
    for (int64_t ahead : {1, 0})
      for (int64_t width : isAlong ? std::vector<int64_t>{128, 64, 32, 16} : std::vector<int64_t>{64, 32})
        for (int64_t strips : isAlong ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 4, 16, 32}) {
          const TileConfig config{{"width", width}, {"strips", strips}, {"ahead", ahead}};
          configs.emplace_back(estimate(region, graph, config, target), config);
        }
    return configs;
  }

  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    LinearGraph graph = linearised(region.graph, 1);
    Tiling tiling = tilingOf(graph, config);
    Kernel kernel(region.name, graph, target);
    llvm::SmallVector<int64_t> grid = itemGrid(graph, tiling);
    auto size = [&](unsigned dim) { return dim == tiling.dense ? tiling.width * tiling.strips : 1; };
    kernel.forItems(grid, size, [&](const std::string &item, const Names &place) {
      std::string next = kernel.text.let("i", "arith.addi " + item + ", " + kernel.text.index(1) + " : index");
      RowWriter(kernel, tiling).write(place, kernel.text.delinearise(next, grid));
    });
    KernelPlan plan = planOf(region, target);
    plan.launches.push_back(kernel.launch(ir::elementsIn(grid), grainOf(graph, grid)));
    plan.source = moduleText(region, name(), config, &kernel);
    return plan;
  }
};

} // namespace

const KernelTemplate &rows() {
  static const RowsTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cpu
