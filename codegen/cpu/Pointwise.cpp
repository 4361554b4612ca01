// cpu.pointwise: elementwise regions, strip by strip along the dimension that memory is dense in.
#include "codegen/cpu/Costs.h"
#include "codegen/cpu/Kernel.h"
#include "codegen/cpu/Templates.h"
#include "codegen/cpu/TileEmitter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

namespace kfuse::codegen::cpu {
namespace {

using Kind = ir::ScalarNode::Kind;

/// The iteration space cut into tiles: strips of `width` along `dense`, times `rows` along `other`
/// where some operand is dense in another dimension (a transpose). An item is `strips` by `stacked` tiles.
struct Tiling {
  unsigned dense;
  std::optional<unsigned> other;
  int64_t width, rows, strips, stacked;
};

/// The dimension, other than `dense`, that a load or output is dense in.
std::optional<unsigned> otherDenseDim(const LinearGraph &graph, unsigned dense) {
  auto isDense = [&](mlir::AffineExpr offset, unsigned dim) {
    TileDim chunk{dim, std::min<int64_t>(graph.extents()[dim], 16), 16};
    std::optional<TileIndex> index = linearInTile(offset, chunk);
    return index && index->strides[0] == 1;
  };
  auto conflicts = [&](mlir::AffineExpr offset, unsigned dim) {
    return isDense(offset, dim) && offset.isFunctionOfDim(dense) && !isDense(offset, dense);
  };
  for (unsigned dim = 0; dim < graph.extents().size(); ++dim) {
    if (dim == dense || graph.extents()[dim] == 1)
      continue;
    for (const ir::ScalarNode &node : graph.graph.nodes)
      if (node.kind == Kind::Load && conflicts(node.map.getResult(0), dim))
        return dim;
    for (const ir::ScalarOutput &output : graph.graph.outputs)
      if (conflicts(output.map.getResult(0), dim))
        return dim;
  }
  return std::nullopt;
}

Tiling tilingOf(const LinearGraph &graph, const TileConfig &config) {
  Tiling tiling;
  tiling.dense = densestDim(graph, graph.extents().size());
  tiling.other = otherDenseDim(graph, tiling.dense);
  tiling.width = std::min(config["width"], graph.extents()[tiling.dense]);
  tiling.rows = tiling.other ? std::min(config["rows"], graph.extents()[*tiling.other]) : 1;
  tiling.strips = config["strips"];
  tiling.stacked = config["stacked"];
  return tiling;
}

llvm::SmallVector<TileDim, 2> tileOf(const Tiling &tiling, int64_t rows, int64_t width) {
  llvm::SmallVector<TileDim, 2> tile;
  if (tiling.other)
    tile.push_back({*tiling.other, rows, tiling.rows});
  tile.push_back({tiling.dense, width, tiling.width});
  return tile;
}

/// How many items each dimension is cut into.
llvm::SmallVector<int64_t> itemGrid(const LinearGraph &graph, const Tiling &tiling) {
  llvm::SmallVector<int64_t> grid(graph.extents());
  grid[tiling.dense] = blocksOf(graph.extents()[tiling.dense], tiling.width, tiling.strips);
  if (tiling.other)
    grid[*tiling.other] = blocksOf(graph.extents()[*tiling.other], tiling.rows, tiling.stacked);
  return grid;
}

constexpr StripCosts byHand;

/// Modelled microseconds of one config.
double estimate(const Region &region, const LinearGraph &graph, const TileConfig &config, const ir::Target &target) {
  Tiling tiling = tilingOf(graph, config);
  double points = static_cast<double>(graph.graph.domain.points());
  double tilePoints = static_cast<double>(tiling.rows * tiling.width);
  double ops = static_cast<double>(graph.graph.nodes.size() + graph.graph.outputs.size());
  int staged = stagedAccesses(graph, tileOf(tiling, tiling.rows, tiling.width));
  double tileNs = byHand.perStrip * static_cast<double>(tiling.rows) + tilePoints * byHand.ofPoint(ops, staged);
  double computeUs = points / tilePoints * tileNs * 1e-3 / target.multiprocessors;
  double memoryUs = (region.bytesRead + region.bytesWritten) / target.memoryBytesPerUs;
  return target.launchUs + std::max(computeUs, memoryUs);
}

class PointwiseTemplate final : public KernelTemplate {
public:
  std::string_view name() const override { return "cpu.pointwise"; }

  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    if (!region.isOneGraph())
      return ir::FusionDecision::no("holds attention, or several regions");
    for (const ir::ScalarNode &node : region.graph.nodes)
      if (node.kind == Kind::Reduce || node.kind == Kind::Contract)
        return ir::FusionDecision::no("holds a reduction or a product");
    return canWrite(region.graph);
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    LinearGraph graph = linearised(region.graph, 0);
    bool isTransposed = otherDenseDim(graph, densestDim(graph, graph.extents().size())).has_value();
    std::vector<EstimatedConfig> configs;
    auto add = [&](int64_t width, int64_t rows, int64_t strips, int64_t stacked) {
      const TileConfig config{{"width", width}, {"rows", rows}, {"strips", strips}, {"stacked", stacked}};
      configs.emplace_back(estimate(region, graph, config, target), config);
    };
    for (int64_t width : {64, 32, 16})
      for (int64_t strips : {16, 128})
        if (!isTransposed)
          add(width, 1, strips, 1);
    // Pages and lines far apart: an item reads runs of 16 or 32 tiles from each of its rows.
    for (int64_t width : {16, 32})
      for (int64_t strips : {16, 1})
        for (int64_t stacked : {16, 32})
          if (isTransposed)
            add(width, 16, strips, stacked);
    return configs;
  }

  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    LinearGraph graph = linearised(region.graph, 0);
    Tiling tiling = tilingOf(graph, config);
    Kernel kernel(region.name, graph, target);
    llvm::SmallVector<int64_t> grid = itemGrid(graph, tiling);
    auto size = [&](unsigned dim) {
      return dim == tiling.dense   ? tiling.width * tiling.strips
             : dim == tiling.other ? tiling.rows * tiling.stacked
                                   : 1;
    };
    kernel.forItems(grid, size, [&](const std::string &, const Names &place) { writeItem(kernel, tiling, place); });
    KernelPlan plan = planOf(region, target);
    plan.launches.push_back(kernel.launch(ir::elementsIn(grid), grainOf(graph, grid)));
    plan.source = moduleText(region, name(), config, &kernel);
    return plan;
  }

private:
  static void writeItem(Kernel &kernel, const Tiling &tiling, const Names &blocks) {
    llvm::ArrayRef<int64_t> extents = kernel.graph.extents();
    auto outputs = llvm::to_vector(llvm::seq<unsigned>(0, kernel.graph.graph.outputs.size()));
    Names base = blocks;
    auto forRows = [&](llvm::function_ref<void(int64_t)> body) {
      if (!tiling.other)
        return body(1);
      forStripsOfBlock(kernel.text, blocks[*tiling.other], tiling.stacked, extents[*tiling.other], tiling.rows,
                       [&](const std::string &row, int64_t rows) {
                         base[*tiling.other] = row;
                         body(rows);
                       });
    };
    forStripsOfBlock(
        kernel.text, blocks[tiling.dense], tiling.strips, extents[tiling.dense], tiling.width,
        [&](const std::string &column, int64_t width) {
          base[tiling.dense] = column;
          forRows([&](int64_t rows) { TileEmitter(kernel, base, tileOf(tiling, rows, width)).storeOutputs(outputs); });
        });
  }
};

} // namespace

const KernelTemplate &pointwise() {
  static const PointwiseTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cpu
