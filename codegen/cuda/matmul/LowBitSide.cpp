#include "codegen/cuda/matmul/LowBitSide.h"

#include "codegen/cuda/text/ValuePrinter.h"

#include "llvm/ADT/STLExtras.h"

#include <bit>

namespace kfuse::codegen::cuda {

LowBitSide LowBitSide::of(const Region &region, const MatmulProblem &problem) {
  LowBitSide side;
  for (unsigned product = 0; product < problem.count(); ++product) {
    side.operands.push_back(LowBitOperand::of(region, product));
    if (side.refusal.empty())
      side.refusal = side.operands.back().refusal;
  }
  auto isLikeFirst = [&](const LowBitOperand &operand) { return operand.isLike(side.front()); };
  if (side.refusal.empty() && !llvm::all_of(side.operands, isLikeFirst))
    side.refusal = "multiplies weights of two forms";
  if (side.refusal.empty() && problem.batches > 1)
    side.refusal = "multiplies weights of few bits in " + std::to_string(problem.batches) + " batches";
  if (const DType left = problem.elementType(0); side.refusal.empty() && left != DType::F16 && left != DType::BF16)
    side.refusal =
        "multiplies weights of few bits by " + std::string(toString(left)) + ", tensor cores by f16 and bf16";
  return side;
}

bool LowBitSide::isFixed() const {
  return llvm::all_of(operands, [](const LowBitOperand &operand) { return operand.isFixed; });
}

/// The zero as a code: of signed integers with their highest bit flipped.
static int64_t zeroCode(const LowBitOperand &weights) { return weights.zero - smallInteger(weights.type)->lowest; }

static std::string zerosType(const LowBitOperand &weights) {
  if (!weights.zeros)
    return "OneZero<" + std::to_string(zeroCode(weights)) + ">";
  if (isFloat(weights.zeroType))
    return "FloatZeros<" + storedType(weights.zeroType).str() + ", " + storedType(weights.difference).str() + ", " +
           std::to_string(weights.blocksOfRow) + ">";
  return "StoredZeros<" + std::to_string(weights.zeroRowBytes) + ">";
}

static std::string scalesType(const LowBitOperand &weights) {
  return weights.scales ? storedType(weights.scaleType).str()
                        : "OneScale<" + std::to_string(std::bit_cast<std::uint32_t>(weights.scale)) + ">";
}

static std::string typeOf(const LowBitOperand &weights) {
  return "LowBitWeights<" + std::string(toString(weights.type)) + ", " + scalesType(weights) + ", " +
         zerosType(weights) + ", " + std::to_string(weights.rowBytes) + ", " + std::to_string(weights.block) + ", " +
         std::to_string(weights.blocksOfRow) + (weights.isFixed ? ", true>" : ", false>");
}
static std::string valueOf(const LowBitOperand &weights) {
  return "{in" + std::to_string(weights.quantised) + ", " +
         (weights.scales ? "in" + std::to_string(*weights.scales) : "nullptr") + ", {" +
         (weights.zeros ? "in" + std::to_string(*weights.zeros) : "") + "}}";
}

std::string LowBitSide::type() const {
  return operands.size() == 1 ? typeOf(front())
                              : "TwoLowBitWeights<" + typeOf(front()) + ", " + typeOf(operands[1]) + ">";
}

std::string LowBitSide::value() const {
  return operands.size() == 1
             ? valueOf(front())
             : "{" + typeOf(front()) + valueOf(front()) + ", " + typeOf(operands[1]) + valueOf(operands[1]) + "}";
}

ir::FusionDecision LowBitSide::takenByWgmma(const Region &region, const MatmulProblem &problem,
                                            const ir::Target &target) const {
  constexpr int64_t stepK = 16; // What an instruction takes.
  if (target.capability != 90)
    return ir::FusionDecision::no("needs sm_90a, the target is " + target.name);
  if (!refusal.empty())
    return ir::FusionDecision::no(refusal);
  if (problem.reducesRows)
    return ir::FusionDecision::no(holdsTiles);
  const TmaOperand left = TmaOperand::of(problem, 0);
  if (!left.refusal.empty() || !left.matrix.contiguousK)
    return ir::FusionDecision::no(left.refusal.empty() ? "the left operand is not contiguous along K" : left.refusal);
  if (front().rowBytes % static_cast<int64_t>(tmaGranule) != 0)
    return ir::FusionDecision::no("has rows of " + std::to_string(front().rowBytes) +
                                  " bytes of weights, TMA takes multiples of 16");
  if (front().block % stepK != 0 && front().blocksOfRow > 1)
    return ir::FusionDecision::no("has blocks of " + std::to_string(front().block) + " weights, an instruction takes " +
                                  std::to_string(stepK) + " of one scale");
  return printable(region);
}

TmaArgument LowBitSide::argument(DType type) const {
  TmaArgument argument;
  std::string maps;
  for (const char *map : {"rowsMap", "otherRowsMap"}) {
    argument.parameters += std::string("const __grid_constant__ TensorMap ") + map + ", ";
    maps += (maps.empty() ? "&" : ", &") + std::string(map);
    if (operands.size() == 1)
      break;
  }
  argument.value = "LowBitSide<" + storedType(type).str() + ", " + this->type() + ">{{" + maps + "}, " + this->type() +
                   value() + "}";
  return argument;
}

std::vector<TensorMapRecipe> LowBitSide::recipes(int64_t N, int64_t rows) const {
  const auto bytes = static_cast<std::uint32_t>(stageBytes()),
             boxRows = static_cast<std::uint32_t>(rows / static_cast<int64_t>(operands.size()));
  std::vector<TensorMapRecipe> recipes;
  for (const LowBitOperand &operand : operands) {
    const auto rowBytes = static_cast<std::uint64_t>(operand.rowBytes), count = static_cast<std::uint64_t>(N);
    recipes.push_back({.buffer = operand.quantised,
                       .type = DType::U8,
                       .sizes = {rowBytes, count, 1},
                       .strideBytes = {rowBytes, rowBytes * count},
                       .box = {bytes, boxRows, 1},
                       .swizzleBytes = bytes});
  }
  return recipes;
}

} // namespace kfuse::codegen::cuda
