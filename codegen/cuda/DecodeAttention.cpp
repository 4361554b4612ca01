// cuda.decode_attention: attention of few query rows, which share keys, with a cache. Bound by reading the cache.
#include "codegen/cuda/ChunkPrinter.h"
#include "codegen/cuda/Kernel.h"
#include "codegen/cuda/Templates.h"

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <numeric>
#include <set>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

using ir::Scalar;
using ir::ScalarNode;

constexpr int64_t mostRows = 16;        ///< Of one mma fragment.
constexpr int64_t mostSize = 128;       ///< Of a head: sums of 16 rows take 64 registers.
constexpr int64_t leastKeysOfWarp = 16; ///< Of a part of the keys.
constexpr int64_t counterGranule = 256; ///< Zeroed workspace comes in multiples of it.
constexpr int64_t factorsBytes = 9216;  ///< Static shared memory: factors and weights of 64 parts of 16 rows.
constexpr size_t mostCandidates = 32;
constexpr double combineUs = 2; ///< The last block's turn.

/// What `dim` is divided by, everywhere in `expr`: 0 where it does not occur, 1 where it is used as it is.
int64_t divisorOf(AffineExpr expr, unsigned dim) {
  if (!expr.isFunctionOfDim(dim))
    return 0;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return 1;
  auto by = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (binary.getKind() == AffineExprKind::FloorDiv && by && binary.getLHS() == getAffineDimExpr(dim, expr.getContext()))
    return by.getValue();
  if (binary.getKind() != AffineExprKind::Add && binary.getKind() != AffineExprKind::Mul)
    return 1;
  return std::gcd(divisorOf(binary.getLHS(), dim), divisorOf(binary.getRHS(), dim));
}

/// An attention with every access as an offset. The dimensions are [batch..., M, S, D] for the scores and
/// [batch..., M, D, S] for the product; the last batch dimension is the heads.
struct DecodeProblem {
  LinearGraph scores, product;
  Scalar query = {}, key = {};           ///< Loads of `scores`.
  Scalar value = {}, probabilities = {}; ///< Loads of `product`.
  Scalar scoreProduct = {}, valueProduct = {};
  unsigned dimM = 0;
  int64_t M = 1, keys = 1, keySize = 1, valueSize = 1;
  int64_t group = 1;        ///< Neighbouring heads that share keys and values.
  bool emptyIsZero = false; ///< A row without keys gives zeros, not NaN.

  int64_t rows() const { return M * group; }
  int64_t pairs() const {
    int64_t count = 1;
    for (unsigned dim = 0; dim < dimM; ++dim)
      count *= scores.extents()[dim];
    return count / group;
  }
  bool hasHeads() const { return dimM > 0; }
  unsigned headDim() const { return dimM - 1; }
};

LinearGraph uncollapsed(const ir::ScalarGraph &graph) { return linearised(graph, graph.domain.rank()); }

Scalar contractionOf(const LinearGraph &graph) {
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes))
    if (node.kind == ScalarNode::Kind::Contract)
      return {static_cast<int>(id)};
  return {};
}

bool isPlainLoad(const LinearGraph &graph, Scalar s) {
  return graph[s].kind == ScalarNode::Kind::Load && graph[s].guards.empty() && graph[s].symbols.empty();
}

/// The load of the probabilities that `s` is, or of which it is where(is_nan(p), 0, p).
Scalar probabilitiesOf(const LinearGraph &graph, Scalar s) {
  auto isInput = [&](Scalar load) {
    return isPlainLoad(graph, load) && graph[load].input + 1 == graph.graph.inputs.size();
  };
  const ScalarNode &node = graph[s];
  if (isInput(s))
    return s;
  if (node.kind != ScalarNode::Kind::Apply || node.function != "where" || !isInput(node.operands[2]))
    return {};
  const ScalarNode &condition = graph[node.operands[0]], &zero = graph[node.operands[1]];
  bool replacesNan = condition.kind == ScalarNode::Kind::Apply && condition.function == "is_nan" &&
                     condition.operands[0] == node.operands[2] && zero.kind == ScalarNode::Kind::Constant &&
                     zero.constant == 0;
  return replacesNan ? node.operands[2] : Scalar{};
}

/// Whether `offset` walks [batch..., M, S] row by row; `dimS` is where the keys are.
bool isRowMajor(const LinearGraph &graph, AffineExpr offset, unsigned dimM, unsigned dimS) {
  MLIRContext *context = offset.getContext();
  AffineExpr expected = getAffineDimExpr(dimS, context);
  int64_t stride = graph.extents()[dimS];
  for (unsigned dim = dimM + 1; dim-- > 0; stride *= graph.extents()[dim])
    if (graph.extents()[dim] > 1) // The index of a single row is 0.
      expected = expected + getAffineDimExpr(dim, context) * stride;
  AffineExpr difference = simplifyAffineExpr(offset - expected, graph.extents().size(), 0);
  return difference == getAffineConstantExpr(0, context);
}

/// Whether chunks of eight along `dim` are dense and aligned.
bool isAligned(const LinearGraph &graph, Scalar load, unsigned dim) {
  return ChunkPrinter(graph, dim, 8).vectorAlignment(load) == 8;
}

Result<DecodeProblem> decodeProblem(const Region &region) {
  auto no = [](const std::string &reason) { return Error{ErrorCode::BadModel, reason}; };
  if (!region.attention)
    return no("holds no attention");
  DecodeProblem p{uncollapsed(region.attention->scores), uncollapsed(region.attention->product)};
  p.scoreProduct = contractionOf(p.scores), p.valueProduct = contractionOf(p.product);
  if (!p.scoreProduct || !p.valueProduct)
    return no("its products are not its anchors");
  p.query = p.scores[p.scoreProduct].operands[0], p.key = p.scores[p.scoreProduct].operands[1];
  p.value = p.product[p.valueProduct].operands[1];
  p.probabilities = probabilitiesOf(p.product, p.product[p.valueProduct].operands[0]);
  p.emptyIsZero = p.probabilities && p.probabilities != p.product[p.valueProduct].operands[0];
  if (!isPlainLoad(p.scores, p.query) || !isPlainLoad(p.scores, p.key) || !isPlainLoad(p.product, p.value) ||
      !p.probabilities)
    return no("queries, keys and values are not plain tensors");

  unsigned rank = p.scores.extents().size();
  p.dimM = rank - 3;
  p.M = p.scores.extents()[p.dimM], p.keys = p.scores.extents()[rank - 2], p.keySize = p.scores.extents()[rank - 1];
  p.valueSize = p.product.extents()[rank - 2];
  if (p.product.extents().size() != rank || p.product.extents().drop_back(2) != p.scores.extents().drop_back(2) ||
      p.product.extents()[rank - 1] != p.keys ||
      !isRowMajor(p.scores, p.scores.graph.outputs[0].map.getResult(0), p.dimM, rank - 2) ||
      !isRowMajor(p.product, p.product.offset(p.probabilities), p.dimM, rank - 1))
    return no("its two products run over other rows");
  DType type = p.scores.graph.inputs[p.scores[p.key].input].type;
  if ((type != DType::BF16 && type != DType::F16) || p.scores.graph.inputs[p.scores[p.query].input].type != type ||
      p.product.graph.inputs[p.product[p.value].input].type != type)
    return no("queries, keys and values are not bf16 or f16 alike");
  if (p.keySize % 16 || p.valueSize % 16 || p.keySize > mostSize || p.valueSize > mostSize)
    return no("heads of " + std::to_string(p.keySize) + " and " + std::to_string(p.valueSize) +
              " elements; multiples of 16 up to " + std::to_string(mostSize) + " are taken");
  if (!isAligned(p.scores, p.key, rank - 1) || !isAligned(p.product, p.value, rank - 2) ||
      ChunkPrinter(p.scores, rank - 1, 2).vectorAlignment(p.query) != 2)
    return no("a head's elements are not neighbours in memory, or unaligned");
  if (p.scores.dependsOn(p.key, p.dimM) || p.product.dependsOn(p.value, p.dimM))
    return no("rows of one head have other keys");
  if (p.hasHeads()) {
    int64_t by =
        std::gcd(divisorOf(p.scores.offset(p.key), p.headDim()), divisorOf(p.product.offset(p.value), p.headDim()));
    int64_t heads = p.scores.extents()[p.headDim()];
    p.group = by == 0 ? heads : by;
    if (heads % p.group)
      return no("heads do not share keys evenly");
  }
  if (p.rows() > mostRows)
    return no(std::to_string(p.rows()) + " query rows share keys; up to " + std::to_string(mostRows) + " are taken");
  return p;
}

/// One region under one config, on its way to text.
class DecodeKernel {
public:
  DecodeKernel(const Region &region, DecodeProblem problem, const TileConfig &config, const ir::Target &target)
      : region(region), p(std::move(problem)), config(config), target(target), dimS(p.dimM + 1) {
    p.product.graph.inputs.pop_back(); // The probabilities never are in memory.
    for (unsigned dim = 0; dim < p.dimM; ++dim)
      batchNames.push_back("b" + std::to_string(dim));
    findFixed(p.scores.graph.outputs[0].value);
  }

  KernelPlan plan() {
    KernelPlan plan = planOf(region, p.product, target);
    Launch launch = launchOf(plan, entryName(region), target);
    launch.grid[0] = static_cast<uint32_t>(p.pairs());
    launch.grid[1] = static_cast<uint32_t>(config["splits"]);
    launch.block[0] = static_cast<uint32_t>(config["warps"] * 32);
    launch.sharedBytes = static_cast<uint32_t>(sharedBytes(p, config));
    if (config["splits"] > 1) {
      plan.zeroedBytes = ceilDiv(p.pairs() * 4, counterGranule) * counterGranule;
      plan.workspaceBytes = plan.zeroedBytes + p.pairs() * config["splits"] * partBytes(p);
      launch.args.push_back({KernelArg::Kind::Workspace, 0});
      launch.args.push_back({KernelArg::Kind::Workspace, plan.zeroedBytes});
    }
    plan.launches = {launch};
    plan.source = source();
    return plan;
  }

  static int64_t pitchOf(int64_t size) { return static_cast<int64_t>(llvm::PowerOf2Ceil(size)); }
  static int64_t partBytes(const DecodeProblem &p) { return llvm::alignTo(p.rows() * (p.valueSize + 2) * 4, 16); }
  static int64_t sharedBytes(const DecodeProblem &p, const TileConfig &config) {
    int64_t tiles =
        config["warps"] * config["stages"] * config["keys"] * 2 * (pitchOf(p.keySize) + pitchOf(p.valueSize));
    return std::max(tiles, config["warps"] * partBytes(p));
  }

private:
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

  /// Text of how many keys count, from a mask where(key <= last, ..., -inf); "" where all do.
  std::string countText(ValuePrinter &scope) const {
    const ScalarNode &root = p.scores[p.scores.graph.outputs[0].value];
    if (root.kind != ScalarNode::Kind::Apply || root.function != "where")
      return "";
    const ScalarNode &condition = p.scores[root.operands[0]], &otherwise = p.scores[root.operands[2]];
    bool hides =
        otherwise.kind == ScalarNode::Kind::Constant && std::isinf(otherwise.constant) && otherwise.constant < 0;
    if (!hides || condition.kind != ScalarNode::Kind::Apply || condition.operands.size() != 2)
      return "";
    bool isMirrored = condition.function == "ge" || condition.function == "gt";
    Scalar index = condition.operands[isMirrored ? 1 : 0], last = condition.operands[isMirrored ? 0 : 1];
    bool isKey = p.scores[index].kind == ScalarNode::Kind::Index &&
                 p.scores[index].index == getAffineDimExpr(dimS, p.scores[index].index.getContext());
    if (!isKey || differsAmongRows(last))
      return "";
    std::string value = scope.value(last), least = "maximum(minimum(static_cast<long long>(" + value + "), " +
                                                   std::to_string(p.keys) + "ll), -1ll)";
    if (condition.function == "le" || condition.function == "ge")
      return "Index(" + least + ") + 1";
    if (condition.function == "lt" || condition.function == "gt")
      return "Index(" + least + ")";
    return "";
  }

  std::string source() {
    writeHead(writer, region, config, target, "decode_attention.cuh");
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
    writer.close(";");
    writer.line();
    writeBody();
    writer.line();
    bool isSplit = config["splits"] > 1;
    writer.line("using Attention = DecodeAttention<Config, Body>;");
    openEntry(writer, "Config::warps * 32", entryName(region),
              bufferParameters(p.product) + (isSplit ? ", unsigned *arrivals, Attention::Part *partials" : ""));
    writer.line("const Body body{" + bodyNames + "};");
    writer.line(llvm::Twine("Attention{body}.run(") + (isSplit ? "arrivals, partials" : "nullptr, nullptr") + ");");
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
    bodyNames += "out0";
    writer.line();
    writeFixed();
    writeAddresses();
    writeScore();
    writeStore();
    writer.close(";");
  }

  void writeFixed() {
    writer.open("struct Fixed");
    for (Scalar s : fixed)
      writer.line(valueType(p.scores[s].type) + " v" + llvm::Twine(s.id) + ";");
    writer.line("Index count; // Keys from the first on that may count.");
    writer.close(";");
    writer.open("__device__ __forceinline__ Fixed at(Index pair) const");
    ValuePrinter scope = scopeOf(p.scores, "0", "0");
    std::string values;
    for (Scalar s : fixed)
      values += scope.value(s) + ", ";
    std::string count = countText(scope);
    writer.line("return {" + values + (count.empty() ? "Index(Config::keys)" : count) + "};");
    writer.close();
    writer.line();
  }

  void writeAddresses() {
    writer.open("__device__ __forceinline__ unsigned query(Index pair, int row, int d) const");
    ValuePrinter rows = scopeOf(p.scores, "row", "0").within(dimS + 1, "d");
    writer.line("return *reinterpret_cast<const unsigned *>(" + inputOf(p.scores, p.query) + " + (" +
                rows.offset(p.scores.offset(p.query), {}) + "));");
    writer.close();
    for (bool isKey : {true, false}) {
      const LinearGraph &graph = isKey ? p.scores : p.product;
      Scalar load = isKey ? p.key : p.value;
      writer.open("__device__ __forceinline__ const Config::Element *" + llvm::Twine(isKey ? "key" : "value") +
                  "(Index pair, Index key) const");
      ValuePrinter scope = isKey ? scopeOf(graph, "0", "key") : scopeOf(graph, "0", "0").within(dimS + 1, "key");
      writer.line("return " + inputOf(graph, load) + " + (" + scope.offset(graph.offset(load), {}) + ");");
      writer.close();
    }
    writer.line();
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
  unsigned dimS;
  llvm::SmallVector<std::string> batchNames;
  std::string bodyNames;
  std::set<int> seen;
  std::vector<Scalar> fixed;
  SourceWriter writer;
};

double estimate(const Region &region, const DecodeProblem &p, const TileConfig &config, const ir::Target &target) {
  double blocks = static_cast<double>(p.pairs() * config["splits"]);
  int64_t shared = DecodeKernel::sharedBytes(p, config);
  auto perSm = static_cast<double>(
      std::min<int64_t>(target.sharedBytesPerBlock / (shared + 1024), 65536 / (160 * 32 * config["warps"])));
  perSm = std::max(1.0, perSm);
  double slots = perSm * target.multiprocessors, resident = std::min(perSm, blocks / target.multiprocessors);
  double tileBytes = static_cast<double>(config["keys"] * 2 * (p.keySize + p.valueSize));
  double keysOfWarp = static_cast<double>(p.keys) / static_cast<double>(config["splits"] * config["warps"]);
  double stages =
      std::min(static_cast<double>(config["stages"] - 1), std::ceil(keysOfWarp / static_cast<double>(config["keys"])));
  double inFlight = resident * static_cast<double>(config["warps"]) * stages * tileBytes;
  // Blocks of the last wave share the memory among fewer, which costs less than idle processors would.
  double waves = blocks / slots, uneven = std::ceil(waves) / waves;
  double padding =
      std::ceil(keysOfWarp / static_cast<double>(config["keys"])) * static_cast<double>(config["keys"]) / keysOfWarp;
  double combine = config["splits"] > 1 ? combineUs + 0.02 * static_cast<double>(config["splits"]) : 0.7;
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

  std::vector<TileConfig> candidates(const Region &region, const ir::Target &target) const override {
    Result<DecodeProblem> p = decodeProblem(region);
    std::vector<std::pair<double, TileConfig>> ranked;
    for (int64_t warps : {4, 8})
      for (int64_t keys : {16, 32})
        for (int64_t stages : {2, 3, 4, 6})
          for (int64_t splits : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
            TileConfig config{{"warps", warps}, {"keys", keys}, {"stages", stages}, {"splits", splits}};
            bool isTooShort = splits > 1 && splits * warps * leastKeysOfWarp > p->keys;
            bool isTooMany = splits > 1 && p->pairs() * splits > 16 * target.multiprocessors;
            if (isTooShort || isTooMany ||
                DecodeKernel::sharedBytes(*p, config) > target.sharedBytesPerBlock - factorsBytes)
              continue;
            ranked.emplace_back(estimate(region, *p, config, target), config);
          }
    return fastest(std::move(ranked), mostCandidates);
  }
  double estimateUs(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return estimate(region, *decodeProblem(region), config, target);
  }
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
