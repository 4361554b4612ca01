// cpu.attention: attention of many queries, block by block of keys, without a tensor of queries x keys.
//
// An item is a block of m queries of a head. It walks the keys that these see in blocks of n:
//
//   scores[m][n]   = queries[m][D] keys[n][D]^T, scaled and masked; each row's largest score so far
//   factors[m]     = e^(the largest before - the largest now)
//   scores[m][n]   = e^(score - the largest), in place; totals = totals * factors + their sums
//   results[m][Dv] = results * factors + scores values[n][Dv]
//
// and divides by the totals at the end (online softmax: Milakov and Gimelshein, arXiv 1805.02867).
#include "codegen/cpu/AttentionForm.h"
#include "codegen/cpu/Costs.h"
#include "codegen/cpu/Panels.h"
#include "codegen/cpu/Templates.h"
#include "codegen/cpu/TileEmitter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kfuse::codegen::cpu {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Sizes in elements: accumulators of the inner kernel, queries and keys of a block.
struct Blocking {
  int64_t mr, nr, m, n;
  int64_t blocksM;

  Blocking(const cuda::FlashProblem &problem, const TileConfig &config)
      : mr(std::min(config["mr"], problem.rows)), nr(config["nr"]), m(blockOf(problem.rows, mr, config["m"])),
        n(std::min<int64_t>(config["n"], llvm::alignTo(problem.keys, 2 * nr))), blocksM(blocksOf(problem.rows, m, 1)) {}

  static int64_t blockOf(int64_t extent, int64_t registers, int64_t wanted) {
    return std::min<int64_t>(llvm::alignTo(extent, registers), llvm::alignTo(wanted, std::lcm(registers, square)));
  }
  int64_t items(const cuda::FlashProblem &problem) const { return problem.batches() * blocksM; }
};

/// Writes the kernel of one attention.
class AttentionWriter {
public:
  AttentionWriter(Kernel &kernel, const AttentionForm &form, const Blocking &blocking)
      : kernel(kernel), text(kernel.text), form(form), b(blocking),
        pitch(static_cast<int64_t>(llvm::alignTo(form.valueSize, b.nr))), width(2 * b.nr),
        queries(kernel, {form.query, form.dimRow, form.dimD}, b.m, form.keySize),
        keys(kernel, {form.key, form.dimKey, form.dimD}, form.keySize, b.nr),
        values(kernel, {form.value, form.dimValue, form.dimKey}, b.n, b.nr), scores(memory(b.m * b.n)),
        results(memory(b.m * pitch)), largest(memory(b.m)), next(memory(b.m)), offsets(memory(b.m)),
        factors(memory(b.m)), totals(memory(b.m)), lanes(memory(width)) {}

  void write() {
    llvm::SmallVector<int64_t> grid(kernel.graph.extents());
    grid[form.dimRow] = b.blocksM;
    for (unsigned dim : {form.dimKey, form.dimD, form.dimValue})
      grid[dim] = 1;
    auto size = [&](unsigned dim) { return dim == form.dimRow ? b.m : 1; };
    kernel.forItems(grid, size, [&](const std::string &, const Names &place) {
      base = place;
      writeItem(base[form.dimRow]);
    });
  }

private:
  void writeItem(const std::string &block) {
    const std::string zero = text.index(0);
    lowRow = times(text, block, b.m);
    rows = clipped(text, lowRow, b.m, form.rows);
    queries.pack(base, block, zero);
    clearResults(), fill(totals, 0), fill(offsets, 0), fill(largest, -infinity);
    const std::string first = lowRow, last = minus(text, plus(text, lowRow, rows), text.index(1));
    const KeyRange seen = keysOfBlock(first, last);
    const std::string begin = text.let("i", "arith.divui " + seen.begin + ", " + text.index(b.n) + " : index"),
                      end = text.let("i", "arith.divui " + plus(text, seen.end, text.index(b.n - 1)) + ", " +
                                              text.index(b.n) + " : index");
    text.loop(begin, end, 1, [&](const std::string &keyBlock) {
      lowKey = times(text, keyBlock, b.n);
      multiplyScores();
      writeScores(keyBlock, first, last);
      writeFactors();
      writePowers(keyBlock);
      multiplyValues(keyBlock);
    });
    divide();
    store(block);
  }

  //===- Keys that rows see ------------------------------------------------------------------===//

  std::string bounded(const char *op, const std::string &a, const std::string &c) {
    return text.let("i", std::string(op) + " " + a + ", " + c + " : index");
  }
  std::string offsetBy(const std::string &row, int64_t offset) { return plus(text, row, text.index(offset)); }
  /// The first key of the row's chunk.
  std::string chunkOf(const std::string &row) {
    const KeyChunks &chunks = *form.bounds.chunks;
    mlir::AffineExpr dim = mlir::getAffineDimExpr(0, context());
    return text.apply((dim + chunks.rowOffset).floorDiv(chunks.size) * chunks.size - chunks.keyOffset, {row});
  }
  std::string firstKey(const std::string &row) {
    std::string key = text.index(0);
    if (form.bounds.lowest)
      key = bounded("arith.maxsi", key, offsetBy(row, *form.bounds.lowest));
    return form.bounds.chunks ? bounded("arith.maxsi", key, chunkOf(row)) : key;
  }
  /// Behind the last one.
  std::string endKey(const std::string &row) {
    const std::string zero = text.index(0);
    std::string key = text.index(form.keys);
    if (form.bounds.highest)
      key = bounded("arith.minsi", key, offsetBy(row, *form.bounds.highest + 1));
    if (form.bounds.chunks)
      key = bounded("arith.minsi", key, offsetBy(chunkOf(row), form.bounds.chunks->size));
    return form.bounds.areAll() ? key : bounded("arith.maxsi", key, zero);
  }

  /// The first key that a row sees, and behind the last one, by all bounds that are known or read.
  std::string firstKeyOf(const std::string &row) {
    std::string key = firstKey(row);
    for (const ReadBound &bound : form.bounds.firsts)
      key = bounded("arith.maxsi", key, valueOf(bound, 0, row));
    return key;
  }
  std::string endKeyOf(const std::string &row) {
    std::string key = endKey(row);
    for (const ReadBound &bound : form.bounds.lasts)
      key = bounded("arith.minsi", key, valueOf(bound, 1, row));
    return form.bounds.lasts.empty() ? key : bounded("arith.maxsi", key, text.index(0));
  }

  struct KeyRange {
    std::string begin, end;
  };
  /// The keys that some row of the block sees. Bounds grow with the row's number, but for those that are read for each
  /// row, as where packed sequences begin and end: there all rows are asked.
  KeyRange keysOfBlock(const std::string &first, const std::string &last) {
    if (!form.bounds.areOfRow())
      return {firstKeyOf(first), endKeyOf(last)};
    const View firstSeen = text.stack({1}, "index"), endSeen = text.stack({1}, "index");
    const std::string zero = text.index(0);
    put(text.index(form.keys), firstSeen, zero), put(zero, endSeen, zero);
    forRows([&](const std::string &at) {
      const std::string row = plus(text, lowRow, at);
      put(bounded("arith.minsi", load(firstSeen, zero), firstKeyOf(row)), firstSeen, zero);
      put(bounded("arith.maxsi", load(endSeen, zero), endKeyOf(row)), endSeen, zero);
    });
    return {load(firstSeen, zero), load(endSeen, zero)};
  }
  /// What is read for a row, and `more`.
  std::string valueOf(const ReadBound &bound, int64_t more, const std::string &row) {
    Names point = base;
    point[form.dimRow] = row, point[form.dimKey] = text.index(0);
    TileEmitter ofRow(kernel, point, {});
    std::string sum = text.index(bound.offset + more);
    for (const ReadBound::Term &term : bound.terms)
      sum = term.isSubtracted ? minus(text, sum, ofRow.index(term.value)) : plus(text, sum, ofRow.index(term.value));
    return bound.movesWithRow ? plus(text, sum, row) : sum;
  }

  //===- A block of keys ---------------------------------------------------------------------===//

  void multiplyScores() {
    text.loop(text.index(0), clipped(text, lowKey, b.n, form.keys), b.nr, [&](const std::string &column) {
      keys.pack(base, text.index(0), plus(text, lowKey, column));
      forRowsTogether([&](const std::string &row) {
        multiply(text, b.mr, b.nr, {queries.memory, times(text, row, form.keySize), form.keySize}, keys.memory,
                 {scores, plus(text, times(text, row, b.n), column), b.n}, text.index(form.keySize),
                 [&](int64_t, const std::string &) { return spread(text, b.nr, text.constant(0, DType::F32)); });
      });
    });
  }

  /// From products to scores, which most often they are: a block all of whose keys all rows see needs no mask.
  void writeScores(const std::string &block, const std::string &first, const std::string &last) {
    if (form.bounds.areAll())
      return writeScores(block, form.score);
    const std::string end = plus(text, lowKey, text.index(b.n));
    const std::string begins = text.let("g", "arith.cmpi sge, " + lowKey + ", " + firstKey(last) + " : index"),
                      ends = text.let("g", "arith.cmpi sle, " + end + ", " + endKey(first) + " : index"),
                      isInside = text.let("g", "arith.andi " + begins + ", " + ends + " : i1"),
                      yes = text.integer(1, DType::Bool),
                      isEdge = text.let("g", "arith.xori " + isInside + ", " + yes + " : i1");
    text.when(isInside, [&] { writeScores(block, form.seenScore); });
    text.when(isEdge, [&] { writeScores(block, form.score); });
  }

  void writeScores(const std::string &block, ir::Scalar score) {
    const std::string end = clipped(text, lowKey, b.n, form.keys);
    forRows([&](const std::string &row) {
      if (score != form.scoreProduct)
        forStripsOfRow(block, row, [&](TileEmitter &strip, const TileView &held, int64_t) {
          strip.bind(form.scoreProduct, held);
          strip.store(TileStore{score, held});
        });
      const std::string now = larger(load(largest, row), largestOf(times(text, row, b.n), end), "f32");
      const std::string isNone = text.let("g", "arith.cmpf oeq, " + now + ", " + number(-infinity) + " : f32");
      put(now, next, row);
      // Beside -inf, no score has a weight.
      put(text.let("v", "arith.select " + isNone + ", " + number(0) + ", " + now + " : f32"), offsets, row);
    });
  }

  /// The largest of a row's scores that are numbers: others make its weights no numbers, whatever is subtracted. Strips
  /// reach behind the last key, to where there are none.
  std::string largestOf(const std::string &begin, const std::string &end) {
    const std::string none = number(-infinity);
    if (form.keys % width != 0)
      text.loop(end, text.apply(mlir::getAffineDimExpr(0, context()).ceilDiv(width) * width, {end}), 1,
                [&](const std::string &key) { put(none, scores, plus(text, begin, key)); });
    const std::string found = text.fresh("sum"), so = text.fresh("acc"), key = text.fresh("k"), type = rowType(width);
    text.block(found + " = scf.for " + key + " = " + text.index(0) + " to " + end + " step " + text.index(width) +
                   " iter_args(" + so + " = " + spread(text, width, none) + ") -> (" + type + ") {",
               [&] {
                 const std::string next = larger(loadRow(text, width, scores, plus(text, begin, key)), so, type);
                 text.line("scf.yield " + next + " : " + type);
               });
    return text.let("v", "vector.reduction <maxnumf>, " + found + " : " + type + " into f32");
  }
  /// One instruction, which a maximum that knows what is no number is not: `b` where either is none.
  std::string larger(const std::string &a, const std::string &b, const std::string &type) {
    const std::string isLarger = text.let("g", "arith.cmpf ogt, " + a + ", " + b + " : " + type);
    return text.let("v", "arith.select " + isLarger + ", " + a + ", " + b + " : " +
                             (type == "f32" ? "" : "vector<" + std::to_string(width) + "xi1>, ") + type);
  }

  void writeFactors() {
    auto ofRows = [&](const View &of) {
      return TileView{text.slice(of, "f32", text.index(0), ViewDim{b.m, 1}), {0}, DType::F32};
    };
    Names point = base;
    point[form.dimRow] = lowRow, point[form.dimKey] = lowKey;
    TileEmitter tile(kernel, point, TileDim{form.dimRow, b.m, b.m});
    tile.bind(form.score, ofRows(largest));
    tile.bind(form.largest, ofRows(offsets));
    tile.store(TileStore{form.power, ofRows(factors)});
    text.line("memref.copy " + next.name + ", " + largest.name + " : " + next.type + " to " + largest.type);
  }

  void writePowers(const std::string &block) {
    forRows([&](const std::string &row) {
      fill(lanes, 0);
      const std::string offset = load(offsets, row);
      forStripsOfRow(block, row, [&](TileEmitter &strip, const TileView &held, int64_t size) {
        strip.bind(form.score, held);
        strip.bind(form.largest, offset);
        strip.store({{form.power, held}, {form.power, lanesOf(size), "sum"}});
      });
      const std::string kept = binary("arith.mulf", load(totals, row), load(factors, row));
      put(binary("arith.addf", kept, sumOfLanes()), totals, row);
    });
  }

  void multiplyValues(const std::string &block) {
    const std::string depth = clipped(text, lowKey, b.n, form.keys);
    text.loop(text.index(0), text.index(pitch), b.nr, [&](const std::string &column) {
      values.pack(base, block, column);
      forRowsTogether([&](const std::string &row) {
        multiply(text, b.mr, b.nr, {scores, times(text, row, b.n), b.n}, values.memory,
                 {results, plus(text, times(text, row, pitch), column), pitch}, depth,
                 [&](int64_t r, const std::string &place) {
                   const std::string factor = load(factors, plus(text, row, text.index(r)));
                   return text.let("z", "arith.mulf " + spread(text, b.nr, factor) + ", " +
                                            loadRow(text, b.nr, results, place) + " : " + rowType(b.nr));
                 });
      });
    });
  }

  //===- Results -----------------------------------------------------------------------------===//

  void divide() {
    if (form.sinkPower)
      addSinks();
    forRows([&](const std::string &row) {
      const std::string total = load(totals, row);
      std::string inverse = binary("arith.divf", number(1), total), isNumber;
      if (form.emptyIsZero)
        isNumber = text.let("g", "arith.cmpf ogt, " + total + ", " + number(0) + " : f32");
      text.loop(text.index(0), text.index(pitch), b.nr, [&](const std::string &column) {
        const std::string place = plus(text, times(text, row, pitch), column),
                          sums = loadRow(text, b.nr, results, place);
        std::string quotients =
            text.let("z", "arith.mulf " + sums + ", " + spread(text, b.nr, inverse) + " : " + rowType(b.nr));
        if (form.emptyIsZero)
          quotients = text.let("z", "arith.select " + isNumber + ", " + quotients + ", " +
                                        spread(text, b.nr, number(0)) + " : " + rowType(b.nr));
        storeRow(text, b.nr, quotients, results, place);
      });
    });
  }

  /// The weights of scores that no key has.
  void addSinks() {
    forRows([&](const std::string &row) {
      Names point = base;
      point[form.dimRow] = plus(text, lowRow, row), point[form.dimKey] = text.index(0);
      TileEmitter ofRow(kernel, point, {});
      ofRow.bind(form.largest, load(largest, row));
      put(binary("arith.addf", load(totals, row), ofRow.scalar(form.sinkPower)), totals, row);
    });
  }

  void store(const std::string &block) {
    auto outputs = llvm::to_vector(llvm::seq<unsigned>(0, kernel.graph.graph.outputs.size()));
    forStripsOfBlock(text, block, b.m, form.rows, 1, [&](const std::string &m, int64_t) {
      const std::string row = times(text, minus(text, m, lowRow), pitch);
      forStrips(text, form.valueSize, b.nr, [&](const std::string &column, int64_t size) {
        Names point = base;
        point[form.dimRow] = m, point[form.dimValue] = column;
        TileEmitter tile(kernel, point, TileDim{form.dimValue, size, b.nr});
        View view = text.slice(results, "f32", plus(text, row, column), ViewDim{size, 1});
        tile.bind(form.valueProduct, TileView{view, {0}});
        tile.storeOutputs(outputs);
      });
    });
  }

  //===- Loops and memory --------------------------------------------------------------------===//

  void forRows(llvm::function_ref<void(const std::string &)> body) { text.loop(text.index(0), rows, 1, body); }
  void forRowsTogether(llvm::function_ref<void(const std::string &)> body) {
    text.loop(text.index(0), rows, b.mr, body);
  }

  /// Strips of the block's keys in a row of it, with the memory that holds their scores.
  void forStripsOfRow(const std::string &block, const std::string &row,
                      llvm::function_ref<void(TileEmitter &, const TileView &, int64_t)> body) {
    const std::string low = lowKey, begin = times(text, row, b.n);
    forStripsOfBlock(text, block, ceilDiv(b.n, width), form.keys, width, [&](const std::string &key, int64_t size) {
      Names point = base;
      point[form.dimRow] = plus(text, lowRow, row), point[form.dimKey] = key;
      TileEmitter strip(kernel, point, TileDim{form.dimKey, size, width});
      const std::string at = plus(text, begin, minus(text, key, low));
      body(strip, {text.slice(scores, "f32", at, ViewDim{size, 1}), {0}, DType::F32}, size);
    });
  }
  static constexpr int64_t ceilDiv(int64_t a, int64_t c) { return (a + c - 1) / c; }
  mlir::MLIRContext *context() const { return kernel.graph.graph.outputs[0].map.getContext(); }

  View memory(int64_t elements) { return text.stack({elements}, "f32"); }
  std::string number(double value) { return text.constant(value, DType::F32); }
  /// By rows: LLVM 19 gives up on a vector of 49152 elements, and takes seconds for half as many.
  void clearResults() {
    const std::string zeros = spread(text, b.nr, number(0));
    text.loop(text.index(0), text.index(b.m * pitch), b.nr,
              [&](const std::string &at) { storeRow(text, b.nr, zeros, results, at); });
  }
  void fill(const View &to, double value) {
    text.line("linalg.fill ins(" + number(value) + " : f32) outs(" + to.name + " : " + to.type + ")");
  }
  std::string load(const View &from, const std::string &at) {
    return text.let("v", "memref.load " + from.name + "[" + at + "] : " + from.type);
  }
  void put(const std::string &value, const View &to, const std::string &at) {
    text.line("memref.store " + value + ", " + to.name + "[" + at + "] : " + to.type);
  }
  /// A vector has one lane for each element of a strip.
  TileView lanesOf(int64_t size) {
    return {text.slice(lanes, "f32", text.index(0), ViewDim{size, 1}), {0}, DType::F32};
  }
  std::string sumOfLanes() {
    const std::string vector = loadRow(text, width, lanes, text.index(0));
    return text.let("v", "vector.reduction <add>, " + vector + " : " + rowType(width) + " into f32");
  }
  std::string binary(const char *op, const std::string &a, const std::string &c) {
    return text.let("v", std::string(op) + " " + a + ", " + c + " : f32");
  }

  Kernel &kernel;
  KernelText &text;
  const AttentionForm &form;
  const Blocking &b;
  int64_t pitch; ///< Elements from one row of results to the next.
  int64_t width; ///< Lanes of a strip of scores.
  LeftPanel queries;
  RightPanel keys, values;
  View scores, results, largest, next, offsets, factors, totals, lanes;
  Names base;                       ///< Batch indices of the item.
  std::string lowRow, rows, lowKey; ///< The item's first row, how many it has; the first key of a block.
};

struct Coefficients : PanelCosts {
  double perScore = 25; ///< Multiply-adds that a score costs.
};
constexpr Coefficients byHand;

/// Modelled microseconds of one config.
double estimate(const Region &region, const cuda::FlashProblem &problem, const TileConfig &config,
                const ir::Target &target) {
  const Blocking b(problem, config);
  const double rate = byHand.rateShare * target.f32FlopsPerUs / target.multiprocessors / 2;
  const auto keys = static_cast<double>(problem.keys), rows = static_cast<double>(problem.rows),
             sizes = static_cast<double>(problem.keySize + problem.valueSize);
  // Blocks at the edge of a mask are computed whole.
  const double share = problem.bounds.areAll() ? 1
                                               : std::min(1.0, problem.bounds.share(problem.rows, problem.keys) +
                                                                   static_cast<double>(b.m + b.n) / (2 * keys));
  const double itemRows = rows / static_cast<double>(b.blocksM);
  const double itemUs = share * keys * (itemRows * (sizes + byHand.perScore) + byHand.packing * sizes) / rate;
  const double rounds = std::ceil(static_cast<double>(b.items(problem)) / target.multiprocessors);
  const double memoryUs = (region.bytesRead + region.bytesWritten) / target.memoryBytesPerUs;
  return target.launchUs + std::max(rounds * itemUs, memoryUs);
}

class AttentionTemplate final : public KernelTemplate {
public:
  std::string_view name() const override { return "cpu.attention"; }

  bool isForFormOf(const Region &region) const override { return region.attention() != nullptr; }
  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    constexpr int64_t leastRows = 16; // Keys and values are packed once for all rows of a block.
    Result<cuda::FlashProblem> problem = cuda::flashProblem(region);
    if (!problem)
      return ir::FusionDecision::no(problem.error().message);
    if (problem->rows < leastRows)
      return ir::FusionDecision::no("few queries, for which its keys would be packed");
    if (problem->computesQuery) // Each block of keys would read them again.
      return ir::FusionDecision::no("computes its queries, which a kernel in front of it does once");
    if (region.graph.outputs.size() > 1)
      return ir::FusionDecision::no("writes more than its result");
    return canWrite(AttentionForm(*problem).graph.graph);
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    const cuda::FlashProblem problem = cuda::flashProblem(region).value();
    std::vector<EstimatedConfig> configs;
    constexpr std::pair<int64_t, int64_t> blocks[] = {{96, 128}, {96, 256}, {192, 128}, {192, 256}, {384, 128}};
    for (auto [mr, nr] : accumulatorShapes)
      for (auto [m, n] : blocks)
        if (m <= 96 || problem.rows > m / 2) {
          const TileConfig config{{"mr", mr}, {"nr", nr}, {"m", m}, {"n", n}};
          configs.emplace_back(estimate(region, problem, config, target), config);
        }
    return configs;
  }

  std::int64_t estimateGroup(const TileConfig &config) const override { return accumulatorsOf(config); }

  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    const cuda::FlashProblem problem = cuda::flashProblem(region).value();
    const AttentionForm form(problem);
    const Blocking blocking(problem, config);
    Kernel kernel(region.name, form.graph, target);
    AttentionWriter(kernel, form, blocking).write();
    KernelPlan plan = planOf(region, target);
    plan.launches.push_back(kernel.launch(blocking.items(problem), 1));
    plan.source = moduleText(region, name(), config, &kernel);
    return plan;
  }
};

} // namespace

const KernelTemplate &attention() {
  static const AttentionTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cpu
