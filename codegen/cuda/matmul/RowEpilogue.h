// Epilogues of products whose rows a kernel holds whole.
#pragma once

#include "codegen/cuda/matmul/Tma.h"
#include "codegen/cuda/rows/RowPasses.h"

namespace kfuse::codegen::cuda {

/// A product and reductions over the rows of what follows it, step by step as device/matmul/row_epilogue.cuh takes it:
/// the element that stays in a sum's register, the terms of each reduction in order, the results. Each step knows the
/// values of the row that follow from the reductions before it.
class RowEpilogue {
public:
  static constexpr int64_t lanesOfWgmma = 2; ///< Neighbours that a thread of wgmma has.

  /// For threads that each finish `vector` neighbours.
  explicit RowEpilogue(const MatmulProblem &problem, std::int64_t vector = lanesOfWgmma);

  /// Why the region is none of these, or "".
  std::string refusal() const;
  size_t reductionCount() const { return reductions.size(); }
  /// `struct Epilogue`; where TMA writes the result, its last step gives it back.
  void write(MatmulPrinter &printer, const TmaResult *result) const;

private:
  struct Step {
    std::string operands; ///< The struct of what it loads, in `struct Epilogue`.
    std::vector<ir::Scalar> roots;
    bool knowsRow;
  };
  ir::Scalar lastBeforeReductions() const;
  bool readsProduct(llvm::ArrayRef<ir::Scalar> roots, ir::Scalar without) const;
  std::vector<size_t> findStages() const;
  std::vector<ir::Scalar> allRoots() const;
  std::vector<ir::Scalar> rootsOf(ir::Scalar reduction) const { return {graph[reduction].operands[0]}; }

  std::vector<ir::Scalar> loadsOf(const Step &step) const;
  void writeRowValues(MatmulPrinter &printer) const;
  void writeAt(MatmulPrinter &printer, size_t stage) const;
  void writeLoads(MatmulPrinter &printer, const Step &step) const;
  void writeCompute(MatmulPrinter &printer, const Step &step, bool stores) const;

  const LinearGraph &graph;
  ir::Scalar product;
  std::int64_t vector;
  ChunkPrinter chunk;
  std::vector<ir::Scalar> reductions; ///< In an order that respects what they use.
  std::vector<ir::Scalar> results;
  std::vector<size_t> stages;    ///< Per node.
  ir::Scalar kept;               ///< What stays in registers: all else of the product follows from it.
  std::vector<ir::Scalar> ofRow; ///< Reductions, and values without columns that steps use.
};

} // namespace kfuse::codegen::cuda
