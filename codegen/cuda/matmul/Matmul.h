// What the matrix product templates share: sizes, operands, epilogue, and the launches of split K.
#pragma once

#include "codegen/cuda/matmul/MatmulVariant.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"

#include <optional>

namespace kfuse::codegen::cuda {

/// A region's product [batch..., M, N, K] in linear form, or its two of the same left operand: a gate and what
/// it gates.
struct MatmulProblem {
  LinearGraph graph;
  llvm::SmallVector<ir::Scalar, 2> products; ///< The Contract nodes.
  unsigned dimM, dimN, dimK;
  int64_t M, N, K, batches;
  std::vector<bool> isFixed; ///< Region::isFixed.
  bool reducesRows = false;  ///< Whether rows of its result are reduced, or (along K) of its left operand.
  bool tf32 = false;         ///< Operands of f32 may be cut behind 10 bits of mantissa, in every product.

  /// Nothing when the region has no product, more than two, or two that do not share their left operand.
  static std::optional<MatmulProblem> of(const Region &region);

  unsigned count() const { return products.size(); }
  ir::Scalar operand(unsigned side, unsigned product = 0) const { return graph[products[product]].operands[side]; }
  /// Whether some product reads the node as it is.
  bool isOperand(ir::Scalar node) const;
  /// Whether what is fused behind the product reads other values in each row.
  bool readsRows() const;
  /// The stored type of an operand that is a load, f32 of one that is computed. The first right operand stands for all.
  DType elementType(unsigned side) const;
  /// Whether `type` is that of all right operands.
  bool isRightType(DType type) const;
};
/// The largest M, N, K or number of batches: device code counts them in 32 bits, and rounds up to tiles, clusters and
/// turns of loops, each by less than 2^20.
inline constexpr int64_t mostExtent = (int64_t{1} << 31) - (int64_t{1} << 20);
/// Whether a region's problem is there and of extents up to `mostExtent`; why not.
ir::FusionDecision isCounted(const std::optional<MatmulProblem> &problem);
inline constexpr const char *holdsTiles = "holds tiles of rows, which a reduction needs whole";

/// Whether mma.sync may take a product whose tiles are finished on their own; why not.
ir::FusionDecision takenByMmaSync(const MatmulProblem &problem, const ir::Target &target);
/// Whether mma.sync multiplies the operands' types: pairs of f16, of bf16, of 8-bit floats, and of f32 where the
/// product allows tf32 and the variant `takesTf32`; why not.
ir::FusionDecision multipliedByMmaSync(const MatmulProblem &problem, bool takesTf32);

/// An operand whose element (i, k) lies at outer(batch, i) + inner(batch, k) of an input; i is m for
/// the left side, n for the right.
struct MatrixOperand {
  /// low <= outer(batch, i) + inner(batch, k) < high, or the element is 0: a window's position along one dimension.
  struct Bound {
    mlir::AffineExpr outer, inner;
    int64_t low, high;
  };

  unsigned input = 0;
  mlir::AffineExpr outer, inner;
  bool contiguousK = true; ///< Neighbours in memory differ in k, not i.
  int64_t vector = 1;      ///< Elements of an aligned access along that dimension (at most 8, or 16 of 8 bits).
  bool isFixed = false;    ///< Never written in a run (Region::isFixed).
  std::string refusal;     ///< Why the operand is none of these, or "".
  llvm::SmallVector<Bound, 3> bounds;
  bool isWindowed = false; ///< K runs through windows: in pieces, or within bounds.

  /// For operands without bounds: one that has some is refused.
  static MatrixOperand of(const MatmulProblem &problem, unsigned side, unsigned product = 0);
  static MatrixOperand withBounds(const MatmulProblem &problem, unsigned side, unsigned product = 0);
};

struct TmaResult;

/// Writes the source and plan around a product kernel.
class MatmulPrinter {
public:
  MatmulPrinter(const Region &region, const MatmulProblem &problem, const TileConfig &config, const ir::Target &target,
                int64_t epilogueVector);

  SourceWriter &out() { return writer; }
  void writeHead(llvm::StringRef header) { cuda::writeHead(writer, region, config, target, header); }
  /// `struct Config`: `fields` are lines of the template's own.
  void writeConfig(int64_t threads, llvm::ArrayRef<std::string> fields);
  /// `struct <name>`: where element (`outer`, k) of an operand lies; `outer` is "m" or "n".
  void writeOperand(const MatrixOperand &operand, llvm::StringRef name, llvm::StringRef outer);
  /// `struct B`, and `struct C` of a second product. Returns "one<B, bf16>{in1}" or "two<B, C, bf16>{in1, in2}".
  std::string writeRightOperands(llvm::StringRef one, llvm::StringRef two);
  /// `struct Epilogue`, one line per fused op: `apply` stores what it computes.
  void writeEpilogue();
  /// What its constructor takes.
  std::vector<BufferName> epilogueBuffers() const { return buffersOf(problem.graph, loads); }
  /// The same for a result that TMA writes: `compute` gives it back, and `take` gets what TMA brings.
  void writeTileEpilogue(const TmaResult &result);
  /// The entry; with split K the one that finishes, too. `call(epilogue)` is its body, `leading` its
  /// parameters before the buffers, `trailing` those behind.
  void writeEntries(llvm::function_ref<std::string(const std::string &)> call, llvm::StringRef leading = "",
                    llvm::StringRef trailing = "");
  KernelPlan plan(int64_t threads, int64_t sharedBytes);
  /// Names of the batch dimensions, m, n and k.
  const llvm::SmallVector<std::string> &names() const { return dimNames; }
  /// Prints what names the batch dimensions in a function of `batch`.
  void writeBatchSplit();
  /// The batch coordinate of a matrix that TMA moves: `resultBatch`, `readBatch`.
  void writeBatch(llvm::StringRef name, mlir::AffineExpr batch);
  const std::vector<ir::Scalar> &epilogueLoads() const { return loads; }

private:
  /// Windowed operands only: each bound's position as outer and inner part, and whether it is inside.
  void writeBounds(const MatrixOperand &operand, llvm::StringRef outer);
  void writeEpilogueLoads(std::optional<ir::Scalar> brought = {});
  void writeEpilogueValues(ValuePrinter &scope);
  /// "Vector<float, 8>": the accumulators of a chunk, product by product.
  std::string accumulatorType() const;
  bool isSplit() const { return config["split_k"] > 1; }

  const Region &region;
  const MatmulProblem &problem;
  const TileConfig &config;
  const ir::Target &target;
  int64_t vector;
  ChunkPrinter chunk;
  std::vector<ir::Scalar> loads; ///< What the epilogue reads.
  llvm::SmallVector<std::string> dimNames;
  SourceWriter writer;
};

/// What the estimates of both templates need to know of a config.
struct MatmulCost {
  double tileM = 0, tileN = 0, splits = 1;
  double flopsPerUsPerSm = 0; ///< The rate of all blocks resident on an SM together.
  double blocksPerSm = 1;
  double elementBytes = 2;
  double latencyUs = 0;     ///< What a block takes at least, however fast its SM.
  double inFlightBytes = 0; ///< Bytes that a block keeps requested.
};

/// The bytes of the right operands of all products and batches.
double weightBytes(const MatmulProblem &problem);

/// What it costs, in bytes of HBM, that blocks of several tiles down read the same weights: though the last-level cache
/// has them, each of its halves fetches a `share` of them.
double bytesReadAgain(const MatmulProblem &problem, int64_t rowsAtOnce, double share);

/// A time of `us` at full clocks, of which an SM multiplies for `mathUs`, at the clocks that the card's power leaves: a
/// product that multiplies for more than 0.6 of its time takes longer, by 0.4 of what is beyond. Fitted to 39 products
/// of 8 to 32768 rows on an H200, whose SMs run at 1380 to 1480 MHz in the largest, at 1980 where memory bounds them.
double atPowerLimit(double us, double mathUs);

/// Waves of tiles at the given rate, bounded by HBM and L2 traffic, plus start, epilogue and split K.
double matmulUs(const Region &region, const MatmulProblem &problem, const MatmulCost &cost, const ir::Target &target);

} // namespace kfuse::codegen::cuda
