#include "codegen/cuda/rows/RowShape.h"

#include "codegen/cuda/cost/Estimates.h"
#include "codegen/cuda/text/Kernel.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace kfuse::codegen::cuda {

using ir::Scalar;
using ir::ScalarNode;

namespace {

/// What a thread takes for a row.
int64_t chunksOf(const LinearGraph &graph, const TileConfig &config) {
  return ceilDiv(graph.extents().back(), config["cluster"] * config["threads"] * config["vector"]);
}

} // namespace

RowWork::RowWork(const LinearGraph &graph, const RowPasses &passes) : tile(graph) {
  const unsigned columnDim = graph.graph.domain.reductionDim;
  const ChunkPrinter chunk(graph, columnDim, 1);
  for (RowStorage storage : {RowStorage::Registers, RowStorage::Shared, RowStorage::Reload, RowStorage::Stream})
    loads.try_emplace(storage, graph, passes, chunk, storage);
  for (size_t pass = 0; pass < passes.count(); ++pass)
    instructions +=
        1 + instructionsOf(graph, passes.roots(graph, pass), [&](Scalar s) { return !graph.dependsOn(s, columnDim); });
}

RowResources::RowResources(const LinearGraph &graph, const RowPasses &passes, const RowWork &work,
                           const TileConfig &config, const ir::Target &target) {
  const RowLoads &loads = work.loadsOf(config);
  int64_t vector = config["vector"], block = config["threads"] * config["rows"];
  int64_t chunks = chunksOf(graph, config);
  ChunkPrinter chunk(graph, graph.graph.domain.reductionDim, vector);
  auto storage = storageOf(config);
  double inFlight = 0;
  for (const std::vector<Scalar> &own : loads.own)
    inFlight =
        std::max(inFlight, static_cast<double>(own.size() * vector * std::min(chunks, RowPrinter::chunksInFlight)));
  double accumulators = 0;
  for (const std::vector<Scalar> &reductions : passes.reductions)
    accumulators = std::max(accumulators, static_cast<double>(reductions.size() * vector));
  // Kept elements stay decoded: ptxas would rather hold a float than convert it again.
  double kept = storage == RowStorage::Registers ? static_cast<double>(loads.kept.size() * vector * chunks) : 0;
  registers = 32 + kept + inFlight + accumulators;
  if (storage == RowStorage::Stream) { // Its loops keep operands as they are stored: 32 to 54 registers.
    double packed = 0;
    for (const std::vector<Scalar> &own : loads.own) {
      const int64_t words = chunk.bytesOf(own) / 4 * std::min(chunks, RowPrinter::chunksInFlight);
      packed = std::max(packed, static_cast<double>(words));
    }
    registers = 32 + std::max(packed, accumulators);
  }
  if (storage == RowStorage::Shared || storage == RowStorage::Stream)
    sharedBytes = (storage == RowStorage::Stream ? 2 : 1) * block * chunks * chunk.bytesOf(loads.kept);
  if (rowsEachOf(config) > 0)
    sharedBytes = work.tile.bytesOf(rowsOfBlock(config));
  blocksPerSm = target.threadsPerSm / block;
  blocksPerSm =
      std::min(blocksPerSm, static_cast<int64_t>(target.registersPerSm / (registers * static_cast<double>(block))));
  if (sharedBytes > 0)
    blocksPerSm = std::min(blocksPerSm, target.sharedBytesPerBlock / (sharedBytes + 1024));
}

int64_t RowResources::rowsAtOnce(const TileConfig &config, const ir::Target &target) const {
  // Clusters of 4 and more leave 12 of Hopper's 132 SMs unused: its groups of SMs are no multiples of them.
  int64_t usable = config["cluster"] > 2 ? target.multiprocessors * 10 / 11 : target.multiprocessors;
  return std::max<int64_t>(usable * blocksPerSm / config["cluster"], 1);
}

namespace {

/// What the estimate knows, beside streamingGridUs(), with which these were fitted to kernels of an H200 (commit
/// a15c9e7) where nothing else is said. The sweeps were not kept.
struct Coefficients {
  // Instructions of a thread.
  double perChunk = 1, perAccess = 2, fromShared = 12; ///< Beside those of the elements, for each pass over a chunk.
  double unalignedAccess = 2, line = 4; ///< By the order of 48 configs of layer_norm of 49 and 197 columns (10dddde).
  double ofTile = 60, ofPiece = 4, ofRow = 20, ofElement = 1, ofElementAgain = 4,
         ofConflict = 1; ///< Rows in tiles; fitted to 54 cases of 33 to 300 columns on an H100 (10dddde).
  // What a row waits for.
  double shuffleUs = 0.02, barrierUs = 0.05, warpUs = 0.03, clusterUs = 0.5; ///< Each stage of reductions.
  double batchUs = 0.36, rereadUs = 1; ///< Further chunks in flight; each pass that reads them again.
  double turnUs = 0.6;                 ///< A streamed row after the one before.
  // Bytes, as shares of those of rows that blocks load anew.
  double rereadFromL2 = 0.4; ///< What a pass that reads again takes where the rows under way fit half of the L2.
  /// Other blocks of a multiprocessor hide as much as streams do: these were 4 to 40 % slower (f231848).
  double streamed = 1.08;
  /// Two to four rows a block gain where a variance may need a second exchange: layer_norm of 2048 x 4096 took 10.4 us,
  /// else 11.3 (1c530ea).
  double streamedTwice = 0.9;
  /// Operands of more than 16 bytes: rows of 131072 took 722 to 794 us in vectors of eight, 537 to 621 in vectors of
  /// four (b5b4b28).
  double streamedWide = 1.35;
  /// Clusters that start anew for each row of 131072 took 2 to 15 % more than streams; pairs of blocks, and rows in
  /// registers, 30 to 45 % (b5b4b28).
  double clustered = 1.06, clusteredPair = 1.3, clusteredInRegisters = 1.4;
};
constexpr Coefficients h200;

/// What the accesses of a chunk to rows that begin anywhere take beyond one instruction each: so many more of fewer
/// elements, and the lines of 128 bytes that a warp touches with one, which L1 looks up one after the other, beyond
/// those that it would with its lanes side by side.
double unalignedInstructions(const LinearGraph &graph, const RowPasses &passes, const RowWork &work,
                             const TileConfig &config) {
  constexpr int64_t warp = 32, lineBytes = 128, leastBytes = 8; // Rows that vectors of these divide are aligned.
  const int64_t columns = graph.extents().back(), vector = config["vector"], threads = config["threads"];
  const ChunkPrinter chunk(graph, graph.graph.domain.reductionDim, vector);
  double instructions = 0;
  auto add = [&](int64_t alignment, DType type) {
    const auto bytes = static_cast<int64_t>(byteWidth(type));
    if (alignment == 0 || (alignment == vector && vector * bytes >= leastBytes))
      return;
    std::set<int64_t> lines;
    for (int64_t lane = 0; lane < warp; ++lane)
      lines.insert((lane / threads * columns + lane % threads * vector) * bytes / lineBytes);
    const auto further = static_cast<double>(lines.size() - ceilDiv(warp * alignment * bytes, lineBytes));
    const int64_t accesses = vector / alignment;
    instructions += static_cast<double>(accesses) * (h200.unalignedAccess + h200.line * further) - h200.unalignedAccess;
  };
  auto addLoads = [&](const std::vector<Scalar> &loads) {
    for (Scalar load : loads)
      add(chunk.vectorAlignment(load), graph.graph.inputs[graph[load].input].type);
  };
  addLoads(work.loadsOf(config).kept);
  for (const std::vector<Scalar> &own : work.loadsOf(config).own)
    addLoads(own);
  for (unsigned output : passes.elementOutputs)
    add(chunk.storeAlignment(output), graph.graph.outputs[output].type);
  return instructions;
}

/// Instructions of a thread for its part of a row.
double instructionsPerThread(const LinearGraph &graph, const RowPasses &passes, const RowWork &work,
                             const TileConfig &config) {
  RowStorage storage = storageOf(config);
  const RowLoads &loads = work.loadsOf(config);
  double accesses = static_cast<double>(loads.kept.size() + passes.elementOutputs.size());
  for (const std::vector<Scalar> &own : loads.own)
    accesses += static_cast<double>(own.size());
  bool isShared = storage == RowStorage::Shared || storage == RowStorage::Stream;
  double ofChunk = static_cast<double>(config["vector"]) * work.instructions + h200.perAccess * accesses +
                   static_cast<double>(passes.count()) * (h200.perChunk + (isShared ? h200.fromShared : 0));
  if (rowsEachOf(config) == 0)
    return static_cast<double>(chunksOf(graph, config)) *
           (ofChunk + unalignedInstructions(graph, passes, work, config));
  // Pieces of 16 bytes are brought and given; single elements come from shared memory, again in each pass where
  // registers do not keep them.
  const double turns = work.tile.bankTurns(config["threads"], config["vector"]) - 1;
  ofChunk += accesses * ((storage == RowStorage::Registers ? h200.ofElement : h200.ofElementAgain) - h200.perAccess +
                         h200.ofConflict * turns);
  const double each = static_cast<double>(chunksOf(graph, config)) * ofChunk + h200.ofRow;
  const double pieces = 2 * static_cast<double>(work.tile.bytesOf(rowsOfBlock(config))) /
                        static_cast<double>(16 * config["threads"] * config["rows"]);
  return h200.ofTile + pieces * h200.ofPiece + static_cast<double>(rowsEachOf(config)) * each;
}

/// What a row waits for beyond its first bytes.
double waitsUs(const LinearGraph &graph, const RowPasses &passes, const TileConfig &config) {
  double warps = static_cast<double>(config["threads"] * config["rows"]) / 32;
  double stageUs = h200.shuffleUs + (config["threads"] > 32 ? h200.barrierUs + h200.warpUs * warps : 0) +
                   (config["cluster"] > 1 ? h200.clusterUs : 0);
  double us = static_cast<double>(passes.reductions.size()) * stageUs;
  RowStorage storage = storageOf(config);
  if (rowsEachOf(config) > 0)
    return us * static_cast<double>(rowsEachOf(config)) + 2 * h200.barrierUs;
  if (storage == RowStorage::Shared || storage == RowStorage::Reload)
    us += static_cast<double>(ceilDiv(chunksOf(graph, config), RowPrinter::chunksInFlight) - 1) * h200.batchUs;
  if (storage == RowStorage::Reload)
    us += static_cast<double>(passes.count() - 1) * h200.rereadUs;
  return storage == RowStorage::Stream ? us + h200.turnUs : us;
}

} // namespace

double rowsUs(const Region &region, const LinearGraph &graph, const RowPasses &passes, const RowWork &work,
              const TileConfig &config, const ir::Target &target) {
  ChunkPrinter chunk(graph, graph.graph.domain.reductionDim, config["vector"]);
  RowResources resources(graph, passes, work, config, target);
  double rows = static_cast<double>(graph.graph.domain.points()) / static_cast<double>(graph.extents().back());

  StreamingGrid grid;
  grid.blocks = std::ceil(rows / static_cast<double>(rowsOfBlock(config))) * static_cast<double>(config["cluster"]);
  grid.threads = std::max(32.0, static_cast<double>(config["threads"] * config["rows"]));
  grid.blocksPerSm = static_cast<double>(std::max<int64_t>(1, resources.blocksPerSm));
  grid.instructions = instructionsPerThread(graph, passes, work, config);
  grid.waitsUs = waitsUs(graph, passes, config);
  grid.startsOnce = storageOf(config) == RowStorage::Stream;

  // Neighbouring lanes read neighbouring columns; of a strided row each lane would fetch 32 bytes.
  double waste = 1;
  for (const ScalarNode &node : graph.graph.nodes)
    if (node.kind == ScalarNode::Kind::Load)
      waste = std::max(waste, chunk.sectorWaste(node, config["rows"]));
  double onSms = std::min(grid.blocks, grid.blocksPerSm * target.multiprocessors) *
                 static_cast<double>(config["rows"]) / static_cast<double>(config["cluster"]);
  const bool isTiled = rowsEachOf(config) > 0;
  bool staysInL2 = onSms * region.bytesRead / rows < target.l2Bytes / 2;
  double rereads = storageOf(config) == RowStorage::Reload && !isTiled
                       ? static_cast<double>(passes.count() - 1) * (staysInL2 ? h200.rereadFromL2 : 1)
                       : 0;
  grid.bytes = region.bytesRead * waste * (1 + rereads) + region.bytesWritten;
  // With one row a block there is nothing to stream.
  const auto atOnce = static_cast<double>(resources.rowsAtOnce(config, target));
  if (grid.startsOnce && config["cluster"] == 1)
    grid.bytes *= !passes.spreads.empty() && rows > atOnce && rows <= 4 * atOnce ? h200.streamedTwice : h200.streamed;
  if (grid.startsOnce && chunk.bytesOf(work.loadsOf(config).kept) > 16)
    grid.bytes *= h200.streamedWide;
  if (!grid.startsOnce && config["cluster"] > 1)
    grid.bytes *= storageOf(config) == RowStorage::Registers ? h200.clusteredInRegisters
                  : config["cluster"] == 2                   ? h200.clusteredPair
                                                             : h200.clustered;
  return target.launchUs + streamingGridUs(grid, target);
}

} // namespace kfuse::codegen::cuda
