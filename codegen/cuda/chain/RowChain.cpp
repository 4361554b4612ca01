// cuda.row_chain: products of many rows in a row, each with the norm of its rows, in one launch: clusters that hold
// whole rows take them through all layers (device/chain/row_chain.cuh).
#include "codegen/KernelLimits.h"
#include "codegen/cuda/chain/RunRows.h"
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

/// The share that a chain takes of its layers' time in launches of their own. Each layer but the last leaves its rows
/// in the last-level cache, and launches have no ends: 20 layers of 32768 x 1024 x 1024 take 2250 us instead of 2451 on
/// an H200. In tiles of 64 rows they take 2742.
double chainedShare(int64_t layers, const TileConfig &config) {
  constexpr double savedShare = 0.086, narrowShare = 1.12;
  const auto count = static_cast<double>(layers);
  return config["m"] < 128 ? narrowShare : 1 - savedShare * (count - 1) / count;
}

/// Barriers of what is stored, and of each layer the address of its weights' map and those of its epilogue's buffers.
int64_t layerBytes(size_t layers, size_t buffers) { return static_cast<int64_t>(16 + layers * (1 + buffers) * 8); }

/// A product and what becomes of its rows, as each layer is one.
struct RowLayer {
  MatmulProblem problem;
  TmaOperand rows, weights;
  std::optional<TmaResult> result;

  explicit RowLayer(const Region &region)
      : problem(*MatmulProblem::of(region)), rows(TmaOperand::of(problem, 0)), weights(TmaOperand::of(problem, 1)),
        result(TmaResult::placed(problem)) {}
};

/// Why the layers are not all the same product of the rows before with weights of their own, or "".
std::string whyNotAlike(const Chain &chain, unsigned rowsInput) {
  const ChainLayer &first = chain.layers.front();
  for (auto [number, layer] : llvm::enumerate(chain.layers)) {
    if (layer.region.text != first.region.text)
      return "holds different layers";
    for (auto [input, source] : llvm::enumerate(layer.inputs)) {
      const bool isRows = input == rowsInput;
      if (isRows && number > 0 ? source.layer != static_cast<int>(number) - 1 : source.isResult())
        return "holds a layer that reads results other than the one before it, its product's left operand";
      if (!isRows && layer.region.isFixed[input] != first.region.isFixed[input])
        return "holds layers of which only some read what is fixed";
    }
    const bool isLast = number + 1 == chain.layers.size();
    if ((layer.outputs.front() >= 0) != isLast)
      return "gives away what is between its layers";
  }
  return "";
}

/// Why results cannot take the place of the rows that they come from, or "".
std::string whyNotInPlace(const RowLayer &layer) {
  const auto &[problem, rows, weights, result] = layer;
  if (problem.readsBeside(rows.matrix.input))
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
      : region(region), layers(region.chain()->layers), config(config), target(target), layer(layers.front().region),
        printer(layers.front().region, layer.problem, config, target, RowEpilogue::lanesOfWgmma), writer(printer.out()),
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
  /// The plan's buffer that a layer's epilogue calls "in2" or "out0".
  size_t bufferOf(const ChainLayer &of, BufferName name) const {
    return name.isInput ? of.inputs[name.number].index : output();
  }

  /// Rows as they come, as they are between layers, as they are written; then each layer's weights.
  void addMaps() {
    const DType type = layer.problem.elementType(0);
    auto add = [&](TensorMapRecipe recipe, size_t buffer) {
      recipe.buffer = static_cast<uint32_t>(buffer);
      made.tensorMaps.push_back(std::move(recipe));
    };
    add(layer.rows.recipe(type, config["m"]), layers.front().inputs[layer.rows.matrix.input].index);
    add(layer.rows.recipe(type, config["m"]), output());
    add(layer.result->written.recipe(64), output());
    for (const ChainLayer &each : layers)
      add(layer.weights.recipe(type, config["n"]), each.inputs[layer.weights.matrix.input].index);
  }

  void writeConfig() {
    auto number = [](const char *name, int64_t value) { return std::string(name) + " = " + std::to_string(value); };
    writer.line("using Index = " + indexType(layer.problem.graph) + ";");
    writer.open("struct Config");
    writer.line("using Index = ::Index;");
    writer.line("static constexpr int " + number("M", layer.problem.M) + ", " + number("N", layer.problem.N) + ", " +
                number("K", layer.problem.K) + ";");
    writer.line("static constexpr int " + number("tileRows", config["m"]) + ", " + number("tileColumns", config["n"]) +
                ", " + number("tileN", config["n"]) + ", " + number("tileK", config["k"]) + ", " +
                number("stages", config["stages"]) + ";");
    writer.line("static constexpr int clusterRows = 1, " + number("clusterColumns", config["cluster_n"]) + ", " +
                number("epilogueVector", RowEpilogue::lanesOfWgmma) + ";");
    writer.close(";");
    writer.line();
  }

  void writeLayer() {
    const TmaSide rows{layer.rows}, weights{layer.weights};
    writeTmaSide(printer, rows, "Rows");
    writeTmaSide(printer, weights, "Columns");
    writeProduct(writer, layer.problem.elementType(0), layer.problem.elementType(1), config["n"], rows, weights);
    RowEpilogue(layer.problem).write(printer, &*layer.result);
    SmallVector<std::string> values;
    for (auto [i, name] : llvm::enumerate(names))
      values.push_back("(decltype(Epilogue::" + name.str() + "))buffers[" + std::to_string(i) + "]");
    writer.open("struct Layers");
    writer.line("static constexpr int count = " + Twine(layers.size()) + ", buffers = " + Twine(names.size()) + ";");
    writer.open("static __device__ __forceinline__ Epilogue epilogue(void *const *buffers)");
    writer.line("return {" + llvm::join(values, ", ") + "};");
    writer.close();
    writer.close(";");
    writer.line();
  }

  /// A thread a layer passes on what parameters say of it.
  void writeEntry() {
    SmallVector<std::string> perLayer,
        parameters{"const __grid_constant__ TensorMap rowsMap", "const __grid_constant__ TensorMap betweenMap",
                   "const __grid_constant__ TensorMap resultMap"};
    for (auto [number, each] : llvm::enumerate(layers)) {
      SmallVector<std::string> values;
      for (BufferName name : names)
        values.push_back("(void *)" + parameterOf(bufferOf(each, name)));
      perLayer.push_back(("if (threadIdx.x == " + Twine(number) + ") layers[" + Twine(number) + "] = {&weightsMap" +
                          Twine(number) + ", {" + llvm::join(values, ", ") + "}};")
                             .str());
      parameters.push_back("const __grid_constant__ TensorMap weightsMap" + std::to_string(number));
    }
    SourceWriter rows;
    const std::string runRows =
        runRowsOf(layer.problem, rows, [&](unsigned input) { return parameterOf(layers.back().inputs[input].index); });
    for (size_t number : buffers)
      parameters.push_back((number < output() ? "const void *" : "void *") + parameterOf(number));
    writer.line("using Kernel = RowChain<Config, Rows, Columns, Product, Layers>;");
    writer.open("extern \"C\" __global__ void __launch_bounds__(Kernel::threads) " + entryName(region) + "(" +
                llvm::join(parameters, ", ") + ")");
    writer.line("mark(Moment::starts);");
    writer.line("auto *layers = Kernel::layers();");
    for (const std::string &line : perLayer)
      writer.line(line);
    writer.append(rows);
    writer.line("Kernel(&rowsMap, &betweenMap" + (runRows.empty() ? "" : ", " + runRows) +
                ").run(ToRowTiles<Epilogue>{{}, &resultMap});");
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
    const int64_t blocks = config["cluster_n"], tiles = ceilDiv(layer.problem.M, config["m"]);
    setPersistentGrid(launch, tiles * blocks, clustersAtOnce(blocks, target) * blocks, target);
    launch.block = {static_cast<uint32_t>(threads), 1, 1};
    launch.cluster = {static_cast<uint32_t>(blocks), 1, 1};
    launch.sharedBytes = static_cast<uint32_t>(ofTile + layerBytes(layers.size(), names.size()));
    launch.needsNoL1 = true;
    made.launches = {launch};
  }

  const Region &region;
  const std::vector<ChainLayer> &layers;
  const TileConfig &config;
  const ir::Target &target;
  const RowLayer layer; ///< All are alike.
  MatmulPrinter printer;
  SourceWriter &writer;
  KernelPlan made;
  std::vector<BufferName> names; ///< The buffers of an epilogue.
  std::vector<size_t> buffers;   ///< The plan's, in the order of the entry's parameters.
};

/// Its configs are those of matmulSm90Template() in ping-pong: a layer alone is such a product.
class RowChainTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.row_chain"; }

  /// Large layers have the same tiles in their own launches, so that both estimates err alike; small layers do not.
  double profitabilityThreshold(const Region &region, double us) const override {
    constexpr double largeUs = 46; // Microseconds a layer in a chain; such layers take 50 in launches of their own.
    return us < largeUs * static_cast<double>(region.chain()->layers.size()) ? 0.75 : 0.97;
  }

  bool isForFormOf(const Region &region) const override { return region.chain() != nullptr; }
  ir::FusionDecision match(const Region &region, const ir::Target &target) const override {
    using ir::FusionDecision;
    if (!region.chain())
      return FusionDecision::no("is no chain of kernels");
    const Chain &chain = *region.chain();
    const Region &first = chain.layers.front().region;
    if (first.graph.domain.contractionDim < 0 || first.graph.domain.reductionDim < 0)
      return FusionDecision::no("holds a layer that is no product with a reduction of its rows");
    if (FusionDecision taken = matmulSm90Template().match(first, target); !taken)
      return taken;
    if (chain.layers.size() < 2)
      return FusionDecision::no("one product is no chain");
    const RowLayer layer(first);
    if (std::string reason = whyNotAlike(chain, layer.rows.matrix.input); !reason.empty())
      return FusionDecision::no(reason);
    if (std::string reason = whyNotInPlace(layer); !reason.empty())
      return FusionDecision::no(reason);
    const auto layers = static_cast<int64_t>(chain.layers.size());
    if (!fitParameters(layers + 3, static_cast<int64_t>(region.graph.inputs.size()) + 1))
      return FusionDecision::no(std::to_string(layers) + " layers, more than parameters fit a kernel");
    if (estimated(region, target).empty())
      return FusionDecision::no("has no tile of rows for two warpgroups in ping-pong");
    return FusionDecision::yes();
  }

  std::vector<EstimatedConfig> estimated(const Region &region, const ir::Target &target) const override {
    const auto layers = static_cast<int64_t>(region.chain()->layers.size());
    const Region &first = region.chain()->layers.front().region;
    std::vector<EstimatedConfig> configs;
    for (const auto &[us, config] : matmulSm90Template().estimated(first, target))
      if (config["pingpong"] && config["cluster_m"] == 1 && config["cluster_n"] > 1 && config["n"] % config["k"] == 0 &&
          !config.valueOr("rows_later", 0))
        configs.push_back({static_cast<double>(layers) * chainedShare(layers, config) * us, config});
    llvm::sort(configs);
    return configs;
  }

  bool endsWithRun(const Region &region, const TileConfig &) const override {
    return cuda::endsWithRun(*region.chain());
  }
  Result<KernelPlan> print(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    Result<KernelPlan> alone = matmulSm90Template().emit(region.chain()->layers.front().region, config, target);
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
