// cpu.matmul: one product and its epilogue, block by block of the result.
//
// An item is a block of m x n results. It walks K in pieces of k; of each it packs the left operand
// [m, k], then strip by strip of nr columns the right operand [k, nr], which stays in the first-level
// cache while a kernel of mr x nr accumulators in registers runs down the rows. Packing evaluates any
// operand expression, converts to f32 and transposes; the epilogue reads the block's sums.
#include "codegen/cpu/Kernel.h"
#include "codegen/cpu/Templates.h"
#include "codegen/cpu/TileEmitter.h"
#include "codegen/cuda/matmul/MatmulProblem.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kfuse::codegen::cpu {
namespace {

using cuda::MatmulProblem;
using Kind = ir::ScalarNode::Kind;

/// Rows and columns of a tile that is transposed in registers, and what blocks are multiples of.
constexpr int64_t square = 16;

/// Whether `holds` for a load that `value` is computed from, without those in front of a load's address.
bool anyLoad(const LinearGraph &graph, ir::Scalar value, llvm::function_ref<bool(const ir::ScalarNode &)> holds) {
  std::vector<bool> needed(static_cast<size_t>(value.id) + 1); // Each node once, users before what they use.
  needed[value.id] = true;
  for (int id = value.id; id >= 0; --id) {
    const ir::ScalarNode &node = graph[{id}];
    if (!needed[id])
      continue;
    if (node.kind == Kind::Load && holds(node))
      return true;
    for (ir::Scalar operand : node.operands)
      needed[operand.id] = true;
  }
  return false;
}

/// Whether a load that `value` is computed from is contiguous along `dim`.
bool isDenseAlong(const LinearGraph &graph, ir::Scalar value, unsigned dim) {
  const TileDim chunk{dim, std::min(graph.extents()[dim], square), square};
  return graph.extents()[dim] > 1 && anyLoad(graph, value, [&](const ir::ScalarNode &load) {
           std::optional<TileIndex> index = linearInTile(load.map.getResult(0), chunk);
           return index && index->strides[0] == 1;
         });
}

/// Whether an operand lies in memory the other way than it is packed: the left one along M, the right one along K.
bool liesTransposed(const MatmulProblem &problem, unsigned side) {
  const bool alongK = isDenseAlong(problem.graph, problem.operand(side), problem.dimK),
             alongOther = isDenseAlong(problem.graph, problem.operand(side), side == 0 ? problem.dimM : problem.dimN);
  return side == 0 ? alongOther && !alongK : alongK && !alongOther;
}

/// Whether a load that `value` is computed from goes through a buffer in such a tile, element by element.
bool isStaged(const LinearGraph &graph, ir::Scalar value, llvm::ArrayRef<TileDim> tile) {
  return anyLoad(graph, value, [&](const ir::ScalarNode &load) {
    return !load.symbols.empty() || !stridedAccess(load.map.getResult(0), tile) ||
           llvm::any_of(load.guards, [&](const ir::Guard &guard) { return !isUniformInTile(guard, tile); });
  });
}

/// Rows and columns of the left operand that are packed at once.
struct LeftTile {
  int64_t rows, depth;
};

bool isStaged(const MatmulProblem &problem, LeftTile tile) {
  return isStaged(problem.graph, problem.operand(0),
                  {{problem.dimM, tile.rows, tile.rows}, {problem.dimK, tile.depth, tile.depth}});
}

/// For windows, at most one run of columns that lie side by side: longer tiles go through a buffer.
LeftTile leftTile(const MatmulProblem &problem, int64_t k) {
  if (liesTransposed(problem, 0))
    return {square, square};
  LeftTile widest{1, std::min<int64_t>(64, k)};
  if (isStaged(problem, widest))
    for (int64_t depth : {32, 16, 8})
      if (LeftTile narrower{1, depth}; depth < k && k % depth == 0 && !isStaged(problem, narrower))
        return narrower;
  return widest;
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
      : kernel(kernel), text(kernel.text), problem(problem), b(blocking), left(text.stack({b.m * b.k}, "f32")),
        right(text.stack({b.k * b.nr}, "f32")), sums(text.stack({b.m * b.n}, "f32")),
        row("vector<" + std::to_string(b.nr) + "xf32>") {}

  void write() {
    llvm::SmallVector<int64_t> grid(problem.graph.extents());
    grid[problem.dimM] = b.blocksM, grid[problem.dimN] = b.blocksN, grid[problem.dimK] = 1;
    text.loop("%begin", "%end", 1, [&](const std::string &item) {
      base = text.delinearise(item, grid);
      blockM = base[problem.dimM], blockN = base[problem.dimN];
      writeItem();
    });
  }

private:
  void writeItem() {
    lowM = times(blockM, b.m), lowN = times(blockN, b.n);
    std::string rows = clipped(lowM, b.m, problem.M), columns = clipped(lowN, b.n, problem.N);
    if (b.blocksK > 1)
      clearSums();
    text.loop(text.index(0), text.index(b.blocksK), 1, [&](const std::string &block) {
      blockK = block;
      lowK = times(blockK, b.k);
      std::string depth = clipped(lowK, b.k, problem.K);
      packLeft();
      text.loop(text.index(0), columns, b.nr, [&](const std::string &column) {
        packRight(column);
        text.loop(text.index(0), rows, b.mr, [&](const std::string &r) { multiply(r, column, depth); });
      });
    });
    writeEpilogue();
  }

  void clearSums() {
    std::string zero = zeros();
    text.loop(text.index(0), text.index(b.m * b.n), b.nr, [&](const std::string &at) { storeRow(zero, sums, at); });
  }

  /// left[m][k].
  void packLeft() {
    const auto [rows, depth] = leftTile(problem, b.k);
    forTiles(blockM, b.m, problem.M, rows, [&](const std::string &m, int64_t height) {
      forTiles(blockK, b.k, problem.K, depth, [&](const std::string &k, int64_t width) {
        std::string at = plus(times(minus(m, lowM), b.k), minus(k, lowK));
        View view = text.slice(left, "f32", at, {{height, b.k}, {width, 1}});
        emitter({problem.dimM, height, rows}, {problem.dimK, width, depth}, m, k)
            .store(TileStore{problem.operand(0), {view, {0, 1}}});
      });
    });
  }

  /// right[k][nr], of the strip at `column` of the block. Columns past the last keep what they hold:
  /// results there are dropped.
  void packRight(const std::string &column) {
    std::string n = plus(lowN, column);
    int64_t rest = problem.N % b.nr;
    if (problem.N < b.nr || rest == 0)
      return packStrip(n, rest == 0 ? b.nr : rest);
    std::string isWhole = text.let("g", "arith.cmpi slt, " + n + ", " + text.index(problem.N - rest) + " : index");
    std::string isLast = text.let("g", "arith.cmpi eq, " + n + ", " + text.index(problem.N - rest) + " : index");
    text.when(isWhole, [&] { packStrip(n, b.nr); });
    text.when(isLast, [&] { packStrip(n, rest); });
  }

  void packStrip(const std::string &strip, int64_t width) {
    bool alongK = liesTransposed(problem, 1);
    int64_t depth = std::min(b.k, alongK ? square : 4), columns = alongK ? square : b.nr;
    forTiles(blockK, b.k, problem.K, depth, [&](const std::string &k, int64_t height) {
      forStrips(text, width, columns, [&](const std::string &step, int64_t size) {
        std::string at = plus(times(minus(k, lowK), b.nr), step), n = plus(strip, step);
        View view = text.slice(right, "f32", at, {{height, b.nr}, {size, 1}});
        emitter({problem.dimN, size, columns}, {problem.dimK, height, depth}, n, k)
            .store(TileStore{problem.operand(1), {view, {1, 0}}});
      });
    });
  }

  /// sums[m][n] += left * right for mr rows of a strip.
  void multiply(const std::string &m, const std::string &column, const std::string &depth) {
    Names places, arguments, results, types(b.mr, row);
    std::string sum = text.fresh("sum"), arguments0, leftRow = times(m, b.k);
    std::string place = plus(times(m, b.n), column);
    for (int64_t r = 0; r < b.mr; ++r) {
      places.push_back(r ? plus(place, text.index(r * b.n)) : place);
      std::string start = b.blocksK > 1 ? loadRow(sums, places.back()) : zeros();
      arguments.push_back(text.fresh("acc"));
      arguments0 += (r ? ", " : "") + arguments.back() + " = " + start;
    }
    std::string k = text.fresh("k"), one = text.index(1);
    text.block(sum + ":" + llvm::Twine(b.mr) + " = scf.for " + k + " = " + text.index(0) + " to " + depth + " step " +
                   one + " iter_args(" + arguments0 + ") -> (" + llvm::join(types, ", ") + ") {",
               [&] {
                 std::string rightRow = loadRow(right, times(k, b.nr)), at = plus(leftRow, k);
                 for (int64_t r = 0; r < b.mr; ++r) {
                   std::string place = r ? plus(at, text.index(r * b.k)) : at;
                   std::string value = text.let("a", "memref.load " + left.name + "[" + place + "] : " + left.type);
                   std::string wide = text.let("a", "vector.broadcast " + value + " : f32 to " + row);
                   results.push_back(
                       text.let("f", "vector.fma " + wide + ", " + rightRow + ", " + arguments[r] + " : " + row));
                 }
                 text.line("scf.yield " + llvm::join(results, ", ") + " : " + llvm::join(types, ", "));
               });
    for (int64_t r = 0; r < b.mr; ++r)
      storeRow(sum + "#" + std::to_string(r), sums, places[r]);
  }

  void writeEpilogue() {
    bool alongM = storesAlongM(problem);
    int64_t rows = alongM ? square : 1, columns = alongM ? square : b.nr;
    auto outputs = llvm::to_vector(llvm::seq<unsigned>(0, problem.graph.graph.outputs.size()));
    forTiles(blockM, b.m, problem.M, rows, [&](const std::string &m, int64_t height) {
      forTiles(blockN, b.n, problem.N, columns, [&](const std::string &n, int64_t width) {
        std::string at = plus(times(minus(m, lowM), b.n), minus(n, lowN));
        View view = text.slice(sums, "f32", at, {{height, b.n}, {width, 1}});
        TileEmitter tile = emitter({problem.dimM, height, rows}, {problem.dimN, width, columns}, m, n);
        tile.bind(problem.products.front(), TileView{view, {0, 1}});
        tile.storeOutputs(outputs);
      });
    });
  }

  //===- Tiles and text ----------------------------------------------------------------------===//

  void forTiles(const std::string &block, int64_t blockSize, int64_t extent, int64_t width,
                llvm::function_ref<void(const std::string &, int64_t)> body) {
    forStripsOfBlock(text, block, (blockSize + width - 1) / width, extent, width, body);
  }

  TileEmitter emitter(TileDim first, TileDim second, const std::string &baseFirst, const std::string &baseSecond) {
    Names point = base;
    point[first.dim] = baseFirst, point[second.dim] = baseSecond;
    return TileEmitter(kernel, point, {first, second});
  }

  std::string binary(const char *op, const std::string &a, const std::string &c) {
    return text.let("i", std::string(op) + " " + a + ", " + c + " overflow<nsw> : index");
  }
  std::string plus(const std::string &a, const std::string &c) { return binary("arith.addi", a, c); }
  std::string minus(const std::string &a, const std::string &c) { return binary("arith.subi", a, c); }
  std::string times(const std::string &a, int64_t c) { return binary("arith.muli", a, text.index(c)); }
  /// How much of [low, low + size) lies below `extent`.
  std::string clipped(const std::string &low, int64_t size, int64_t extent) {
    if (extent % size == 0)
      return text.index(size);
    return text.let("i", "arith.minui " + minus(text.index(extent), low) + ", " + text.index(size) + " : index");
  }
  std::string zeros() { return text.let("z", "vector.broadcast " + text.constant(0, DType::F32) + " : f32 to " + row); }
  std::string loadRow(const View &from, const std::string &at) {
    return text.let("x", "vector.load " + from.name + "[" + at + "] : " + from.type + ", " + row);
  }
  void storeRow(const std::string &value, const View &to, const std::string &at) {
    text.line("vector.store " + value + ", " + to.name + "[" + at + "] : " + to.type + ", " + row);
  }

  Kernel &kernel;
  KernelText &text;
  const MatmulProblem &problem;
  const Blocking &b;
  View left, right, sums;
  std::string row;                    ///< Type of nr accumulators.
  Names base;                         ///< Batch indices of the item.
  std::string blockM, blockN, blockK; ///< The block's indices.
  std::string lowM, lowN, lowK;       ///< Its first elements.
};

/// Modelled microseconds of one config.
double estimate(const Region &region, const MatmulProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  Blocking b(problem, config);
  // In multiply-adds of one thread at 80% of its rate; packing an element costs as many as 10, through a buffer 60. Two
  // units of 16 lanes that answer after 4 cycles want 128 accumulators.
  constexpr double packing = 10, stagedPacking = 60, accumulatorsWanted = 128;
  double rate = 0.8 * target.f32FlopsPerUs / target.multiprocessors / 2;
  double slowdown = std::max(1.0, accumulatorsWanted / static_cast<double>(b.mr * b.nr));
  double products = static_cast<double>(b.m * b.n) * slowdown,
         packed = (isStaged(problem, leftTile(problem, b.k)) ? stagedPacking : packing) * static_cast<double>(b.m) +
                  packing * static_cast<double>(b.n);
  double itemUs = static_cast<double>(problem.K) * (products + packed) / rate;
  double rounds = std::ceil(static_cast<double>(b.items(problem)) / target.multiprocessors);
  double memoryUs = (region.bytesRead + region.bytesWritten) / target.memoryBytesPerUs;
  return target.launchUs + std::max(rounds * itemUs, memoryUs);
}

class ProductTemplate final : public KernelTemplate {
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
    // Accumulators: 16 or 24 registers of 512 bits, 12 of 256 bits.
    for (auto [mr, nr] : {std::pair<int64_t, int64_t>{8, 32}, {12, 32}, {6, 16}}) {
      add(mr, nr, 192, 256);
      add(mr, nr, 96, 256);
      add(mr, nr, 96, 64);
    }
    return configs;
  }

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

const KernelTemplate &product() {
  static const ProductTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cpu
