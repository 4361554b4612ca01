// What a config of cuda.matmul_sm90_split makes of a product: its tile, what a stage holds of it, registers, shared
// memory, and the time that it should take.
#pragma once

#include "codegen/cuda/matmul/LowBitSide.h"
#include "codegen/cuda/matmul/Tma.h"

#include <optional>

namespace kfuse::codegen::cuda::sm90split {

constexpr int64_t lineBytes = 128;
constexpr int64_t producerThreads = 64; ///< The threads of a block that bring its operands.

/// A region's product, and its right operands where they are dequantised.
struct Problem : MatmulProblem {
  std::optional<LowBitSide> lowBits;

  Problem(const Region &region, MatmulProblem problem);

  /// Elements of K in a stage.
  int64_t depth() const;
  /// What a stage has of one row or column of the operand of the left or the right side, in bytes.
  int64_t stageBytes(unsigned side) const;
  /// Bytes of the right operands.
  double weightBytes() const;
  /// Whether the operand is dense along K.
  bool isAlongK(unsigned side) const;
};

/// The config's tile as the instruction sees it, with the columns of all products.
struct Shape {
  int64_t rows, columns; ///< Those of one product.
  int64_t tileRows, tileColumns;
  int64_t clusterRows, clusterColumns; ///< Blocks that share operands.
  int64_t rowBytes, columnBytes;       ///< What a stage has of a row and of a column.
  int64_t groupsK, stages;
  bool swapped, isLowBit;

  Shape(const Problem &problem, const TileConfig &config);
  Shape(const Problem &problem, int64_t m, int64_t n, int64_t clusterM, int64_t clusterN, int64_t groupsK,
        int64_t stages, bool swapped);

  bool isShared() const { return clusterRows * clusterColumns > 1; }
  int64_t threads() const { return tileRows / 64 * groupsK * 128 + producerThreads; }
  int64_t stageBytes() const { return tileRows * rowBytes + tileColumns * columnBytes; }
  /// The ring of tiles; the partial sums lie in the same memory (device/matmul/gemm_sm90_split.cuh).
  int64_t ringBytes() const;
  int64_t sharedBytes() const { return ringBytes() + stages * 16; }
  /// What addresses, descriptors and counters take beside the accumulators, and rows that are computed in registers.
  int64_t registersBeside(int64_t plain) const { return plain + (isLowBit ? 44 : 0); }
  int64_t blocksPerSm(const ir::Target &target) const;
};

/// The most stages, at most the shape's, that fit in shared memory with `blocks` blocks on an SM, and that each of the
/// `blocksK` blocks which share the `stagesK` stages of K can fill. None where these are too few to pipeline, or where
/// registers or threads do not suffice.
std::optional<int64_t> stagesFor(Shape shape, int64_t stagesK, int64_t blocksK, int64_t blocks,
                                 const ir::Target &target);

/// Blocks of a cluster.
int64_t clusterBlocks(const TileConfig &config);
/// Whole clusters of blocks, those past the edge included.
int64_t blocksOf(const MatmulProblem &problem, int64_t m, int64_t n, int64_t clusterM, int64_t clusterN,
                 int64_t blocksK);
int64_t blocksOf(const MatmulProblem &problem, const TileConfig &config);

/// Whether lanes store their own accumulators, neighbours of 4: blocks that finish tiles of rows alone, with an
/// epilogue that reads the same for all of them.
bool storesOwnRows(const MatmulProblem &problem, const TileConfig &config);

/// Blocks that are launched side by side though they share nothing by multicast: two that read the same weights, on the
/// two SMs that share a path to the L2. It saves 6 us of the 139 of 20 layers of five times 256 x 1024 x 1024 in tiles
/// of 128 x 80; sharing by multicast takes 10 us more.
int64_t neighboursOf(const MatmulProblem &problem, const TileConfig &config, const ir::Target &target);

/// Modelled microseconds.
double estimate(const Region &region, const Problem &problem, const TileConfig &config, const ir::Target &target);

} // namespace kfuse::codegen::cuda::sm90split
