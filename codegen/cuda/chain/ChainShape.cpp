#include "codegen/cuda/chain/ChainShape.h"
#include "codegen/cuda/text/Clusters.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

namespace kfuse::codegen::cuda {

static constexpr int64_t lineBytes = 128;

bool ChainShape::fitsRegisters(const ir::Target &target) const {
  const uint64_t ofThread = llvm::alignTo(columns / 2 + 80, 8);
  return ofThread * llvm::alignTo(threads(), 128) <= static_cast<uint64_t>(target.registersPerSm);
}

int64_t ChainShape::stageBytes() const { return (rows + columns) * lineBytes; }

int64_t ChainShape::sharedBytes(const ChainProblem &chain) const {
  return linksOffset() + static_cast<int64_t>(chain.links.size()) * (4 + chain.buffers()) * 8;
}

int64_t ChainShape::rowBlocks(const ChainProblem &chain) const {
  return ceilDiv(chain.M, columns * clusterRows) * clusterRows;
}

int64_t ChainShape::parts(const ChainProblem &chain, const Link &link, const ir::Target &target) const {
  return link.product ? ceilDiv(link.columns(), rows) : ceilDiv(columns, rowsOfPart(chain, target));
}

int64_t ChainShape::tiles(const ChainProblem &chain, const Link &link, const ir::Target &target) const {
  return chain.batches * rowBlocks(chain) * parts(chain, link, target);
}

int64_t ChainShape::rowsOfPart(const ChainProblem &chain, const ir::Target &target) const {
  return std::clamp<int64_t>(ceilDiv(chain.batches * rowBlocks(chain) * columns, target.multiprocessors), 1,
                             std::min(warps(), columns));
}

int64_t ChainShape::blocks(const ChainProblem &chain, const ir::Target &target) const {
  if (holdsRows())
    return chain.batches * rowBlocks(chain) * clusterColumns;
  int64_t most = 0;
  for (const Link &link : chain.links)
    most = std::max(most, tiles(chain, link, target));
  return std::min(most, clustersAtOnce(clusterRows, target) * clusterRows);
}

int64_t ChainShape::mostTurns(const ChainProblem &chain, const ir::Target &target) const {
  const int64_t cluster = clusterRows * clusterColumns, atOnce = clustersAtOnce(cluster, target) * cluster;
  int64_t most = ceilDiv(blocks(chain, target), atOnce);
  for (const Link &link : chain.links)
    if (!holdsRows())
      most = std::max(most, ceilDiv(tiles(chain, link, target), atOnce));
  return most;
}

/// Of each link the tiles that a block computes one after the other, by what shared memory, the tensor cores or a
/// warpgroup's own sums take, and the time until their results are in the next link's shared memory. Constants are of
/// 20 layers of 256 x 1024 x 1024 and of five such, on an H200.
double ChainShape::estimateUs(const ChainProblem &chain, const ir::Target &target) const {
  const auto height = static_cast<double>(rows), width = static_cast<double>(columns);
  const double ofThread = height * width / static_cast<double>(warps() * 32);
  // A result to the blocks of its cluster, or to those who wait for its flag; and rows with theirs, a guess.
  const double exchangeUs = holdsRows() ? 1.15 + 0.025 * ofThread : 2.2 + 0.065 * ofThread, rowsUs = 4;
  const int64_t cluster = clusterRows * clusterColumns;
  const auto atOnce = static_cast<double>(std::min(blocks(chain, target), clustersAtOnce(cluster, target) * cluster));
  const double waves = std::ceil(static_cast<double>(blocks(chain, target)) / atOnce);
  const double rate = target.halfFlopsPerUs * 0.736 / target.multiprocessors;
  // A clock's 128 bytes, of which TMA writes what wgmma reads: the rows' part once, the columns' once for each 64 rows.
  const double sharedRate = target.memoryBytesPerUs * 7 / target.multiprocessors;
  const double sharedBytes = lineBytes * (height + width + height / 64 * (64 + width));
  double us = target.launchUs + 2;
  for (const Link &link : chain.links) {
    const double turns = holdsRows() ? 1 : std::ceil(static_cast<double>(tiles(chain, link, target)) / atOnce);
    if (!link.product) {
      us += turns * rowsUs;
      continue;
    }
    const auto lines = static_cast<double>(ceilDiv(link.product->K, 64));
    const double ownUs = lines * (0.155 + 0.0004 * width) / static_cast<double>(groupsK);
    const double mathUs = 2 * height * width * lines * 64 / rate, sharedUs = lines * sharedBytes / sharedRate;
    us += waves * (turns * std::max({ownUs, mathUs, sharedUs}) + exchangeUs);
  }
  return std::max(us, target.launchUs + chain.memoryBytes / (0.89 * target.memoryBytesPerUs));
}

} // namespace kfuse::codegen::cuda
