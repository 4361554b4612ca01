// cpu.matmul: one product and its epilogue, block by block of the result.
//
// An item is a block of m x n results. It walks K in pieces of k; of each it packs the left operand
// [m, k], then strip by strip of nr columns the right operand [k, nr], which stays in the first-level
// cache while a kernel of mr x nr accumulators in registers runs down the rows. Packing evaluates any
// operand expression, converts to f32 and transposes; the epilogue reads the block's sums.
#include "codegen/cpu/Costs.h"
#include "codegen/cpu/Panels.h"
#include "codegen/cpu/Templates.h"
#include "codegen/cpu/TileEmitter.h"
#include "codegen/cuda/matmul/MatmulProblem.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kfuse::codegen::cpu {
namespace {

using cuda::MatmulProblem;
using Kind = ir::ScalarNode::Kind;

ProductOperand operandOf(const MatmulProblem &problem, unsigned side) {
  return {problem.operand(side), side == 0 ? problem.dimM : problem.dimN, problem.dimK};
}

/// Whether the results lie in memory along M.
bool storesAlongM(const MatmulProblem &problem) {
  return llvm::any_of(problem.graph.graph.outputs, [&](const ir::ScalarOutput &output) {
    TileDim chunk{problem.dimM, std::min(problem.M, square), square};
    std::optional<TileIndex> index = linearInTile(output.map.getResult(0), chunk);
    return index && index->strides[0] == 1 && problem.M > 1;
  });
}

/// Sizes of blocks, in elements. One that covers a whole dimension is a multiple of its registers;
/// others are multiples of `square`, too, so that tiles of that size start at multiples of it.
struct Blocking {
  int64_t mr, nr;  ///< Accumulators of the inner kernel.
  int64_t m, n, k; ///< Sizes of a block.
  int64_t blocksM, blocksN, blocksK;

  Blocking(const MatmulProblem &problem, const TileConfig &config)
      : mr(std::min(config["mr"], problem.M)), nr(config["nr"]), m(blockOf(problem.M, mr, config["m"])),
        n(blockOf(problem.N, nr, config["n"])), k(std::min(config["k"], problem.K)), blocksM(blocksOf(problem.M, m, 1)),
        blocksN(blocksOf(problem.N, n, 1)), blocksK(blocksOf(problem.K, k, 1)) {}

  static int64_t blockOf(int64_t extent, int64_t registers, int64_t wanted) {
    int64_t whole = llvm::alignTo(extent, registers), unit = std::lcm(registers, square);
    return std::min<int64_t>(whole, llvm::alignTo(wanted, unit));
  }
  int64_t items(const MatmulProblem &problem) const { return problem.batches * blocksM * blocksN; }
};

/// Writes the kernel of one problem.
class ProductWriter {
public:
  ProductWriter(Kernel &kernel, const MatmulProblem &problem, const Blocking &blocking)
      : kernel(kernel), text(kernel.text), problem(problem), b(blocking), left(kernel, operandOf(problem, 0), b.m, b.k),
        right(kernel, operandOf(problem, 1), b.k, b.nr), sums(text.stack({b.m * b.n}, "f32")) {}

  void write() {
    llvm::SmallVector<int64_t> grid(problem.graph.extents());
    grid[problem.dimM] = b.blocksM, grid[problem.dimN] = b.blocksN, grid[problem.dimK] = 1;
    auto size = [&](unsigned dim) { return dim == problem.dimM ? b.m : dim == problem.dimN ? b.n : 1; };
    kernel.forItems(grid, size, [&](const std::string &, const Names &place) {
      base = place;
      blockM = base[problem.dimM], blockN = base[problem.dimN];
      writeItem();
    });
  }

private:
  void writeItem() {
    lowM = times(text, blockM, b.m), lowN = times(text, blockN, b.n);
    std::string rows = clipped(text, lowM, b.m, problem.M), columns = clipped(text, lowN, b.n, problem.N);
    if (b.blocksK > 1)
      clearSums();
    text.loop(text.index(0), text.index(b.blocksK), 1, [&](const std::string &blockK) {
      std::string depth = clipped(text, times(text, blockK, b.k), b.k, problem.K);
      left.pack(base, blockM, blockK);
      text.loop(text.index(0), columns, b.nr, [&](const std::string &column) {
        right.pack(base, blockK, plus(text, lowN, column));
        text.loop(text.index(0), rows, b.mr, [&](const std::string &row) { multiplyRows(row, column, depth); });
      });
    });
    writeEpilogue();
  }

  std::string zeros() { return spread(text, b.nr, text.constant(0, DType::F32)); }

  void clearSums() {
    std::string zero = zeros();
    text.loop(text.index(0), text.index(b.m * b.n), b.nr,
              [&](const std::string &at) { storeRow(text, b.nr, zero, sums, at); });
  }

  /// sums[m][n] += left * right for mr rows of a strip.
  void multiplyRows(const std::string &row, const std::string &column, const std::string &depth) {
    const Panel rows{left.memory, times(text, row, b.k), b.k},
        results{sums, plus(text, times(text, row, b.n), column), b.n};
    multiply(text, b.mr, b.nr, rows, right.memory, results, depth, [&](int64_t, const std::string &place) {
      return b.blocksK > 1 ? loadRow(text, b.nr, sums, place) : zeros();
    });
  }

  void writeEpilogue() {
    bool alongM = storesAlongM(problem);
    int64_t rows = alongM ? square : 1, columns = alongM ? square : b.nr;
    auto outputs = llvm::to_vector(llvm::seq<unsigned>(0, problem.graph.graph.outputs.size()));
    forTiles(blockM, b.m, problem.M, rows, [&](const std::string &m, int64_t height) {
      forTiles(blockN, b.n, problem.N, columns, [&](const std::string &n, int64_t width) {
        std::string at = plus(text, times(text, minus(text, m, lowM), b.n), minus(text, n, lowN));
        View view = text.slice(sums, "f32", at, {{height, b.n}, {width, 1}});
        Names point = base;
        point[problem.dimM] = m, point[problem.dimN] = n;
        TileEmitter tile(kernel, point, {{problem.dimM, height, rows}, {problem.dimN, width, columns}});
        tile.bind(problem.products.front(), TileView{view, {0, 1}});
        tile.storeOutputs(outputs);
      });
    });
  }

  void forTiles(const std::string &block, int64_t blockSize, int64_t extent, int64_t width,
                llvm::function_ref<void(const std::string &, int64_t)> body) {
    forStripsOfBlock(text, block, (blockSize + width - 1) / width, extent, width, body);
  }

  Kernel &kernel;
  KernelText &text;
  const MatmulProblem &problem;
  const Blocking &b;
  LeftPanel left;
  RightPanel right;
  View sums;
  Names base;                 ///< Batch indices of the item.
  std::string blockM, blockN; ///< The block's indices.
  std::string lowM, lowN;     ///< Its first elements.
};

struct Coefficients : PanelCosts {
  double stagedPacking = 60; ///< Multiply-adds that packing an element through a buffer costs.
};
constexpr Coefficients byHand;

/// Modelled microseconds of one config.
double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  Blocking b(problem, config);
  double rate = byHand.rateShare * target.f32FlopsPerUs / target.multiprocessors / 2;
  const ProductOperand left = operandOf(problem, 0);
  const bool isStaged = LeftPanel::isStaged(problem.graph, left, LeftPanel::tileOf(problem.graph, left, b.k));
  double products = static_cast<double>(b.m * b.n),
         packed = (isStaged ? byHand.stagedPacking : byHand.packing) * static_cast<double>(b.m) +
                  byHand.packing * static_cast<double>(b.n);
  double itemUs = static_cast<double>(problem.K) * (products + packed) / rate;
  double rounds = std::ceil(static_cast<double>(b.items(problem)) / target.multiprocessors);
  double memoryUs = (region.bytesRead + region.bytesWritten) / target.memoryBytesPerUs;
  return target.launchUs + std::max(rounds * itemUs, memoryUs);
}

class MatmulTemplate final : public KernelTemplate {
public:
  std::string_view name() const override { return "cpu.matmul"; }

  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    if (llvm::any_of(region.graph.nodes, [](const ir::ScalarNode &node) { return node.kind == Kind::Reduce; }))
      return ir::FusionDecision::no("holds a reduction");
    if (std::optional<MatmulProblem> problem = MatmulProblem::of(region); !problem || problem->count() > 1)
      return ir::FusionDecision::no("is not one product");
    return canWrite(region.graph);
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    std::optional<MatmulProblem> problem = MatmulProblem::of(region);
    std::vector<EstimatedConfig> configs;
    auto add = [&](int64_t mr, int64_t nr, int64_t m, int64_t n) {
      const TileConfig config{{"mr", mr}, {"nr", nr}, {"m", m}, {"n", n}, {"k", 256}};
      if (m <= 96 || problem->M > 96)
        configs.emplace_back(estimate(region, *problem, config, target), config);
    };
    for (auto [mr, nr] : accumulatorShapes) {
      add(mr, nr, 192, 256);
      add(mr, nr, 96, 256);
      add(mr, nr, 96, 64);
    }
    return configs;
  }

  std::int64_t estimateGroup(const TileConfig &config) const override { return accumulatorsOf(config); }

  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    std::optional<MatmulProblem> problem = MatmulProblem::of(region);
    Blocking blocking(*problem, config);
    Kernel kernel(region.name, problem->graph, target);
    ProductWriter(kernel, *problem, blocking).write();
    KernelPlan plan = planOf(region, target);
    constexpr double flopsPerGrain = 1 << 20; // About 10 us of work: a thread is woken for no less.
    int64_t items = blocking.items(*problem);
    double grain = flopsPerGrain * static_cast<double>(items) / std::max(region.flops, 1.0);
    plan.launches.push_back(kernel.launch(items, std::clamp<int64_t>(static_cast<int64_t>(grain), 1, items)));
    plan.source = moduleText(region, name(), config, &kernel);
    return plan;
  }
};

} // namespace

const KernelTemplate &matmul() {
  static const MatmulTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cpu
