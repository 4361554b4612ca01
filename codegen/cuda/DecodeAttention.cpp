// cuda.decode_attention: attention of few query rows, which share keys, with a cache. Bound by reading the cache.
#include "codegen/cuda/ChunkPrinter.h"
#include "codegen/cuda/DecodeProblem.h"
#include "codegen/cuda/Kernel.h"
#include "codegen/cuda/KernelLimits.h"
#include "codegen/cuda/LastBlock.h"
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/Tma.h"

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <array>
#include <cmath>
#include <set>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t leastKeysOfWarp = 16; ///< Of a part of the keys.
constexpr size_t mostCandidates = 48;

/// Whether the blocks of a pair are a cluster, which puts their parts together in shared memory.
bool isCluster(const TileConfig &config) { return config.valueOr("cluster", 1) > 1; }

/// One region under one config, on its way to text.
class DecodeKernel {
public:
  DecodeKernel(const Region &region, DecodeProblem problem, const TileConfig &config, const ir::Target &target)
      : region(region), p(std::move(problem)), config(config), target(target), buffers{region.graph, {}, {}},
        dimS(p.dimM + 1) {
    p.product.graph.inputs.pop_back(); // The probabilities never are in memory.
    for (unsigned dim = 0; dim < p.dimM; ++dim)
      batchNames.push_back("b" + std::to_string(dim));
    findFixed(p.scores.graph.outputs[0].value);
  }

  KernelPlan plan() {
    KernelPlan plan = planOf(region, buffers, target);
    Launch launch = launchOf(plan, entryName(region), target);
    launch.grid[0] = static_cast<uint32_t>(p.pairs());
    launch.grid[1] = static_cast<uint32_t>(config["splits"]);
    launch.block[0] = static_cast<uint32_t>(config["warps"] * 32);
    launch.sharedBytes = static_cast<uint32_t>(sharedBytes(p, config));
    if (isCluster(config))
      launch.cluster[1] = launch.grid[1];
    else if (config["splits"] > 1)
      addParts(plan, launch);
    plan.launches = {launch};
    giveSource(plan, source());
    return plan;
  }

  static int64_t pitchOf(int64_t size) { return static_cast<int64_t>(llvm::PowerOf2Ceil(size)); }
  static int64_t partBytes(const DecodeProblem &p) { return llvm::alignTo(p.rows() * (p.valueSize + 2) * 4, 16); }
  static int64_t sharedBytes(const DecodeProblem &p, const TileConfig &config) {
    int64_t tiles = config["stages"] * config["keys"] * 2 * (pitchOf(p.keySize) + pitchOf(p.valueSize));
    return config["warps"] * std::max(tiles, partBytes(p));
  }
  /// Beside it: what is computed for a pair, and other blocks' maxima and weights.
  static int64_t staticBytes(const DecodeProblem &p, const TileConfig &config) {
    int64_t keyRows = (p.computesQuery ? p.rows() : 0) + (p.newKeys ? p.newKeys->count() : 0);
    int64_t valueRows = p.newValues ? p.newValues->count() : 0;
    int64_t others = config["splits"] * (isCluster(config) ? partBytes(p) : p.rows() * 8);
    return 2 * (keyRows * (p.keySize + 8) + valueRows * (p.valueSize + 8)) + others + 64;
  }

  /// Whether all that is read before the first tiles arrive may be read before the predecessor ends: the cache, and
  /// what says which of it counts.
  bool readsAhead() const {
    std::vector<unsigned> inputs = inputsRead(p.scores, fixed);
    inputs.push_back(p.scores[p.key].input);
    inputs.push_back(p.product[p.value].input);
    if (const ScalarNode *condition = maskOfKeys())
      llvm::append_range(inputs, inputsRead(p.scores, lastOf(*condition)));
    for (const std::optional<NewRows> *rows : {&p.newKeys, &p.newValues})
      if (*rows)
        llvm::append_range(inputs, inputsRead((*rows)->graph, (*rows)->graph.graph.outputs[0].symbols));
    return llvm::all_of(inputs, [&](unsigned input) { return region.isFixed[input]; });
  }

private:
  /// The workspace: tickets, and behind them parts. Both are zero before and after.
  void addParts(KernelPlan &plan, Launch &launch) const {
    uint64_t tickets = llvm::alignTo(p.pairs() * 4, zeroedGranule);
    plan.zeroedBytes = tickets + llvm::alignTo(p.pairs() * config["splits"] * partBytes(p), zeroedGranule);
    plan.workspaceBytes = plan.zeroedBytes;
    launch.args.push_back({KernelArg::Kind::Workspace, 0});
    launch.args.push_back({KernelArg::Kind::Workspace, tickets});
  }

  bool differsAmongRows(Scalar s) const {
    return p.scores.dependsOn(s, dimS) || p.scores.dependsOn(s, p.dimM) || p.scores.dependsOn(s, dimS + 1) ||
           (p.group > 1 && p.scores.dependsOn(s, p.headDim()));
  }

  /// Nodes of the scores that are the same for all rows and keys of a pair: computed once.
  void findFixed(Scalar s) {
    const ScalarNode &node = p.scores[s];
    if (s == p.scoreProduct || node.kind == ScalarNode::Kind::Constant || !seen.insert(s.id).second)
      return;
    if (!differsAmongRows(s)) {
      fixed.push_back(s);
      return;
    }
    for (llvm::ArrayRef<Scalar> used : {llvm::ArrayRef<Scalar>(node.operands), llvm::ArrayRef<Scalar>(node.symbols)})
      for (Scalar next : used)
        findFixed(next);
  }

  /// The condition of a mask where(key <= last, ..., -inf); null where there is none.
  const ScalarNode *maskOfKeys() const {
    const ScalarNode &root = p.scores[p.scores.graph.outputs[0].value];
    if (root.kind != ScalarNode::Kind::Apply || root.function != "where")
      return nullptr;
    const ScalarNode &condition = p.scores[root.operands[0]], &otherwise = p.scores[root.operands[2]];
    bool hides =
        otherwise.kind == ScalarNode::Kind::Constant && std::isinf(otherwise.constant) && otherwise.constant < 0;
    constexpr std::array<std::string_view, 4> comparisons{"le", "lt", "ge", "gt"};
    if (!hides || condition.kind != ScalarNode::Kind::Apply || !llvm::is_contained(comparisons, condition.function))
      return nullptr;
    const ScalarNode &index = p.scores[condition.operands[isMirrored(condition) ? 1 : 0]];
    bool isKey =
        index.kind == ScalarNode::Kind::Index && index.index == getAffineDimExpr(dimS, index.index.getContext());
    return isKey && !differsAmongRows(lastOf(condition)) ? &condition : nullptr;
  }
  static bool isMirrored(const ScalarNode &condition) {
    return condition.function == "ge" || condition.function == "gt";
  }
  static Scalar lastOf(const ScalarNode &condition) { return condition.operands[isMirrored(condition) ? 0 : 1]; }

  /// Text of how many keys count; "" where all do.
  std::string countText(ValuePrinter &scope) const {
    const ScalarNode *condition = maskOfKeys();
    if (!condition)
      return "";
    std::string least = "Index(maximum(minimum(static_cast<long long>(" + scope.value(lastOf(*condition)) + "), " +
                        std::to_string(p.keys) + "ll), -1ll))";
    return condition->function == "le" || condition->function == "ge" ? least + " + 1" : least;
  }

  std::string source() {
    writeHead(writer, region, config, target, isCluster(config) ? "decode_cluster.cuh" : "decode_attention.cuh");
    writer.line("using Index = " + llvm::Twine(p.scores.fits32Bits() && p.product.fits32Bits() ? "int" : "long long") +
                ";");
    writer.open("struct Config");
    writer.line("using Index = ::Index;");
    writer.line("using Element = " + storedType(p.scores.graph.inputs[p.scores[p.key].input].type) + ";");
    writer.line("static constexpr int rows = " + llvm::Twine(p.rows()) + ", keySize = " + llvm::Twine(p.keySize) +
                ", valueSize = " + llvm::Twine(p.valueSize) + "; // Query rows of a pair, elements of a head.");
    writer.line("static constexpr int keyPitch = " + llvm::Twine(pitchOf(p.keySize)) +
                ", valuePitch = " + llvm::Twine(pitchOf(p.valueSize)) + ";");
    writer.line("static constexpr Index keys = " + llvm::Twine(p.keys) + ";");
    writer.line("static constexpr int warps = " + llvm::Twine(config["warps"]) +
                ", tileKeys = " + llvm::Twine(config["keys"]) + ", stages = " + llvm::Twine(config["stages"]) +
                ", splits = " + llvm::Twine(config["splits"]) + ";");
    writer.line(llvm::Twine("static constexpr bool emptyIsZero = ") + (p.emptyIsZero ? "true;" : "false;"));
    writer.line(llvm::Twine("static constexpr bool computesQuery = ") + (p.computesQuery ? "true" : "false") +
                ", readsAhead = " + (readsAhead() ? "true;" : "false;"));
    writer.line("static constexpr int newKeys = " + llvm::Twine(p.newKeys ? p.newKeys->count() : 0) + ", newValues = " +
                llvm::Twine(p.newValues ? p.newValues->count() : 0) + "; // Written into the cache.");
    writer.close(";");
    writer.line();
    writeBody();
    writer.line();
    bool isSplit = config["splits"] > 1 && !isCluster(config);
    writer.line("using Attention = DecodeAttention<Config, Body>;");
    writer.open("extern \"C\" __global__ void __launch_bounds__(Config::warps * 32) " + entryName(region) + "(" +
                bufferParameters(buffers) + (isSplit ? ", unsigned *tickets, Attention::Part *parts" : "") + ")");
    if (!readsAhead())
      writer.line("waitForPredecessor();");
    writer.line("const Body body{" + bodyNames + "};");
    writer.line("Attention{body}.run(" +
                llvm::Twine(isCluster(config) ? "InCluster<Attention, Config::splits>()"
                            : isSplit         ? "Attention::ThroughMemory{tickets, parts}"
                                              : "Attention::Alone{}") +
                ");");
    writer.close();
    return writer.take();
  }

  std::string inputOf(const LinearGraph &graph, Scalar load) const { return "in" + std::to_string(graph[load].input); }

  void writeBody() {
    writer.open("struct Body");
    for (auto [i, input] : llvm::enumerate(p.product.graph.inputs)) {
      writer.line("const " + storedType(input.type) + " *in" + llvm::Twine(i) + ";");
      bodyNames += "in" + std::to_string(i) + ", ";
    }
    writer.line(storedType(p.product.graph.outputs[0].type) + " *out0;");
    bodyNames += "out" + std::to_string(p.output);
    for (bool isKey : {true, false})
      if (const std::optional<NewRows> &rows = newRows(isKey)) {
        writer.line(llvm::Twine("Config::Element *new") + kind(isKey) + "s;");
        bodyNames += ", out" + std::to_string(rows->output);
      }
    writer.line();
    writeFixed();
    writeQuery();
    for (bool isKey : {true, false}) {
      writeAddress(isKey);
      writeNewRows(isKey);
    }
    writer.line();
    writeScore();
    writeStore();
    writer.close(";");
  }

  void writeFixed() {
    writer.open("struct Fixed");
    for (Scalar s : fixed)
      writer.line(valueType(p.scores[s].type) + " v" + llvm::Twine(s.id) + ";");
    writer.line("Index count; // Keys from the first on that may count.");
    for (bool isKey : {true, false})
      if (newRows(isKey))
        writer.line("Index new" + llvm::Twine(kind(isKey)) + "; // Where it is written; negative where nowhere.");
    writer.close(";");
    for (bool isKey : {true, false})
      if (newRows(isKey))
        writePosition(isKey, *newRows(isKey));
    writer.open("__device__ __forceinline__ Fixed at(Index pair) const");
    ValuePrinter scope = scopeOf(p.scores, "0", "0");
    std::string values;
    for (Scalar s : fixed)
      values += scope.value(s) + ", ";
    std::string count = countText(scope);
    values += count.empty() ? "Index(Config::keys)" : count;
    for (bool isKey : {true, false})
      if (newRows(isKey))
        values += std::string(", ") + (isKey ? "keyPosition" : "valuePosition") + "(pair)";
    writer.line("return {" + values + "};");
    writer.close();
    writer.line();
  }

  const std::optional<NewRows> &newRows(bool isKey) const { return isKey ? p.newKeys : p.newValues; }
  static const char *kind(bool isKey) { return isKey ? "Key" : "Value"; }

  /// Names for the dimensions of new rows.
  ValuePrinter scopeOf(bool isKey, const NewRows &rows, const std::string &row, const std::string &element) {
    ValuePrinter pair = scopeOf(isKey ? p.scores : p.product, "0", "0");
    llvm::SmallVector<std::string> names;
    for (unsigned dim = 0; dim + 1 < rows.index.size(); ++dim)
      names.push_back(dim == rows.axis ? row : "(" + pair.offset(rows.index[dim], {}) + ")");
    names.push_back(element);
    return {rows.graph, writer, names};
  }

  void writePosition(bool isKey, const NewRows &rows) {
    writer.open(llvm::Twine("__device__ __forceinline__ Index ") + (isKey ? "key" : "value") +
                "Position(Index pair) const");
    ValuePrinter scope = scopeOf(isKey, rows, "0", "0");
    const ir::ScalarOutput &state = rows.graph.graph.outputs[0];
    std::string position = scope.value(state.symbols[0]);
    std::string fits = scope.condition(rows.graph.storeGuards[0], state.symbols);
    writer.line("return " + (fits.empty() ? "" : fits + " ? ") + "Index(" + position + ")" +
                (fits.empty() ? "" : " : -Config::new" + std::string(kind(isKey)) + "s") + ";");
    writer.close();
  }

  /// How eight values of a head come about, from `d` on: a struct of what they are computed from; a function that loads
  /// what of it no kernel of the run writes; one that loads the rest and computes them, from `root`.
  void writeChunk(const std::string &what, const LinearGraph &graph, unsigned dim, Scalar root,
                  llvm::function_ref<ValuePrinter()> makeScope, const ir::ScalarOutput *state = nullptr) {
    ChunkPrinter chunk(graph, dim, 8);
    std::vector<Scalar> all = chunk.loadsOf(root), fixedOnes, others;
    for (Scalar load : all) {
      bool isFixed = llvm::all_of(inputsRead(graph, load), [&](unsigned input) { return bool(region.isFixed[input]); });
      (isFixed ? fixedOnes : others).push_back(load);
    }

    writer.open("struct " + what + "Operands");
    chunk.declare(writer, all);
    if (state)
      writer.line("Config::Element *place; // In the cache.");
    writer.close(";");

    const std::string parameters = what + "Operands &x, Index pair, int row, int d) const";
    writer.open("__device__ __forceinline__ void loadFixedOf" + what + "(" + parameters);
    ValuePrinter early = makeScope();
    if (state) {
      std::string offset = early.offset(state->map.getResult(0), state->symbols);
      writer.line("x.place = new" + what + "s + (" + offset + ");");
    }
    chunk.load(early, fixedOnes, "x.");
    writer.close();

    writer.open("__device__ __forceinline__ void make" + what + "(Config::Element *to, " + parameters);
    ValuePrinter scope = makeScope();
    chunk.load(scope, others, "x.");
    writer.line("Vector<" + valueType(graph[root].type) + ", 8> y0;");
    chunk.lanes(
        scope, [](Scalar) { return "x."; },
        [&](ValuePrinter &lane) {
          std::string value = lane.value(root);
          writer.line("y0[j] = " + value + ";");
        });
    writer.line("storeVector<8, 8>(to, y0);");
    writer.close();
  }

  void writeNewRows(bool isKey) {
    const std::optional<NewRows> &rows = newRows(isKey);
    if (!rows)
      return writer.line(llvm::Twine("struct ") + kind(isKey) + "Operands {};");
    const ir::ScalarOutput &state = rows->graph.graph.outputs[0];
    writeChunk(
        kind(isKey), rows->graph, rows->graph.extents().size() - 1, state.value,
        [&] { return scopeOf(isKey, *rows, "row", "d"); }, &state);
  }

  void writeQuery() {
    if (p.computesQuery)
      return writeChunk("Query", p.scores, dimS + 1, p.query,
                        [&] { return scopeOf(p.scores, "row", "0").within(dimS + 1, "d"); });
    writer.line("struct QueryOperands {};");
    writer.open("__device__ __forceinline__ unsigned query(Index pair, int row, int d) const");
    ValuePrinter rows = scopeOf(p.scores, "row", "0").within(dimS + 1, "d");
    writer.line("return *reinterpret_cast<const unsigned *>(" + inputOf(p.scores, p.query) + " + (" +
                rows.offset(p.scores.offset(p.query), {}) + "));");
    writer.close();
  }

  void writeAddress(bool isKey) {
    const LinearGraph &graph = isKey ? p.scores : p.product;
    Scalar load = isKey ? p.key : p.value;
    writer.open("__device__ __forceinline__ const Config::Element *" + llvm::Twine(isKey ? "key" : "value") +
                "(Index pair, Index key) const");
    ValuePrinter scope = isKey ? scopeOf(graph, "0", "key") : scopeOf(graph, "0", "0").within(dimS + 1, "key");
    writer.line("return " + inputOf(graph, load) + " + (" + scope.offset(graph.offset(load), {}) + ");");
    writer.close();
  }

  void writeScore() {
    writer.open("__device__ __forceinline__ float score(const Fixed &fixed, float product, Index pair, int row, Index "
                "key) const");
    ValuePrinter scope = scopeOf(p.scores, "row", "key");
    scope.define(p.scoreProduct, "product");
    for (Scalar s : fixed)
      scope.define(s, "fixed.v" + std::to_string(s.id));
    std::string value = scope.value(p.scores.graph.outputs[0].value);
    writer.line("return " + value + ";");
    writer.close();
    writer.line();
  }

  void writeStore() {
    writer.open(
        "__device__ __forceinline__ void store(Index pair, int row, int d, const Vector<float, 4> &sums) const");
    ChunkPrinter chunk(p.product, dimS, 4); // Along the head's elements, which are the product's columns.
    ValuePrinter scope = scopeOf(p.product, "row", "d");
    writer.line("Vector<float, 4> y0;");
    chunk.lanes(
        scope, [](Scalar) { return ""; },
        [&](ValuePrinter &lane) {
          lane.define(p.valueProduct, "sums[j]");
          std::string value = lane.value(p.product.graph.outputs[0].value);
          writer.line("y0[j] = " + value + ";");
        });
    chunk.store(scope, 0);
    writer.close();
  }

  /// Names for the dimensions, given the texts of a pair's row and of the second last dimension.
  ValuePrinter scopeOf(const LinearGraph &graph, const std::string &row, const std::string &column) {
    llvm::SmallVector<int64_t> extents(graph.extents().take_front(p.dimM));
    llvm::SmallVector<std::string> names(batchNames);
    if (p.hasHeads()) {
      extents.back() /= p.group;
      writer.line(splitText("pair", extents, names));
    }
    std::string m = row;
    if (p.group > 1) {
      std::string within = row == "0" ? "" : p.M == 1 ? " + " + row : " + " + row + " / " + std::to_string(p.M);
      names.back() = "(" + names.back() + " * " + std::to_string(p.group) + within + ")";
      m = row == "0" || p.M == 1 ? "0" : "(" + row + " % " + std::to_string(p.M) + ")";
    }
    names.push_back(m);
    names.push_back(column);
    names.push_back("0");
    return {graph, writer, names};
  }

  const Region &region;
  DecodeProblem p;
  const TileConfig &config;
  const ir::Target &target;
  LinearGraph buffers; ///< Inputs and results alone.
  unsigned dimS;
  llvm::SmallVector<std::string> batchNames;
  std::string bodyNames;
  std::set<int> seen;
  std::vector<Scalar> fixed;
  SourceWriter writer;
};

/// Modelled microseconds. Constants fitted on an H200 to 100 configs each of one sequence with 8192 and 65536 keys, 24
/// each of 16 and 64 sequences, and 47 of two Llama blocks.
double estimate(const Region &region, const DecodeProblem &p, const TileConfig &config, const ir::Target &target) {
  constexpr double busShare = 0.92, smShare = 2.3; // Of the memory's rate, and what one SM reaches of its part of that.
  constexpr double unevenShare = 0.26, paddingShare = 0.11;
  constexpr double deepBytes = 160e3, deepShare = 0.075; // More on their way to an SM are in each other's way.
  constexpr double turnUs = 0.018;                       // 16 keys of each of four warps; eight hide it.
  const auto splits = static_cast<double>(config["splits"]), warps = static_cast<double>(config["warps"]),
             keys = static_cast<double>(config["keys"]), allKeys = static_cast<double>(p.keys),
             sms = static_cast<double>(target.multiprocessors);
  const double blocks = static_cast<double>(p.pairs()) * splits;
  const int64_t shared = DecodeKernel::sharedBytes(p, config) + DecodeKernel::staticBytes(p, config) + 1024;
  const auto perSm = static_cast<double>(std::max<int64_t>(
      1, std::min<int64_t>(target.sharedBytesPerBlock / shared, 65536 / (160 * 32 * config["warps"]))));
  double parts = std::ceil(blocks / sms); // On the busiest SM.
  if (isCluster(config)) {
    const auto places = static_cast<double>(clustersAtOnce(config["cluster"], target)),
               pairs = static_cast<double>(p.pairs());
    const double ofWave = std::min(perSm, std::ceil(pairs / places)), waves = std::ceil(pairs / (places * ofWave));
    parts = waves * ofWave;
  }
  const double turns = std::ceil(std::ceil(allKeys / keys / splits) / warps); // Tiles of a warp.

  const double bytes = region.bytesRead + region.bytesWritten, busUs = bytes / (busShare * target.memoryBytesPerUs),
               smUs = bytes / (smShare * target.memoryBytesPerUs * std::min(blocks, sms) / sms);
  const double uneven = parts * sms / std::max(blocks, sms), padding = turns * keys * splits * warps / allKeys;
  const double deep = std::min(parts, perSm) * warps * std::min(static_cast<double>(config["stages"]), turns) * keys *
                      2 * static_cast<double>(p.keySize + p.valueSize) / deepBytes;
  double us = std::sqrt(std::hypot(busUs * busUs, smUs * smUs)); // Where both are alike, 19 % more than either.
  us *= (1 + unevenShare * (uneven - 1)) * (1 + paddingShare * (padding - 1));
  us *= 1 + deepShare * std::max(0.0, deep - 1);
  if (config["warps"] < 8)
    us += turnUs * turns * keys / 16;

  // Sums on their way to another block, of up to 16 blocks at a time.
  double combineUs = splits == 1 ? 0 : isCluster(config) ? 1.7 : 1.3 + 0.14 * splits;
  if (splits > 16)
    combineUs += 0.28 * (splits / 8 - 2);
  return target.launchUs + us + combineUs;
}

/// The same where queries or new rows are computed, too, or tiles loaded ahead of the wait. Timed alone, with nothing
/// ahead, 12 parts in three stages of four warps are faster than 16 in one of eight (6.4 us, 7.0, of a Llama block at
/// 4096 keys); behind the kernel ahead more of the tiles are there at once, and the block takes 125 us with the former,
/// 123.5 with the latter. So this one is not fitted to kernels alone: it has all SMs busy and as much on its way as
/// there is room for.
double estimateInBlock(const Region &region, const DecodeProblem &p, const TileConfig &config,
                       const ir::Target &target) {
  double blocks = static_cast<double>(p.pairs() * config["splits"]);
  int64_t shared = DecodeKernel::sharedBytes(p, config);
  auto perSm = static_cast<double>(
      std::min<int64_t>(target.sharedBytesPerBlock / (shared + 1024), 65536 / (160 * 32 * config["warps"])));
  perSm = std::max(1.0, perSm);
  double slots = perSm * target.multiprocessors, resident = std::min(perSm, blocks / target.multiprocessors);
  double tileBytes = static_cast<double>(config["keys"] * 2 * (p.keySize + p.valueSize));
  double keysOfWarp = static_cast<double>(p.keys) / static_cast<double>(config["splits"] * config["warps"]);
  double stages =
      std::min(static_cast<double>(config["stages"]), std::ceil(keysOfWarp / static_cast<double>(config["keys"])));
  double inFlight = resident * static_cast<double>(config["warps"]) * stages * tileBytes;
  // Blocks of the last wave share the memory among fewer, which costs less than idle processors would.
  double waves = blocks / slots, uneven = std::ceil(waves) / waves;
  double padding =
      std::ceil(keysOfWarp / static_cast<double>(config["keys"])) * static_cast<double>(config["keys"]) / keysOfWarp;
  double combine = config["splits"] > 1 ? 1 + 0.02 * static_cast<double>(config["splits"]) : 0.7;
  return target.launchUs + combine +
         streamUs(region.bytesRead, region.bytesWritten, inFlight, target) * (0.7 + 0.3 * uneven) *
             (0.9 + 0.1 * padding);
}

class DecodeAttentionTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.decode_attention"; }

  ir::FusionDecision match(const Region &region, const ir::Target &) const override {
    Result<DecodeProblem> problem = decodeProblem(region);
    return problem ? ir::FusionDecision::yes() : ir::FusionDecision::no(problem.error().message);
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    Result<DecodeProblem> p = decodeProblem(region);
    std::vector<EstimatedConfig> ranked;
    double best = INFINITY;
    // Clusters start when there is room for all of their blocks: not ahead of the wait, when the kernel before is
    // running. Of a Llama block at 4096 keys that took 8 us of 122.
    const bool isInBlock =
        p->computesQuery || p->newKeys || p->newValues || DecodeKernel(region, *p, {}, target).readsAhead();
    const bool mayBeCluster = target.capability >= 90 && !isInBlock;
    constexpr std::pair<int64_t, int64_t> ways[] = {
        {1, 1}, {2, 1},  {2, 2},  {3, 1},  {4, 1},  {4, 4},  {6, 1}, {8, 1},
        {8, 8}, {12, 1}, {16, 1}, {24, 1}, {32, 1}, {48, 1}, {64, 1}}; // Splits, cluster.
    for (int64_t warps : {4, 8})
      for (int64_t keys : {16, 32})
        for (int64_t stages : {1, 2, 3, 4, 6})
          for (auto [splits, cluster] : ways) {
            TileConfig config{
                {"warps", warps}, {"keys", keys}, {"stages", stages}, {"splits", splits}, {"cluster", cluster}};
            bool isTooShort = splits > 1 && splits * warps * leastKeysOfWarp > p->keys;
            bool isTooMany = splits > 1 && p->pairs() * splits > 16 * target.multiprocessors;
            bool isOneTile = splits * warps * keys >= p->keys; // Else its memory waits for it.
            const int64_t fixedBytes = DecodeKernel::staticBytes(*p, config);
            bool isTooLarge = fixedBytes > mostStaticShared ||
                              DecodeKernel::sharedBytes(*p, config) > target.sharedBytesPerBlock - fixedBytes;
            if (isTooShort || isTooMany || (cluster > 1 && !mayBeCluster) || (stages == 1 && !isOneTile) || isTooLarge)
              continue;
            const double us = estimate(region, *p, config, target);
            best = std::min(best, us);
            ranked.emplace_back(isInBlock ? estimateInBlock(region, *p, config, target) : us, config);
          }
    ranked = fastest(std::move(ranked), mostCandidates);
    if (isInBlock && !ranked.empty()) { // The one's order, the other's level: fusion compares with and without.
      const double difference = best - ranked.front().us;
      for (EstimatedConfig &one : ranked)
        one.us += difference;
    }
    return ranked;
  }
  int64_t way(const TileConfig &config) const override { return isCluster(config); }
  Result<KernelPlan> emit(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return DecodeKernel(region, *decodeProblem(region), config, target).plan();
  }
};

} // namespace

const KernelTemplate &decodeAttentionTemplate() {
  static const DecodeAttentionTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
