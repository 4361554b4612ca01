// What a config makes of a flash attention: shared memory, registers, and the time that it should take.
#pragma once

#include "codegen/cuda/attention/FlashProblem.h"

namespace kfuse::codegen::cuda {

/// Each block has `rows` query rows, of which each warp has its own, and takes `keys` at a time, through mma.sync
/// (device/attention/flash_attention.cuh), wgmma (flash_sm90.cuh) or in f32 (flash_scalar.cuh).
struct FlashShape {
  int64_t rows, warps; ///< Rows of a block, and the warps that multiply them.
  int64_t keys;        ///< Keys of a tile.
  int64_t stages;      ///< Tiles of the ring that copies fill.
  bool isWgmma, pingPong, isScalar;
  int64_t resident;  ///< Blocks that share a multiprocessor, of wgmma.
  int64_t splits;    ///< Blocks that a tile's keys are split over, of mma.sync.
  int64_t sharers;   ///< Blocks of neighbouring heads that share the tiles of a mask, of wgmma.
  int64_t batches;   ///< Heads that a block takes one behind the other, where a tile holds all rows and all keys.
  bool isPersistent; ///< A block for each multiprocessor takes rows as long as there are some.

  explicit FlashShape(const TileConfig &config)
      : rows(config["rows"]), warps(config["warps"]), keys(config["keys"]), stages(config["stages"]),
        isWgmma(config.valueOr("wgmma", 0) != 0), pingPong(config.valueOr("pingpong", 0) != 0),
        isScalar(config.valueOr("scalar", 0) != 0), resident(config.valueOr("resident", 1)),
        splits(config.valueOr("splits", 1)), sharers(config.valueOr("sharers", 1)),
        batches(config.valueOr("batches", 1)), isPersistent(config.valueOr("persistent", 0) != 0) {}

  /// With the producer's warpgroup.
  int64_t threads() const { return warps * 32 + (isWgmma ? 128 : 0); }
  int64_t sharedBytes(const FlashProblem &p) const;
  /// Whether a warp has registers for its queries; else it reads them from shared memory for each tile.
  bool holdsQuery(const FlashProblem &p) const;
  /// Registers of a thread that hold accumulators and queries: what a config needs whatever the compiler makes of it.
  int64_t heldRegisters(const FlashProblem &p) const;
  /// What a thread loads at a time, into registers, where it computes queries: nothing else is in them yet.
  int64_t queryOperandBytes() const;
  int64_t blocksPerSm(const FlashProblem &p, const ir::Target &target) const;
  bool fits(const FlashProblem &p, const ir::Target &target) const;

  /// Tiles of rows, over all heads.
  int64_t blocks(const FlashProblem &p) const;
  /// What the launch has of these, where each takes one tile of rows, or several heads.
  int64_t gridBlocks(const FlashProblem &p) const;
  /// What a block whose keys are split leaves for the others: FlashRows::heldFloats of each thread.
  int64_t partialBytes(const FlashProblem &p) const;
  /// Tiles of keys that the block of the rows from `row` on takes.
  int64_t tilesOf(const FlashProblem &p, int64_t row) const;
  /// Batches whose blocks take turns: as many as have keys and values that the last-level cache holds, where some
  /// blocks have more work than others, more tiles or more rows.
  int64_t together(const FlashProblem &p, const ir::Target &target) const;

  /// Modelled microseconds.
  double estimateUs(const Region &region, const FlashProblem &p, const ir::Target &target) const;

private:
  struct WgmmaTerms;
  WgmmaTerms wgmmaTerms() const;
  int64_t heldWithoutQuery(const FlashProblem &p) const;
  int64_t queryRegisters(const FlashProblem &p) const;
  double estimateWgmmaUs(const Region &region, const FlashProblem &p, const ir::Target &target, double weightsUs) const;
  double estimateScalarUs(const Region &region, const FlashProblem &p, const ir::Target &target, double vectorUs) const;
  double gatherUs(const FlashProblem &p, const ir::Target &target) const;
  double queryUs(const FlashProblem &p, const ir::Target &target) const;
  double startsUs(const FlashProblem &p, const ir::Target &target, double resident) const;
  double totalUs(const Region &region, const FlashProblem &p, const ir::Target &target, double tileUs, double resident,
                 double startsUs) const;
};

} // namespace kfuse::codegen::cuda
