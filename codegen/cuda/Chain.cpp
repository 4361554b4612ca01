// cuda.chain: products and norms in a row, of the same rows, in one launch of blocks that wait for each other.
#include "codegen/cuda/RowPrinter.h"
#include "codegen/cuda/Templates.h"
#include "codegen/cuda/Tma.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

constexpr int64_t epilogueVector = 4;
constexpr int64_t panelRows = 64; ///< Of the result's columns, the instruction's rows.
constexpr int64_t lineBytes = 128;
constexpr int64_t mostStages = 24;
constexpr int64_t parameterBytes = 4096; ///< Of a kernel, before CUDA 12.1.
constexpr int64_t mapBytes = 128;
constexpr int64_t flagsOffset = 128; ///< Behind the counter of blocks that have left.
constexpr int64_t zeroedGranule = 256;
constexpr size_t mostCandidates = 48;

//===- Problem -------------------------------------------------------------------------------===//

/// A product whose left operand is the chain's or the result of the link before, or a kernel of rows.
struct Link {
  const ChainLink &from;
  std::optional<MatmulProblem> product;
  TmaOperand weights, tokens;      ///< Of a product.
  std::optional<LinearGraph> rows; ///< Else.
  int64_t rowCount = 0;            ///< Of the result, in all batches.

  const LinearGraph &graph() const { return product ? product->graph : *rows; }
  int64_t columns() const { return product ? product->N : rows->extents().back(); }
  unsigned tokensInput() const { return tokens.matrix.input; }
};

struct ChainProblem {
  std::vector<Link> links;
  int64_t M = 0, batches = 0;

  int64_t mostColumns() const {
    int64_t most = 0;
    for (const Link &link : links)
      most = std::max(most, link.product ? link.columns() : 0);
    return most;
  }
};

/// Whether results are stored row by row, and read so where a link reads them beside its product.
std::string whyNotRowMajor(const Link &link) {
  const LinearGraph &graph = link.graph();
  const unsigned rank = graph.extents().size();
  // Of a single row the columns are all dimensions there are: none is before them.
  const unsigned dimM = link.product ? link.product->dimM : rank - 2,
                 columns = link.product ? link.product->dimN : rank - 1;
  for (const ir::ScalarOutput &output : graph.graph.outputs)
    if (output.inPlace >= 0 || !output.symbols.empty() || !isRowMajor(graph, output.map.getResult(0), dimM, columns))
      return "does not store its results row by row";
  for (auto [id, node] : llvm::enumerate(graph.graph.nodes)) {
    if (node.kind != ir::ScalarNode::Kind::Load || !link.from.inputs[node.input].isResult())
      continue;
    const bool isTokens = link.product && link.product->operand(0).id == static_cast<int>(id);
    if (!node.guards.empty() || !node.symbols.empty() ||
        !isRowMajor(graph, node.map.getResult(0), dimM, isTokens ? link.product->dimK : columns))
      return "does not read an earlier result row by row";
  }
  return graph.fits32Bits() ? "" : "takes tensors of 2^30 elements or more";
}

/// A link, or why the region is none.
Result<Link> linkOf(const ChainLink &from, int number, const ir::Target &target) {
  auto no = [](const std::string &reason) { return Error{ErrorCode::BadModel, reason}; };
  Link link{from, MatmulProblem::of(from.region), {}, {}, {}, 0};
  auto isOfTheOneBefore = [&](const ChainLink::Source &source) { return source.link == number - 1; };
  if (!link.product) {
    if (ir::FusionDecision taken = rowsTemplate().match(from.region, target); !taken)
      return no(taken.reason());
    link.rows = linearised(from.region.graph, 1);
    link.rowCount = link.rows->graph.domain.points() / link.columns();
    if (!llvm::any_of(from.inputs, isOfTheOneBefore))
      return no("does not read the result before it");
  } else {
    const MatmulProblem &problem = *link.product;
    if (ir::FusionDecision taken = takenByWgmma(from.region, target); !taken)
      return no(taken.reason());
    if (problem.count() != 1)
      return no("is two products at once");
    auto isReduction = [](const ir::ScalarNode &node) { return node.kind == ir::ScalarNode::Kind::Reduce; };
    if (llvm::any_of(problem.graph.graph.nodes, isReduction))
      return no("reduces the rows of its product");
    if (byteWidth(problem.elementType(0)) != 2)
      return no("multiplies other than f16 or bf16");
    link.tokens = TmaOperand::of(problem, 0);
    link.weights = TmaOperand::of(problem, 1);
    link.rowCount = problem.batches * problem.M;
    if (from.inputs[link.weights.matrix.input].isResult() || !isOfTheOneBefore(from.inputs[link.tokensInput()]))
      return no("is no product of the result before it with an input");
    if (!link.tokens.matrix.contiguousK)
      return no("its rows are not contiguous along K");
  }
  if (std::string reason = whyNotRowMajor(link); !reason.empty())
    return no(reason);
  return link;
}

Result<ChainProblem> chainProblem(const Region &region, const ir::Target &target) {
  auto no = [](const std::string &reason) { return Error{ErrorCode::BadModel, reason}; };
  if (!region.chain)
    return no("is no chain of kernels");
  if (target.capability != 90)
    return no("a chain needs sm_90a, the target is " + target.name);
  ChainProblem chain;
  for (auto [number, from] : llvm::enumerate(region.chain->links)) {
    const std::string name = "link " + std::to_string(number) + " ";
    Result<Link> link = linkOf(from, static_cast<int>(number), target);
    if (!link)
      return no(name + link.error().message);
    if (const auto &product = link->product; product && chain.batches == 0)
      chain.M = product->M, chain.batches = product->batches;
    else if (product && (product->M != chain.M || product->batches != chain.batches))
      return no(name + "has other rows than the first product");
    chain.links.push_back(std::move(*link));
  }
  if (chain.batches == 0)
    return no("holds no matrix product");
  if (chain.links.size() < 2)
    return no("one product is no chain");
  for (auto [number, link] : llvm::enumerate(chain.links))
    if (link.rowCount != chain.M * chain.batches)
      return no("link " + std::to_string(number) + " has other rows than the products");
  return chain;
}

/// Addresses that a link's body takes at most: of its inputs and results.
int64_t buffersOf(const ChainProblem &chain) {
  size_t most = 1;
  for (const Link &link : chain.links)
    most = std::max(most, link.from.inputs.size() + link.from.outputs.size());
  return static_cast<int64_t>(most);
}

//===- Tiles ---------------------------------------------------------------------------------===//

/// What a config makes of a chain, and where things lie in shared memory: the ring, the sums of each warpgroup, the
/// barriers, the links' values.
struct Shape {
  int64_t rows, columns; ///< Of a tile: the result's columns, and its rows.
  int64_t groupsK, stages, cluster;

  explicit Shape(const TileConfig &config)
      : rows(config["n"]), columns(config["m"]), groupsK(config["groups_k"]), stages(config["stages"]),
        cluster(config["cluster"]) {}

  int64_t threads() const { return rows / panelRows * groupsK * 128 + 64; }
  /// Whether sums and what else a thread holds fit registers, which four warps are given together, in eights.
  bool fitsRegisters(const ir::Target &target) const {
    return columns / 2 + 72 <= target.registersPerSm / llvm::alignTo(threads(), 128) / 8 * 8;
  }
  int64_t stageBytes() const { return (rows + columns) * lineBytes; }
  int64_t partsOffset() const { return stages * stageBytes(); }
  int64_t barriersOffset() const { return partsOffset() + groupsK * columns * rows * 4; }
  int64_t warps() const { return rows / panelRows * groupsK * 4; }
  int64_t linksOffset() const { return barriersOffset() + stages * 16; }
  int64_t sharedBytes(size_t links, int64_t buffers) const {
    return linksOffset() + static_cast<int64_t>(links) * (4 + buffers) * 8;
  }
  /// Row blocks of a batch that clusters share, and all row blocks.
  int64_t rowBlocks(const ChainProblem &chain) const { return ceilDiv(chain.M, columns * cluster) * cluster; }
  /// What one row block of a link is in: tiles of a product, pieces of `rowsOfPart` rows.
  int64_t parts(const ChainProblem &chain, const Link &link, const ir::Target &target) const {
    return link.product ? ceilDiv(link.columns(), rows) : ceilDiv(columns, rowsOfPart(chain, target));
  }
  int64_t tiles(const ChainProblem &chain, const Link &link, const ir::Target &target) const {
    return chain.batches * rowBlocks(chain) * parts(chain, link, target);
  }
  /// Rows that a block takes at a time, a warp each: as few as give every block some.
  int64_t rowsOfPart(const ChainProblem &chain, const ir::Target &target) const {
    return std::clamp<int64_t>(ceilDiv(chain.batches * rowBlocks(chain) * columns, target.multiprocessors), 1,
                               std::min(warps(), columns));
  }
  /// Blocks that are on the device together.
  int64_t blocks(const ChainProblem &chain, const ir::Target &target) const {
    int64_t most = 0;
    for (const Link &link : chain.links)
      most = std::max(most, tiles(chain, link, target));
    return std::min(most, clustersAtOnce(cluster, target) * cluster);
  }
};

/// Modelled microseconds: of each link the tiles that a block computes one after the other, by what L2, the tensor
/// cores or a warpgroup's own sums take, and the time until their results are in the next link's shared memory.
double estimate(const Region &region, const ChainProblem &chain, const TileConfig &config, const ir::Target &target) {
  // A tile's result to those who wait for it, and rows with theirs: first trials took 2.4 us. Rather too much until it
  // is measured here: chains are chosen where launches surely take longer.
  constexpr double exchangeUs = 2.8, rowsUs = 4;
  const Shape shape(config);
  const auto blocks = static_cast<double>(shape.blocks(chain, target));
  const auto rows = static_cast<double>(shape.rows), columns = static_cast<double>(shape.columns);
  const double narrow = std::min(1.0, 0.387 + columns / 141); // As in MatmulSm90Split.cpp.
  const double rate = target.halfFlopsPerUs * 0.736 * narrow / target.multiprocessors;
  double us = target.launchUs + 2;
  for (const Link &link : chain.links) {
    if (!link.product) {
      us += rowsUs * std::ceil(static_cast<double>(shape.tiles(chain, link, target)) / blocks);
      continue;
    }
    const auto tiles = static_cast<double>(shape.tiles(chain, link, target));
    const auto lines = static_cast<double>(ceilDiv(link.product->K, 64));
    const double ownUs = lines * (0.093 + 0.0006 * columns) / static_cast<double>(shape.groupsK);
    const double mathUs = 2 * rows * columns * lines * 64 / rate;
    const double bytes = (rows / static_cast<double>(shape.cluster) + columns) * lineBytes * lines;
    const double l2Us = bytes * std::min(tiles, blocks) / (target.memoryBytesPerUs * 1.45);
    us += std::ceil(tiles / blocks) * std::max({ownUs, mathUs, l2Us}) + exchangeUs;
  }
  return std::max(us, target.launchUs + (region.bytesRead + region.bytesWritten) / (0.89 * target.memoryBytesPerUs));
}

//===- Source --------------------------------------------------------------------------------===//

class ChainKernel {
public:
  ChainKernel(const Region &region, const ChainProblem &chain, const TileConfig &config, const ir::Target &target)
      : region(region), chain(chain), config(config), target(target), shape(config) {}

  Result<KernelPlan> plan() {
    LinearGraph buffersAlone;
    buffersAlone.graph = region.graph;
    plan_ = planOf(region, buffersAlone, target);
    placeFlags();
    placeResults();
    writeHead(writer, region, config, target, "chain.cuh");
    writeConfig();
    for (size_t link = 0; link < chain.links.size(); ++link)
      addKind(link);
    writeLinks();
    writeEntry();
    addLaunch();
    plan_.source = writer.take();
    return std::move(plan_);
  }

private:
  /// Links that differ only in what they read and write.
  struct Kind {
    std::string name;
    std::vector<std::string> buffers; ///< That its epilogue takes, by the link's names.
  };

  /// Where a result is: an output of the plan, or bytes of the workspace.
  struct Place {
    int output = -1;
    uint64_t offset = 0;
  };

  //===- Memory ------------------------------------------------------------------------------===//

  int64_t flagCount(const Link &link) const { return shape.tiles(chain, link, target); }
  void placeFlags() {
    for (const Link &link : chain.links) {
      flagsOf.push_back(totalFlags);
      totalFlags += flagCount(link);
    }
    totalFlags -= flagCount(chain.links.back()); // Nobody waits for the last.
    plan_.zeroedBytes = llvm::alignTo(flagsOffset + totalFlags * 4, zeroedGranule);
    plan_.workspaceBytes = plan_.zeroedBytes;
  }

  /// The last link that reads a result.
  int lastReader(int link, unsigned result) const {
    int last = link;
    for (auto [number, reader] : llvm::enumerate(chain.links))
      for (const ChainLink::Source &source : reader.from.inputs)
        if (source.link == link && source.index == result)
          last = static_cast<int>(number);
    return last;
  }

  /// Results between links share memory. A block writes a tile once all tiles of the same rows of the link before are
  /// done, so that what that one read and earlier ones may be overwritten, by a result with rows of as many bytes.
  void placeResults() {
    struct Slot {
      uint64_t offset;
      int64_t rowBytes;
      int lastReader;
    };
    std::vector<Slot> slots;
    for (auto [number, link] : llvm::enumerate(chain.links)) {
      places.emplace_back();
      for (auto [result, output] : llvm::enumerate(link.from.region.graph.outputs)) {
        const int asOutput = link.from.outputs[result], reader = lastReader(static_cast<int>(number), result);
        if (asOutput >= 0) {
          places.back().push_back({asOutput, 0});
          continue;
        }
        const int64_t rowBytes = link.columns() * static_cast<int64_t>(byteWidth(output.type));
        auto slot = llvm::find_if(slots, [&](const Slot &slot) {
          return slot.rowBytes == rowBytes && slot.lastReader < static_cast<int>(number);
        });
        if (slot == slots.end()) {
          slot = slots.insert(slots.end(), {plan_.workspaceBytes, rowBytes, reader});
          plan_.workspaceBytes += llvm::alignTo(rowBytes * link.rowCount, 1024);
        }
        slot->lastReader = reader;
        places.back().push_back({-1, slot->offset});
      }
    }
  }

  /// The text of an input's or result's address.
  std::string textOf(const Place &place) {
    return place.output >= 0 ? buffer(plan_.inputs.size() + place.output)
                             : "workspace + " + std::to_string(place.offset);
  }
  std::string textOf(const ChainLink::Source &source) {
    return source.isResult() ? textOf(places[source.link][source.index]) : buffer(source.index);
  }
  /// A buffer of the plan, which becomes a parameter.
  std::string buffer(size_t number) {
    if (!llvm::is_contained(buffers, number))
      buffers.push_back(number);
    return "buffer" + std::to_string(number);
  }

  /// The number of a tensor map, each once.
  size_t mapOf(const ChainLink::Source &source, const TmaOperand &operand, DType type, int64_t rows) {
    TensorMapRecipe recipe = operand.recipe(type, rows);
    if (!source.isResult()) {
      recipe.buffer = source.index;
    } else if (const Place &place = places[source.link][source.index]; place.output >= 0) {
      recipe.buffer = plan_.inputs.size() + place.output;
    } else {
      recipe.buffer = 0;
      recipe.inWorkspace = true;
      recipe.offsetBytes += place.offset;
    }
    auto found = llvm::find(plan_.tensorMaps, recipe);
    if (found == plan_.tensorMaps.end())
      found = plan_.tensorMaps.insert(found, recipe);
    return found - plan_.tensorMaps.begin();
  }

  //===- Text --------------------------------------------------------------------------------===//

  void addKind(size_t number) {
    const Link &link = chain.links[number], *before = number > 0 ? &chain.links[number - 1] : nullptr;
    std::string key = link.from.region.text;
    for (auto [source, isFixed] : llvm::zip_equal(link.from.inputs, link.from.region.isFixed))
      key += source.isResult() ? "r" : isFixed ? "f" : "v"; // What another link writes is waited for.
    key +=
        !before ? "" : " after " + std::to_string(shape.parts(chain, *before, target)) + (before->product ? "p" : "r");
    auto [found, isNew] = kinds.try_emplace(key);
    kindOf.push_back(&found->second);
    if (!isNew)
      return;
    Kind &kind = found->second;
    kind.name = "kind" + std::to_string(kinds.size() - 1);
    writer.line("/// " + link.from.region.ops);
    writer.open("namespace " + kind.name);
    if (link.product)
      writeProductKind(link, kind);
    else
      writeRowKind(link, kind);
    writer.open("struct Link");
    writer.line(Twine("static constexpr bool isProduct = ") + (link.product ? "true;" : "false;"));
    writer.line("static constexpr int parts = " + Twine(shape.parts(chain, link, target)) +
                ", awaitedParts = " + Twine(before ? shape.parts(chain, *before, target) : 0) + ";");
    auto isResult = [&](const std::string &name) {
      return StringRef(name).starts_with("in") && link.from.inputs[numberOf(name)].isResult();
    };
    writer.line(Twine("static constexpr bool awaitsTiles = ") + (before && before->product ? "true" : "false") +
                ", readsResults = " + (llvm::any_of(kind.buffers, isResult) ? "true;" : "false;"));
    writer.line("using Body = " + kind.name + "::Body;");
    if (link.product) {
      writer.line("using Index = ::Index;");
      for (const char *type : {"Weights", "Tokens", "Product"})
        writer.line("using " + Twine(type) + " = " + kind.name + "::" + type + ";");
      writer.line("static constexpr int N = " + Twine(link.product->N) + ", K = " + Twine(link.product->K) + ";");
    }
    writer.open("static __device__ __forceinline__ Body body(const void *const *buffers)");
    SmallVector<std::string> values;
    for (auto [i, name] : llvm::enumerate(kind.buffers))
      values.push_back("(" + typeOf(link, name) + ")buffers[" + std::to_string(i) + "]");
    writer.line("return {" + llvm::join(values, ", ") + "};");
    writer.close();
    writer.close(";");
    writer.close(" // namespace " + kind.name);
    writer.line();
  }

  void writeProductKind(const Link &link, Kind &kind) {
    MatmulPrinter printer(link.from.region, *link.product, config, target, epilogueVector);
    const TmaSide weights{link.weights}, tokens{link.tokens};
    const DType type = link.product->elementType(0);
    writeTmaSide(printer, weights, "Weights");
    writeTmaSide(printer, tokens, "Tokens");
    cuda::writeProduct(printer.out(), type, type, shape.columns, weights, tokens);
    printer.writeEpilogue();
    printer.out().line("using Body = Epilogue;");
    writeLines(printer.out().take());
    SmallVector<StringRef> names;
    const std::string list = printer.epilogueBuffers();
    StringRef(list).split(names, ", ");
    for (StringRef name : names)
      kind.buffers.push_back(name.str());
  }

  /// A warp takes a row; short ones stay in its registers.
  void writeRowKind(const Link &link, Kind &kind) {
    const LinearGraph &graph = *link.rows;
    constexpr int64_t threads = 32, longest = 1024;
    int64_t vector = 8;
    while (vector > 1 && link.columns() % vector != 0)
      vector /= 2;
    const RowStorage storage = link.columns() <= longest ? RowStorage::Registers : RowStorage::Reload;
    const RowPasses passes(graph);
    SmallVector<std::string> dims;
    for (size_t dim = 0; dim < graph.extents().size(); ++dim)
      dims.push_back("d" + std::to_string(dim));
    RowPrinter printer(graph, passes, storage, vector, "Config", dims, writer);
    printer.writeConfig(threads, shape.warps(), 1, link.rowCount);
    writer.open("struct Body");
    std::vector<ir::Scalar> values;
    for (const ir::ScalarOutput &output : graph.graph.outputs)
      values.push_back(output.value);
    for (unsigned input : inputsRead(graph, values))
      kind.buffers.push_back("in" + std::to_string(input));
    for (size_t output = 0; output < graph.graph.outputs.size(); ++output)
      kind.buffers.push_back("out" + std::to_string(output));
    for (const std::string &name : kind.buffers)
      writer.line(typeOf(link, name) + name + ";");
    writer.open("__device__ __forceinline__ void finish(Index index) const");
    writer.line("Row<Config> row;");
    writer.line("row.first = row.index = index, row.valid = true;");
    writer.line(splitText("index", graph.extents().drop_back(), ArrayRef(dims).drop_back()));
    ValuePrinter scope(graph, writer, dims);
    printer.writeCache(scope);
    for (size_t pass = 0; pass < passes.reductions.size(); ++pass)
      printer.writeReductions(scope, pass);
    printer.writeElements(scope, [&](const ValuePrinter &inner) {
      for (unsigned output : passes.elementOutputs)
        printer.chunks().store(inner, output);
    });
    writer.close();
    writer.close(";");
  }

  void writeLines(StringRef text) {
    while (!text.empty()) {
      auto [line, rest] = text.split('\n');
      writer.line(line);
      text = rest;
    }
  }

  /// What an epilogue calls "in2" or "out0": its input or result of that number.
  static unsigned numberOf(StringRef name) {
    unsigned number = 0;
    name.drop_while([](char c) { return !llvm::isDigit(c); }).getAsInteger(10, number);
    return number;
  }
  static std::string typeOf(const Link &link, StringRef name) {
    const ir::ScalarGraph &graph = link.from.region.graph;
    const bool isInput = name.starts_with("in");
    DType type = isInput ? graph.inputs[numberOf(name)].type : graph.outputs[numberOf(name)].type;
    return (isInput ? "const " : "") + storedType(type).str() + " *";
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
                ", " + number("cluster", shape.cluster) + ", " + number("epilogueVector", epilogueVector) + ", " +
                number("rowsOfPart", shape.rowsOfPart(chain, target)) + ";");
    writer.line("static constexpr int " + number("partsOffset", shape.partsOffset()) + ", " +
                number("barriersOffset", shape.barriersOffset()) + ", " + number("linksOffset", shape.linksOffset()) +
                ";");
    writer.close(";");
    writer.line();
  }

  void writeLinks() {
    bool areFixed =
        llvm::all_of(chain.links, [](const Link &link) { return !link.product || link.weights.matrix.isFixed; });
    writer.open("struct Links");
    writer.line("static constexpr int count = " + Twine(chain.links.size()) + ", buffers = " + Twine(buffersOf(chain)) +
                ", flags = " + Twine(totalFlags) + ";");
    writer.line(Twine("static constexpr bool weightsAreFixed = ") + (areFixed ? "true;" : "false;"));
    writer.open("template <class Role, class Chain> static __device__ __forceinline__ void visit(Chain &chain, int "
                "number)");
    auto run = [](const Kind &kind) { return "Role::template run<" + kind.name + "::Link>(chain, number);"; };
    if (kinds.size() > 1) {
      writer.open("switch (number)");
      for (auto [number, kind] : llvm::enumerate(kindOf))
        if (kind != kindOf.front())
          writer.line("case " + Twine(number) + ": return " + run(*kind));
      writer.close();
    }
    writer.line(run(*kindOf.front()));
    writer.close();
    writer.close(";");
    writer.line();
  }

  /// The body comes first: it finds the parameters.
  void writeEntry() {
    SourceWriter body;
    for (auto [number, link] : llvm::enumerate(chain.links)) {
      std::string maps = "nullptr, nullptr";
      if (link.product) {
        const DType type = link.product->elementType(0);
        const size_t weights = mapOf(link.from.inputs[link.weights.matrix.input], link.weights, type, shape.rows),
                     tokens = mapOf(link.from.inputs[link.tokensInput()], link.tokens, type, shape.columns);
        maps = "&map" + std::to_string(weights) + ", &map" + std::to_string(tokens);
      }
      auto flags = [&](int64_t of) { return "flags + " + std::to_string(flagsOf[of]); };
      const bool isLast = number + 1 == chain.links.size();
      SmallVector<std::string> values;
      for (StringRef name : kindOf[number]->buffers)
        values.push_back(name.starts_with("in") ? textOf(link.from.inputs[numberOf(name)])
                                                : textOf(places[number][numberOf(name)]));
      body.line("if (threadIdx.x == " + Twine(number) + ") links[" + Twine(number) + "] = {" + maps + ", " +
                (isLast ? "nullptr" : flags(number)) + ", " + (number == 0 ? "nullptr" : flags(number - 1)) + ", {" +
                llvm::join(values, ", ") + "}};");
    }
    std::string parameters;
    for (size_t map = 0; map < plan_.tensorMaps.size(); ++map)
      parameters += "const __grid_constant__ TensorMap map" + std::to_string(map) + ", ";
    for (size_t number : buffers)
      parameters +=
          (number < plan_.inputs.size() ? "const void *buffer" : "void *buffer") + std::to_string(number) + ", ";
    writer.open("extern \"C\" __global__ void __launch_bounds__(Config::threads) " + entryName(region) + "(" +
                parameters + "unsigned char *workspace)");
    writer.line("unsigned *left = (unsigned *)workspace, *flags = (unsigned *)(workspace + " + Twine(flagsOffset) +
                ");");
    writer.line("auto *links = Chain<Config, Links>::links();");
    writeLines(body.take());
    writer.line("Chain<Config, Links> chain;");
    writer.line("runChain(chain, flags, left);");
    writer.close();
  }

  void addLaunch() {
    Launch launch = launchOf(plan_, entryName(region), target);
    launch.args.clear();
    for (uint64_t map = 0; map < plan_.tensorMaps.size(); ++map)
      launch.args.push_back({KernelArg::Kind::TensorMap, map});
    for (size_t number : buffers)
      launch.args.push_back({KernelArg::Kind::Buffer, number});
    launch.args.push_back({KernelArg::Kind::Workspace, 0});
    launch.grid = {static_cast<uint32_t>(shape.blocks(chain, target)), 1, 1};
    launch.block[0] = static_cast<uint32_t>(shape.threads());
    launch.cluster = {static_cast<uint32_t>(shape.cluster), 1, 1};
    launch.sharedBytes = static_cast<uint32_t>(shape.sharedBytes(chain.links.size(), buffersOf(chain)));
    launch.cooperative = true;
    launch.dependentLaunch = false;
    plan_.launches = {launch};
  }

  const Region &region;
  const ChainProblem &chain;
  const TileConfig &config;
  const ir::Target &target;
  const Shape shape;
  KernelPlan plan_;
  SourceWriter writer;
  std::vector<int64_t> flagsOf;
  int64_t totalFlags = 0;
  std::vector<std::vector<Place>> places; ///< Of each link's results.
  std::vector<size_t> buffers;            ///< Of the plan, in the order of the entry's parameters.
  std::map<std::string, Kind> kinds;
  std::vector<const Kind *> kindOf;
};

class ChainTemplate : public KernelTemplate {
public:
  std::string_view name() const override { return "cuda.chain"; }

  ir::FusionDecision match(const Region &region, const ir::Target &target) const override {
    Result<ChainProblem> chain = chainProblem(region, target);
    if (!chain)
      return ir::FusionDecision::no(chain.error().message);
    // A map of each weight, three of what is between them, and at most three addresses a link.
    const auto links = static_cast<int64_t>(chain->links.size());
    if ((links + 3) * mapBytes + links * 24 > parameterBytes)
      return ir::FusionDecision::no(std::to_string(links) + " links, more than parameters fit a kernel");
    return ir::FusionDecision::yes();
  }

  std::vector<TileConfig> candidates(const Region &region, const ir::Target &target) const override {
    const ChainProblem chain = *chainProblem(region, target);
    std::vector<std::pair<double, TileConfig>> ranked;
    for (int64_t m : {16, 32, 64, 88, 96, 128})
      for (int64_t n : {64, 128})
        for (int64_t groupsK : {1, 2, 4})
          for (int64_t cluster : {1, 2, 4}) {
            TileConfig config{
                {"m", m}, {"n", n}, {"k", 64}, {"groups_k", groupsK}, {"cluster", cluster}, {"stages", mostStages}};
            auto isTooBig = [&] {
              return Shape(config).sharedBytes(chain.links.size(), buffersOf(chain)) > target.sharedBytesPerBlock;
            };
            while (config["stages"] > 3 && (isTooBig() || config["stages"] % groupsK != 0))
              config = config.with("stages", config["stages"] - 1);
            const Shape shape(config);
            const bool isTooTall = m >= 2 * chain.M && m > 16;
            const bool isShared = cluster == 1 || shape.columns * cluster < 2 * chain.M;
            if (config["stages"] < std::max<int64_t>(4, 2 * groupsK) || isTooTall || !isShared ||
                !shape.fitsRegisters(target) || n >= 2 * chain.mostColumns())
              continue;
            ranked.emplace_back(estimate(region, chain, config, target), config);
          }
    return fastest(std::move(ranked), mostCandidates);
  }
  double estimateUs(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    return estimate(region, *chainProblem(region, target), config, target);
  }
  Result<KernelPlan> emit(const Region &region, const TileConfig &config, const ir::Target &target) const override {
    const ChainProblem chain = *chainProblem(region, target);
    return ChainKernel(region, chain, config, target).plan();
  }
};

} // namespace

const KernelTemplate &chainTemplate() {
  static const ChainTemplate instance;
  return instance;
}

} // namespace kfuse::codegen::cuda
