// The source and the launches around a product: operands, epilogue, split K.
#pragma once

#include "codegen/cuda/matmul/MatrixOperand.h"
#include "codegen/cuda/text/ChunkPrinter.h"
#include "codegen/cuda/text/Kernel.h"

#include <optional>

namespace kfuse::codegen::cuda {

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
  /// In an entry's body: a block of BlockTile whose rows a run does not compute ends at once.
  void endBehindRun();
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

} // namespace kfuse::codegen::cuda
