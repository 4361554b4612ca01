// cuda.row_chain: products of many rows in a row, each with the norm of its rows, in one launch: clusters that hold
// whole rows take them through all layers (device/row_chain.cuh).
#include "codegen/KernelLimits.h"
#include "codegen/cuda/chain/Templates.h"
#include "codegen/cuda/matmul/RowEpilogue.h"
#include "codegen/cuda/matmul/Templates.h"
#include "codegen/cuda/matmul/Tma.h"
#include "codegen/cuda/text/Clusters.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

constexpr int64_t threads = 384; ///< A producer and two consumer warpgroups.

/// Of the time that the links take in launches of their own. Each but the last leaves its rows in the last-level cache,
/// and launches have no ends: 20 links of 32768 x 1024 x 1024 take 2250 us instead of 2451 on an H200. In tiles of 64
/// rows they take 2742.
double chainedShare(int64_t links, const TileConfig &config) {
  constexpr double savedShare = 0.086, narrowShare = 1.12;
  const auto count = static_cast<double>(links);
  return config["m"] < 128 ? narrowShare : 1 - savedShare * (count - 1) / count;
}

/// Barriers of what is stored, and of each link the address of its weights' map and those of its epilogue's buffers.
int64_t linkBytes(size_t links, size_t buffers) { return static_cast<int64_t>(16 + links * (1 + buffers) * 8); }

/// A product and what becomes of its rows, as each link is one.
struct RowLink {
  MatmulProblem problem;
  TmaOperand rows, weights;
  std::optional<TmaResult> result;

  explicit RowLink(const Region &region)
      : problem(*MatmulProblem::of(region)), rows(TmaOperand::of(problem, 0)), weights(TmaOperand::of(problem, 1)),
        result(TmaResult::placed(problem)) {}
};

/// Why the links are not all the same product of the rows before with weights of their own, or "".
std::string whyNotAlike(const Chain &chain, unsigned rowsInput) {
  const ChainLink &first = chain.links.front();
  for (auto [number, link] : llvm::enumerate(chain.links)) {
    if (link.region.text != first.region.text)
      return "holds different links";
    for (auto [input, source] : llvm::enumerate(link.inputs)) {
      const bool isRows = input == rowsInput;
      if (isRows && number > 0 ? source.link != static_cast<int>(number) - 1 : source.isResult())
        return "holds a link that reads results other than the one before it, its product's left operand";
      if (!isRows && link.region.isFixed[input] != first.region.isFixed[input])
        return "holds links of which only some read what is fixed";
    }
    const bool isLast = number + 1 == chain.links.size();
    if ((link.outputs.front() >= 0) != isLast)
      return "gives away what is between its links";
  }
  return "";
}

/// Why results cannot take the place of the rows that they come from, or "".
std::string whyNotInPlace(const RowLink &link) {
  const auto &[problem, rows, weights, result] = link;
  for (auto [id, node] : llvm::enumerate(problem.graph.graph.nodes))
    if (node.kind == ir::ScalarNode::Kind::Load && node.input == rows.matrix.input &&
        !problem.isOperand({static_cast<int>(id)}))
      return "reads the rows that it multiplies beside the product, too";
  const uint64_t rowBytes = problem.K * byteWidth(problem.elementType(0));
  if (!result || result->written.type != problem.elementType(0))
    return "stores other than the 16-bit floats that it multiplies";
  if (problem.batches != 1 || problem.N != problem.K)
    return "has batches, or rows of another length than its results";
  if (!rows.matrix.contiguousK || rows.strideBytes != rowBytes || rows.offsetBytes != 0 ||
      result->written.strideBytes != rowBytes || result->written.offsetBytes != 0)
    return "reads or writes rows that do not follow each other in memory";
  return "";
}

/// One chain under one config, on its way to text.
class RowChainKernel {
public:
  RowChainKernel(const Region &region, const TileConfig &config, const ir::Target &target)
      : region(region), links(region.chain->links), config(config), target(target), link(links.front().region),
        printer(links.front().region, link.problem, config, target, RowEpilogue::vector), writer(printer.out()),
        names(printer.epilogueBuffers()) {}

  KernelPlan plan(int64_t ofTile) {
    LinearGraph buffersAlone;
    buffersAlone.graph = region.graph;
    made = planOf(region, buffersAlone, target);
    addMaps();
    writeHead(writer, region, config, target, "row_chain.cuh");
    writeConfig();
    writeLayer();
    writeEntry();
    addLaunch(ofTile);
    giveSource(made, writer.str());
    return std::move(made);
  }

private:
  size_t output() const { return made.inputs.size(); }
  /// The plan's buffer that a link's epilogue calls "in2" or "out0".
  size_t bufferOf(const ChainLink &of, BufferName name) const {
    return name.isInput ? of.inputs[name.number].index : output();
  }

  /// Rows as they come, as they are between links, as they are written; then each link's weights.
  void addMaps() {
    const DType type = link.problem.elementType(0);
    auto add = [&](TensorMapRecipe recipe, size_t buffer) {
      recipe.buffer = static_cast<uint32_t>(buffer);
      made.tensorMaps.push_back(std::move(recipe));
    };
    add(link.rows.recipe(type, config["m"]), links.front().inputs[link.rows.matrix.input].index);
    add(link.rows.recipe(type, config["m"]), output());
    add(link.result->written.recipe(64), output());
    for (const ChainLink &each : links)
      add(link.weights.recipe(type, config["n"]), each.inputs[link.weights.matrix.input].index);
  }

  void writeConfig() {
    auto number = [](const char *name, int64_t value) { return std::string(name) + " = " + std::to_string(value); };
    writer.line("using Index = " + indexType(link.problem.graph) + ";");
    writer.open("struct Config");
    writer.line("using Index = ::Index;");
    writer.line("static constexpr int " + number("M", link.problem.M) + ", " + number("N", link.problem.N) + ", " +
                number("K", link.problem.K) + ";");
    writer.line("static constexpr int " + number("tileRows", config["m"]) + ", " + number("tileColumns", config["n"]) +
                ", " + number("tileN", config["n"]) + ", " + number("tileK", config["k"]) + ", " +
                number("stages", config["stages"]) + ";");
    writer.line("static constexpr int clusterRows = 1, " + number("clusterColumns", config["cluster_n"]) + ", " +
                number("epilogueVector", RowEpilogue::vector) + ";");
    writer.close(";");
    writer.line();
  }

  void writeLayer() {
    const TmaSide rows{link.rows}, weights{link.weights};
    writeTmaSide(printer, rows, "Rows");
    writeTmaSide(printer, weights, "Columns");
    writeProduct(writer, link.problem.elementType(0), link.problem.elementType(1), config["n"], rows, weights);
    RowEpilogue(link.problem).write(printer, &*link.result);
    SmallVector<std::string> values;
    for (auto [i, name] : llvm::enumerate(names))
      values.push_back("(decltype(Epilogue::" + name.str() + "))buffers[" + std::to_string(i) + "]");
    writer.open("struct Links");
    writer.line("static constexpr int count = " + Twine(links.size()) + ", buffers = " + Twine(names.size()) + ";");
    writer.open("static __device__ __forceinline__ Epilogue epilogue(void *const *buffers)");
    writer.line("return {" + llvm::join(values, ", ") + "};");
    writer.close();
    writer.close(";");
    writer.line();
  }

  /// A thread a link passes on what parameters say of it.
  void writeEntry() {
    SmallVector<std::string> perLink,
        parameters{"const __grid_constant__ TensorMap rowsMap", "const __grid_constant__ TensorMap betweenMap",
                   "const __grid_constant__ TensorMap resultMap"};
    for (auto [number, each] : llvm::enumerate(links)) {
      SmallVector<std::string> values;
      for (BufferName name : names)
        values.push_back("(void *)" + parameterOf(bufferOf(each, name)));
      perLink.push_back(("if (threadIdx.x == " + Twine(number) + ") links[" + Twine(number) + "] = {&weightsMap" +
                         Twine(number) + ", {" + llvm::join(values, ", ") + "}};")
                            .str());
      parameters.push_back("const __grid_constant__ TensorMap weightsMap" + std::to_string(number));
    }
    for (size_t number : buffers)
      parameters.push_back((number < output() ? "const void *" : "void *") + parameterOf(number));
    writer.line("using Kernel = RowChain<Config, Rows, Columns, Product, Links>;");
    writer.open("extern \"C\" __global__ void __launch_bounds__(Kernel::threads) " + entryName(region) + "(" +
                llvm::join(parameters, ", ") + ")");
    writer.line("mark(Moment::starts);");
    writer.line("auto *links = Kernel::links();");
    for (const std::string &line : perLink)
      writer.line(line);
    writer.line("Kernel(&rowsMap, &betweenMap).run(ToRowTiles<Epilogue>{{}, &resultMap});");
    writer.close();
  }
  /// A buffer of the plan, which becomes a parameter.
  std::string parameterOf(size_t number) {
    if (!llvm::is_contained(buffers, number))
      buffers.push_back(number);
    return "buffer" + std::to_string(number);
  }

  void addLaunch(int64_t ofTile) {
    Launch launch = launchOf(made, entryName(region), target);
    launch.args.clear();
    for (uint64_t map = 0; map < made.tensorMaps.size(); ++map)
      launch.args.push_back({KernelArg::Kind::TensorMap, map});
    for (size_t number : buffers)
      launch.args.push_back({KernelArg::Kind::Buffer, number});
    const int64_t blocks = config["cluster_n"], tiles = ceilDiv(link.problem.M, config["m"]);
    launch.grid = {static_cast<uint32_t>(std::min(tiles, clustersAtOnce(blocks, target)) * blocks), 1, 1};
    launch.block = {static_cast<uint32_t>(threads), 1, 1};
    launch.cluster = {static_cast<uint32_t>(blocks), 1, 1};
    launch.sharedBytes = static_cast<uint32_t>(ofTile + linkBytes(links.size(), names.size()));
    launch.needsNoL1 = true;
    made.launches = {launch};
  }

  const Region &region;
  const std::vector<ChainLink> &links;
  const TileConfig &config;
  const ir::Target &target;
  const RowLink link; ///< All are alike.
  MatmulPrinter printer;
  SourceWriter &writer;
  KernelPlan made;
  std::vector<BufferName> names; ///< Of an epilogue's buffers.
  std::vector<size_t> buffers;   ///< Of the plan, in the order of the entry's parameters.
};

/// A link alone is a product of matmulSm90Template(), whose configs these are: those that let warpgroups take turns.
class RowChainTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.row_chain"; }

  /// Large links are the same tiles in their own launches, and so are the estimates' errors; of small ones not.
  double worthBelow(const Region &region, double us) const override {
    constexpr double largeUs = 46; // Which take 50 apart.
    return us < largeUs * static_cast<double>(region.chain->links.size()) ? 0.75 : 0.97;
  }

  ir::FusionDecision match(const Region &region, const ir::Target &target) const override {
    using ir::FusionDecision;
    if (!region.chain)
      return FusionDecision::no("is no chain of kernels");
    const Chain &chain = *region.chain;
    const Region &first = chain.links.front().region;
    if (first.graph.domain.contractionDim < 0 || first.graph.domain.reductionDim < 0)
      return FusionDecision::no("holds a link that is no product with a reduction of its rows");
    if (FusionDecision taken = matmulSm90Template().match(first, target); !taken)
      return taken;
    if (chain.links.size() < 2)
      return FusionDecision::no("one product is no chain");
    const RowLink link(first);
    if (std::string reason = whyNotAlike(chain, link.rows.matrix.input); !reason.empty())
      return FusionDecision::no(reason);
    if (std::string reason = whyNotInPlace(link); !reason.empty())
      return FusionDecision::no(reason);
    const auto links = static_cast<int64_t>(chain.links.size());
    if (!fitParameters(links + 3, links * static_cast<int64_t>(first.graph.inputs.size())))
      return FusionDecision::no(std::to_string(links) + " links, more than parameters fit a kernel");
    if (estimated(region, target).empty())
      return FusionDecision::no("has no tile of rows that two warpgroups could take in turns");
    return FusionDecision::yes();
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    const auto links = static_cast<int64_t>(region.chain->links.size());
    const Region &first = region.chain->links.front().region;
    std::vector<EstimatedConfig> configs;
    for (const auto &[us, config] : matmulSm90Template().estimated(first, target))
      if (config["pingpong"] && config["cluster_m"] == 1 && config["cluster_n"] > 1 && config["n"] % config["k"] == 0 &&
          !config.valueOr("rows_later", 0))
        configs.push_back({static_cast<double>(links) * chainedShare(links, config) * us, config});
    llvm::sort(configs);
    return configs;
  }

  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    Result<KernelPlan> alone = matmulSm90Template().emit(region.chain->links.front().region, config, target);
    if (!alone)
      return alone;
    return RowChainKernel(region, config, target).plan(alone->launches.front().sharedBytes);
  }
};

} // namespace

const KernelTemplate &rowChainTemplate() {
  static const RowChainTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
