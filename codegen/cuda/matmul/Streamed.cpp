#include "codegen/cuda/matmul/Streamed.h"

namespace kfuse::codegen::cuda {

std::string whyNotStreamed(const MatmulProblem &problem, unsigned side, unsigned product) {
  MatrixOperand operand = MatrixOperand::of(problem, side, product);
  if (!operand.refusal.empty())
    return operand.refusal;
  const auto width = static_cast<int64_t>(accessBytes / byteWidth(problem.elementType(side)));
  if (!operand.contiguousK || operand.vector < width || problem.K % width != 0)
    return std::string(side == 0 ? "the left operand" : "the right operand") +
           " is not read in aligned pieces of 16 bytes along K";
  if (side == 1 && operand.inner != mlir::getAffineDimExpr(problem.dimK, operand.inner.getContext()))
    return "the right operand's columns are not whole in memory";
  return "";
}

/// On an H200 in us, kernels of one row behind one of their kind, with none, 4, 8, 16 MB: 4096 x 4096 8.72, 8.02, 8.54,
/// 10.2; 4096 x 14336 26.9, 26.5, 26.7, 27.5; two of 14336 x 4096 with a norm 54.2, 53.6, 53.4, 53.5. As the first
/// kernel of a run, in front of which the L2 is full of what must be written back, it costs half a microsecond.
static int64_t fetchedColumns(const Region &region, const MatmulProblem &problem, int64_t columnBytes) {
  constexpr int64_t fetchedBytes = 4 << 20;
  return region.programmaticLaunch ? std::min(problem.N, fetchedBytes / (columnBytes * problem.count())) : 0;
}

int64_t columnBytes(const MatmulProblem &problem) {
  return problem.K * static_cast<int64_t>(byteWidth(problem.elementType(1)));
}

std::string fetchField(const Region &region, const MatmulProblem &problem, int64_t columnBytes,
                       const ir::Target &target) {
  return "static constexpr int fetchedColumns = " + std::to_string(fetchedColumns(region, problem, columnBytes)) +
         ", fetchers = " + std::to_string(target.multiprocessors) + ";";
}

} // namespace kfuse::codegen::cuda
