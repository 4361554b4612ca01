#include "codegen/cuda/chain/ChainShape.h"
#include "codegen/cuda/text/Clusters.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

namespace kfuse::codegen::cuda {

static constexpr int64_t lineBytes = 128;

/// An SM's registers have to hold the accumulators of a block's threads and, for each thread, 80 more: what is loaded
/// ahead for the epilogue, addresses, barriers. What of that spills, the search refuses; but fusion forms a chain by
/// the estimate of its best config, which no config that spills would keep.
bool ChainShape::fitsRegisters(const ir::Target &target) const {
  constexpr int64_t besideAccumulators = 80;
  const uint64_t ofThread = llvm::alignTo(columns / 2 + besideAccumulators, 8);
  return ofThread * llvm::alignTo(threads(), 128) <= static_cast<uint64_t>(target.registersPerSm);
}

int64_t ChainShape::stageBytes() const { return (rows + columns) * lineBytes; }

int64_t ChainShape::exchangeOffset(const ChainProblem &chain) const {
  return layersOffset() + static_cast<int64_t>(chain.layers.size()) * (2 + chain.buffers()) * 8;
}

int64_t ChainShape::sharedBytes(const ChainProblem &chain) const {
  // For each warp two slots and their barriers: of each row a float from every block, in pairs (RowExchange).
  const int64_t lanesOfRow = rows / chainEpilogueVector, ofLane = ceilDiv(columns * lanesOfRow, warps() * 32);
  const int64_t slotBytes = clusterColumns * ceilDiv(ofLane, 2) * (32 / lanesOfRow) * 8;
  return exchangeOffset(chain) + (chain.reductions() > 0 ? warps() * (2 * slotBytes + 16) : 0);
}

int64_t ChainShape::blocks(const ChainProblem &chain) const {
  return chain.batches * ceilDiv(chain.M, columns) * clusterColumns;
}

int64_t ChainShape::turns(const ChainProblem &chain, const ir::Target &target) const {
  return ceilDiv(blocks(chain), clustersAtOnce(clusterColumns, target) * clusterColumns);
}

namespace {

/// What the estimate knows of Hopper: fitted to 20 layers of 256 x 1024 x 1024 and to five such, on an H200 (commits
/// bae8f4c and d691234; the sweep was not kept), and with norms on an H100: 21 configs take 0.68 to 1.1 times as long
/// as estimated, the first one 0.86 (docs/experiments.md).
struct Coefficients {
  double startUs = 2;        ///< A chain's start.
  double exchangeUs = 1.15;  ///< A result on its way to the blocks of its cluster.
  double elementUs = 0.025;  ///< The same for each element of a thread.
  double reductionUs = 0.6;  ///< A total to them and theirs here.
  double mathShare = 0.736;  ///< What is reached of the nominal rate.
  double kBlockUs = 0.155;   ///< A warpgroup's products of a K block.
  double columnUs = 0.0004;  ///< The same for each column.
  double memoryShare = 0.89; ///< What is reached of the nominal HBM bandwidth.
};
constexpr Coefficients hopper;

} // namespace

/// The sum over the layers of the time of the tile that a block computes, by what shared memory, the tensor cores or a
/// warpgroup's own products take, and the time until their results are in the next layer's shared memory.
double ChainShape::estimateUs(const ChainProblem &chain, const ir::Target &target) const {
  const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
  const double ofThread = height * width / static_cast<double>(warps() * 32);
  const double exchangeUs = hopper.exchangeUs + hopper.elementUs * ofThread;
  const auto waves = static_cast<double>(turns(chain, target));
  const double rate = target.halfFlopsPerUs * hopper.mathShare / target.multiprocessors;
  // 128 bytes in a clock, in which an SM has 256 operations of f32. TMA writes what wgmma reads: the rows' part once,
  // the columns' once for each 64 rows.
  const double sharedRate = target.f32FlopsPerUs / 2 / target.multiprocessors;
  const double sharedBytes = lineBytes * (height + width + height / 64 * (64 + width));
  double us = target.launchUs + hopper.startUs;
  for (const Layer &layer : chain.layers) {
    const auto lines = static_cast<double>(ceilDiv(layer.product.K, 64));
    const double ownUs = lines * (hopper.kBlockUs + hopper.columnUs * width) / static_cast<double>(groupsK);
    const double mathUs = 2 * height * width * lines * 64 / rate, sharedUs = lines * sharedBytes / sharedRate;
    us += waves * (std::max({ownUs, mathUs, sharedUs}) + exchangeUs +
                   hopper.reductionUs * static_cast<double>(layer.reductions));
  }
  return std::max(us, target.launchUs + chain.memoryBytes / (hopper.memoryShare * target.memoryBytesPerUs));
}

} // namespace kfuse::codegen::cuda
