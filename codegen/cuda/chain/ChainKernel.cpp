#include "codegen/cuda/chain/ChainKernel.h"
#include "codegen/cuda/chain/ChainMemory.h"
#include "codegen/cuda/chain/RunRows.h"
#include "codegen/cuda/matmul/RowEpilogue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

class ChainKernel {
public:
  ChainKernel(const Region &region, const ChainProblem &chain, const TileConfig &config, const ir::Target &target)
      : region(region), chain(chain), config(config), target(target), shape(config), memory(chain) {}

  Result<KernelPlan> plan() {
    LinearGraph buffersAlone;
    buffersAlone.graph = region.graph;
    made = planOf(region, buffersAlone, target);
    made.workspaceBytes = memory.bytes;
    writeHead(writer, region, config, target, "chain_cluster.cuh");
    writeConfig();
    for (size_t layer = 0; layer < chain.layers.size(); ++layer)
      addKind(layer);
    writeLayers();
    writeEntry();
    addLaunch();
    giveSource(made, writer.str());
    return std::move(made);
  }

private:
  /// Layers that differ only in what they read and write.
  struct Kind {
    std::string name;
    std::vector<BufferName> buffers; ///< What its epilogue takes, by the layer's names.
  };

  //===- Memory ------------------------------------------------------------------------------===//

  /// The text of an input's or result's address.
  std::string textOf(const ChainMemory::Place &place) {
    return place.output >= 0 ? buffer(made.inputs.size() + place.output)
                             : "workspace + " + std::to_string(place.offset);
  }
  std::string textOf(const ChainLayer::Source &source) {
    return source.isResult() ? textOf(memory.results[source.layer][source.index]) : buffer(source.index);
  }
  /// A buffer of the plan, which becomes a parameter.
  std::string buffer(size_t number) {
    if (!llvm::is_contained(buffers, number))
      buffers.push_back(number);
    return "buffer" + std::to_string(number);
  }

  /// The number of a tensor map, each once.
  size_t mapOf(const ChainLayer::Source &source, const TmaOperand &operand, DType type, int64_t rows) {
    TensorMapRecipe recipe = operand.recipe(type, rows);
    if (!source.isResult()) {
      recipe.buffer = source.index;
    } else if (const ChainMemory::Place &place = memory.results[source.layer][source.index]; place.output >= 0) {
      recipe.buffer = made.inputs.size() + place.output;
    } else {
      recipe.buffer = 0;
      recipe.inWorkspace = true;
      recipe.offsetBytes += place.offset;
    }
    auto found = llvm::find(made.tensorMaps, recipe);
    if (found == made.tensorMaps.end())
      found = made.tensorMaps.insert(found, recipe);
    return found - made.tensorMaps.begin();
  }

  //===- Text --------------------------------------------------------------------------------===//

  void addKind(size_t number) {
    const Layer &layer = chain.layers[number];
    std::string key = layer.from.region.text;
    for (auto [input, source] : llvm::enumerate(layer.from.inputs))
      if (input != layer.tokensInput() || layer.product.readsBeside(input)) // Those come by maps, whosesoever they are.
        key += source.isResult() ? "r" : layer.from.region.isFixed[input] ? "f" : "v"; // Results are waited for.
    auto [found, isNew] = kinds.try_emplace(key);
    kindOf.push_back(&found->second);
    if (!isNew)
      return;
    Kind &kind = found->second;
    kind.name = "kind" + std::to_string(kinds.size() - 1);
    writer.line("/// " + layer.from.region.ops);
    writer.open("namespace " + kind.name);
    writeProduct(layer, kind);
    writer.open("struct Layer");
    auto isResult = [&](BufferName name) { return name.isInput && layer.from.inputs[name.number].isResult(); };
    writer.line(Twine("static constexpr bool readsResults = ") +
                (llvm::any_of(kind.buffers, isResult) ? "true" : "false") +
                ", readsRows = " + (layer.product.readsRows() ? "true" : "false") +
                ", reducesRows = " + (layer.product.reducesRows ? "true;" : "false;"));
    writer.line("using Index = ::Index;");
    for (const char *type : {"Epilogue", "Weights", "Tokens", "Product"})
      writer.line("using " + Twine(type) + " = " + kind.name + "::" + type + ";");
    writer.line("static constexpr int N = " + Twine(layer.product.N) + ", K = " + Twine(layer.product.K) + ";");
    writer.open("static __device__ __forceinline__ Epilogue epilogue(const void *const *buffers)");
    SmallVector<std::string> values;
    for (auto [i, name] : llvm::enumerate(kind.buffers))
      values.push_back("(" + typeOf(layer, name) + ")buffers[" + std::to_string(i) + "]");
    writer.line("return {" + llvm::join(values, ", ") + "};");
    writer.close();
    writer.close(";");
    writer.close(" // namespace " + kind.name);
    writer.line();
  }

  void writeProduct(const Layer &layer, Kind &kind) {
    MatmulPrinter printer(layer.from.region, layer.product, config, target, chainEpilogueVector);
    const TmaSide weights{layer.weights}, tokens{layer.tokens};
    const DType type = layer.product.elementType(0);
    writeTmaSide(printer, weights, "Weights");
    writeTmaSide(printer, tokens, "Tokens");
    cuda::writeProduct(printer.out(), type, type, shape.columns, weights, tokens);
    if (layer.product.reducesRows)
      RowEpilogue(layer.product, chainEpilogueVector).write(printer, nullptr);
    else
      printer.writeEpilogue();
    writer.append(printer.out());
    kind.buffers = printer.epilogueBuffers();
  }

  static std::string typeOf(const Layer &layer, BufferName name) {
    const ir::ScalarGraph &graph = layer.from.region.graph;
    const DType type = name.isInput ? graph.inputs[name.number].type : graph.outputs[name.number].type;
    return (name.isInput ? "const " : "") + storedType(type).str() + " *";
  }

  void writeConfig() {
    auto number = [](const char *name, int64_t value) { return std::string(name) + " = " + std::to_string(value); };
    writer.line("using Index = int;");
    writer.open("struct Config");
    writer.line("using Index = ::Index;");
    writer.line("static constexpr int " + number("M", chain.M) + ", " + number("batches", chain.batches) + ";");
    writer.line("static constexpr int " + number("tileRows", shape.rows) + ", " + number("tileColumns", shape.columns) +
                ", " + number("tileK", 64) + ", " + number("threads", shape.threads()) +
                "; // The result's columns and rows.");
    writer.line("static constexpr int " + number("groupsK", shape.groupsK) + ", " + number("stages", shape.stages) +
                ", " + number("clusterColumns", shape.clusterColumns) + ", " +
                number("epilogueVector", chainEpilogueVector) + ";");
    writer.line("static constexpr int " + number("partialsOffset", shape.partialsOffset()) + ", " +
                number("barriersOffset", shape.barriersOffset()) + ", " + number("layersOffset", shape.layersOffset()) +
                ", " + number("exchangeOffset", shape.exchangeOffset(chain)) + ";");
    writer.close(";");
    writer.line();
  }

  void writeLayers() {
    bool areFixed = llvm::all_of(chain.layers, [](const Layer &layer) { return layer.weights.matrix.isFixed; });
    writer.open("struct Layers");
    writer.line("static constexpr int count = " + Twine(chain.layers.size()) + ", buffers = " + Twine(chain.buffers()) +
                ";");
    writer.line(Twine("static constexpr bool weightsAreFixed = ") + (areFixed ? "true" : "false") +
                ", reducesRows = " + (chain.reductions() > 0 ? "true;" : "false;"));
    writer.open("template <class Role, class Chain> static __device__ __forceinline__ void visit(Chain &chain, int "
                "number)");
    // One call of each kind, which is inlined: with one for each of 21 layers a kernel compiled for seconds.
    auto run = [](const Kind &kind) { return "Role::template run<" + kind.name + "::Layer>(chain, number);"; };
    auto layers = [&](const Kind &kind) { return llvm::count(kindOf, &kind); };
    const Kind &most = llvm::max_element(kinds, [&](const auto &a, const auto &b) {
                         return layers(a.second) < layers(b.second);
                       })->second;
    if (kinds.size() > 1) {
      writer.open("switch (number)");
      for (const auto &[key, kind] : kinds) {
        if (&kind == &most)
          continue;
        for (auto [number, of] : llvm::enumerate(kindOf))
          if (of == &kind)
            writer.line("case " + Twine(number) + ":");
        writer.line("  return " + run(kind));
      }
      writer.close();
    }
    writer.line(run(most));
    writer.close();
    writer.close(";");
    writer.line();
  }

  /// The body comes first: it finds the parameters.
  void writeEntry() {
    SourceWriter body;
    for (auto [number, layer] : llvm::enumerate(chain.layers)) {
      const DType type = layer.product.elementType(0);
      const size_t weights = mapOf(layer.from.inputs[layer.weights.matrix.input], layer.weights, type, shape.rows),
                   tokens = mapOf(layer.from.inputs[layer.tokensInput()], layer.tokens, type, shape.columns);
      SmallVector<std::string> values;
      for (BufferName name : kindOf[number]->buffers)
        values.push_back(name.isInput ? textOf(layer.from.inputs[name.number])
                                      : textOf(memory.results[number][name.number]));
      body.line("if (threadIdx.x == " + Twine(number) + ") layers[" + Twine(number) + "] = {&map" + Twine(weights) +
                ", &map" + Twine(tokens) + ", {" + llvm::join(values, ", ") + "}};");
    }
    std::string runRows, parameters;
    if (const std::optional<size_t> last = layerGivenAway(*region.chain())) {
      const Layer &layer = chain.layers[*last];
      runRows = runRowsOf(layer.product, body, [&](unsigned input) { return textOf(layer.from.inputs[input]); });
    }
    for (size_t map = 0; map < made.tensorMaps.size(); ++map)
      parameters += "const __grid_constant__ TensorMap map" + std::to_string(map) + ", ";
    for (size_t number : buffers)
      parameters +=
          (number < made.inputs.size() ? "const void *buffer" : "void *buffer") + std::to_string(number) + ", ";
    writer.open("extern \"C\" __global__ void __launch_bounds__(Config::threads) " + entryName(region) + "(" +
                parameters + "unsigned char *workspace)");
    writer.line("using Kernel = ClusterChain<Config, Layers>;");
    writer.line("auto *layers = Kernel::layers();");
    writer.append(body);
    if (!runRows.empty()) // Clusters have nothing to do with each other.
      writer.line("if (Kernel::firstRow() >= " + runRows + ") return waitForPredecessor();");
    writer.line("Kernel kernel;");
    writer.line("kernel.run();");
    writer.close();
  }

  void addLaunch() {
    Launch launch = launchOf(made, entryName(region), target);
    launch.args.clear();
    for (uint64_t map = 0; map < made.tensorMaps.size(); ++map)
      launch.args.push_back({KernelArg::Kind::TensorMap, map});
    for (size_t number : buffers)
      launch.args.push_back({KernelArg::Kind::Buffer, number});
    launch.args.push_back({KernelArg::Kind::Workspace, 0});
    launch.grid = {static_cast<uint32_t>(shape.blocks(chain)), 1, 1};
    launch.block[0] = static_cast<uint32_t>(shape.threads());
    launch.cluster = {static_cast<uint32_t>(shape.clusterColumns), 1, 1};
    launch.sharedBytes = static_cast<uint32_t>(shape.sharedBytes(chain));
    made.launches = {launch};
  }

  const Region &region;
  const ChainProblem &chain;
  const TileConfig &config;
  const ir::Target &target;
  const ChainShape shape;
  const ChainMemory memory;
  KernelPlan made;
  SourceWriter writer;
  std::vector<size_t> buffers; ///< The plan's, in the order of the entry's parameters.
  std::map<std::string, Kind> kinds;
  std::vector<const Kind *> kindOf;
};

} // namespace

Result<KernelPlan> chainKernel(const Region &region, const ChainProblem &chain, const TileConfig &config,
                               const ir::Target &target) {
  return ChainKernel(region, chain, config, target).plan();
}

} // namespace kfuse::codegen::cuda
