// Operands of a matrix product as TMA reads them.
#pragma once

#include "codegen/cuda/matmul/MatmulPrinter.h"
#include "codegen/cuda/text/TensorMaps.h"

namespace kfuse::codegen::cuda {

/// An operand as a tensor [batch, outer, contiguous] of which TMA brings boxes: one of k and the row (m or
/// n) is contiguous, the other has a stride, and the batch coordinate is any expression of the batch
/// dimensions, so that heads that share an operand cost nothing.
struct TmaOperand {
  MatrixOperand matrix;
  std::string refusal; ///< Why TMA cannot read it, or "".
  mlir::AffineExpr batch;
  std::uint64_t rows = 0, depth = 0, batches = 0; ///< Extents of the row, of k and of the batch coordinate.
  std::uint64_t strideBytes = 0, batchBytes = 0, offsetBytes = 0;
  bool isPermuted = false; ///< Whether TMA permutes its rows as it brings them (device/base/wgmma.cuh).

  static TmaOperand of(const MatmulProblem &problem, unsigned side, unsigned product = 0);

  /// The recipe for boxes of a line (128 bytes) along the contiguous dimension: `tileRows` of them,
  /// or a panel's 64 where that dimension is the rows. Permuted: two of every four rows.
  TensorMapRecipe recipe(DType type, std::int64_t tileRows) const;
  bool canBePermuted() const { return matrix.contiguousK && rows % 4 == 0; }
};

/// A tensor [batch, M, N] of 16 bits, dense along N, of which TMA moves boxes: what an epilogue writes or reads.
struct TmaMatrix {
  std::uint32_t buffer = 0;
  DType type = DType::BF16;
  mlir::AffineExpr batch;
  std::uint64_t M = 0, N = 0, batches = 0, strideBytes = 0, batchBytes = 0, offsetBytes = 0;

  /// The recipe for boxes of `columns` by `rows`; a warp holds 16.
  TensorMapRecipe recipe(std::uint32_t columns, std::uint32_t rows = 16) const;
};

/// A product's one result as TMA writes it, and the matrix that its epilogue reads, a residual or the like, as TMA
/// brings it to where results are collected.
struct TmaResult {
  TmaMatrix written;
  std::optional<TmaMatrix> read;
  std::optional<ir::Scalar> load; ///< The node that reads it.

  /// Nothing unless there is one result, of 16 bits, dense along N. Reads nothing.
  static std::optional<TmaResult> placed(const MatmulProblem &problem);
  /// The same, and nothing without a short epilogue that reads at most one matrix, in such a place: two columns a lane
  /// are too few to read one with. A scale a row or column is not much.
  static std::optional<TmaResult> of(const MatmulProblem &problem);
  /// The same, and nothing where the epilogue reads what differs between rows, as a matrix does.
  static std::optional<TmaResult> ofColumns(const MatmulProblem &problem);
};

/// The sides of a product as an instruction takes them: a left operand, or the right ones of every product.
using TmaSide = std::vector<TmaOperand>;
TmaSide sideOf(const MatmulProblem &problem, unsigned side);

/// `struct Product` with one wgmma of 64 x `columns` x 32 bytes: the instruction names every accumulator, so each
/// width is a text of its own.
void writeProduct(SourceWriter &writer, DType rowsType, DType columnsType, int64_t columns, const TmaSide &rows,
                  const TmaSide &columnsSide);

/// Elements of K in a line of 128 bytes.
int64_t depthOf(DType type);

/// Whether wgmma fed by TMA takes the region on the target; why not.
ir::FusionDecision takenByWgmma(const Region &region, const MatmulProblem &problem, const ir::Target &target);

/// A side as the kernel is given it.
struct TmaArgument {
  std::string
      parameters;    ///< Parameters of the entry, before its buffers: "const __grid_constant__ TensorMap rowsMap, ".
  std::string value; ///< "Side<Rows>{&rowsMap}".
};
/// Writes `struct <name>` (and "Other<name>"): which of the operand's dimensions is contiguous, and its batch
/// coordinate.
/// `fetchers`: how many blocks fetch it early (earlyBlocks); a permuted operand none, as they ask for boxes of three
/// dimensions.
TmaArgument writeTmaSide(MatmulPrinter &printer, const TmaSide &side, const std::string &name, int64_t fetchers = 0);
/// How many blocks of a grid of `blocks` start while the kernel before still runs, on the SMs that such a grid leaves
/// idle, and have time to fetch the side: none where it is not fixed, or more than the L2 has room for.
int64_t earlyBlocks(const Region &region, const TmaSide &side, DType type, int64_t blocks, const ir::Target &target);
/// Whether `extent` rows of an operand's tile can be brought in `shares`: whole swizzle atoms each, 8 rows, or panels
/// of 64 where K is not contiguous.
bool dividesInto(int64_t extent, int64_t shares, bool contiguousK);
/// The share of the weights that HBM brings again: `share` for each `neighbours` tiles down, which read them together,
/// after the first. Clusters whose blocks share rows but not columns keep step within, not with the other
/// tiles of their columns, and read far more again, at most all: on an H200 they take 13 to 29 % longer than no
/// clusters where two tiles of up to 80 rows lie down, 19 to 36 % where three and more do (middle halves of 106 pairs
/// on 18 products of 20 to 768 rows). Taller tiles are taken to do so, too.
double shareReadAgain(const MatmulProblem &problem, const TileConfig &config, int64_t neighbours, double share);
/// Microseconds that TMA takes to fill the rows of all tiles' boxes that lie past the edge, in `kBlocks`: 18,000 in
/// a microsecond on an H200, however many blocks ask. 4 x 8192 x 8192 takes 58.7 us as 64 x 64 tiles, 64 rows 35.7; 16
/// x 5120 x 17920 as 64 x 40 tiles 73, 24 x 7168 x 5120 as 64 x 64 tiles 28 where others take 47 and 21.
double pastEdgeUs(const MatmulProblem &problem, const TileConfig &config, double kBlocks);
/// Recipes for a tile of `tileRows` rows or columns of all operands together, brought in `shares`.
std::vector<TensorMapRecipe> recipesOf(const TmaSide &side, DType type, int64_t tileRows, int64_t shares);

} // namespace kfuse::codegen::cuda
