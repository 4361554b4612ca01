// Constants of the probes' models: which of them change with a length, and how.
#include "passes/lengths/Rules.h"

#include "ir/reference/Attributes.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace kfuse::ir;

namespace kfuse::passes {
namespace {

/// Whether the elements at the same indices are the same in both, as far as both have them.
bool agreeAtFirst(const reference::HostTensor &a, const reference::HostTensor &b) {
  if (isPacked(a.type))
    return a == b;
  const size_t width = byteWidth(a.type);
  Shape common;
  for (auto [x, y] : llvm::zip_equal(a.shape, b.shape))
    common.push_back(std::min(x, y));
  for (int64_t i = 0; i < elementCount(common); ++i) {
    int64_t rest = i, stepA = 1, stepB = 1, atA = 0, atB = 0;
    for (size_t dim = common.size(); dim-- > 0; rest /= common[dim]) {
      atA += rest % common[dim] * stepA;
      atB += rest % common[dim] * stepB;
      stepA *= a.shape[dim];
      stepB *= b.shape[dim];
    }
    if (std::memcmp(&a.bytes[atA * width], &b.bytes[atB * width], width) != 0)
      return false;
  }
  return true;
}

} // namespace

Axes LengthRules::constant(ConstantOp constant) {
  Result<Axes> axes = axesBySize(constant.getResult());
  if (!axes) {
    refuse(axes.error().message);
    return {};
  }
  const Result<reference::HostTensor> here = reference::tensorOf(constant.getValue());
  bool isSame = true;
  for (Value other : probes.in(constant.getResult())) {
    auto there = other.getDefiningOp<ConstantOp>();
    if (there.getValue() == constant.getValue())
      continue;
    const Result<reference::HostTensor> tensor = reference::tensorOf(there.getValue());
    isSame &= here && tensor && agreeAtFirst(*here, *tensor);
  }
  if (isSame)
    return std::move(*axes);
  // A number that is a length, or grows with one.
  auto wholeNumberOf = [](Value there) -> int64_t {
    Result<reference::HostTensor> tensor = reference::tensorOf(there.getDefiningOp<ConstantOp>().getValue());
    const std::vector<double> numbers = tensor ? reference::toDoubles(*tensor) : std::vector<double>();
    const bool isOne = !numbers.empty() && llvm::all_of(numbers, [&](double one) { return one == numbers[0]; });
    return isOne && numbers[0] == std::floor(numbers[0]) ? static_cast<int64_t>(numbers[0])
                                                         : std::numeric_limits<int32_t>::min();
  };
  const std::optional<Factor> number = probes.fit(constant.getResult(), wholeNumberOf);
  if (!number || number->size == std::numeric_limits<int32_t>::min()) {
    refuse("its numbers depend on a length, and are none that grow evenly with it");
    return std::move(*axes);
  }
  const ArrayRef<int64_t> dims = dimsOf(constant);
  Value value = math.reshape(math.cast(math.length(*number), getElementTypeOrSelf(constant.getResult())),
                             llvm::SmallVector<int64_t>(dims.size(), 1));
  if (dimsOf(value) != dims)
    value = math.ops().create<BroadcastOp>(math.where(), constant.getType(), value);
  replacement = value;
  return std::move(*axes);
}

} // namespace kfuse::passes
