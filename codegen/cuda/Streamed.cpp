#include "codegen/cuda/Streamed.h"

namespace kfuse::codegen::cuda {

std::string whyNotStreamed(const MatmulProblem &problem, unsigned side, unsigned product) {
  MatrixOperand operand = MatrixOperand::of(problem, side, product);
  if (!operand.refusal.empty())
    return operand.refusal;
  const auto width = static_cast<int64_t>(accessBytes / byteWidth(problem.elementType(side)));
  if (!operand.contiguousK || operand.vector < width || problem.K % width != 0)
    return std::string(side == 0 ? "the left operand" : "the right operand") +
           " is not read in aligned pieces of 16 bytes along K";
  return "";
}

} // namespace kfuse::codegen::cuda
