#include "tuner/model/Noise.h"

#include "ir/dialect/Kfuse.h"
#include "ir/reference/Tensor.h"

#include <algorithm>
#include <optional>

namespace kfuse::tuner {
namespace {

/// Larger tensors repeat this many elements: a prime, so that no two rows or columns are
/// alike. A gigabyte of elements of their own took a second to write.
constexpr std::int64_t noisePeriod = 4194301;

/// What ends where these lengths say, in kernels, too.
void forEachPrefix(mlir::Value lengths, llvm::function_ref<void(ir::PrefixOp)> visit) {
  for (mlir::OpOperand &use : lengths.getUses()) {
    if (auto prefix = mlir::dyn_cast<ir::PrefixOp>(use.getOwner()); prefix && prefix.getLengths() == lengths)
      visit(prefix);
    if (auto fused = mlir::dyn_cast<ir::FusedOp>(use.getOwner()))
      forEachPrefix(fused.getBody().front().getArgument(use.getOperandNumber()), visit);
  }
}

/// The end of the shortest dimension that `integers` are indices of, in kernels, too; nothing where they are used for
/// anything but a gather: a position, say, that bounds keys as well.
std::optional<std::int64_t> gatheredExtent(mlir::Value integers) {
  std::optional<std::int64_t> least;
  for (mlir::OpOperand &use : integers.getUses()) {
    std::optional<std::int64_t> extent;
    if (auto gather = mlir::dyn_cast<ir::GatherOp>(use.getOwner()); gather && gather.getIndices() == integers)
      extent = ir::dimsOf(gather.getData())[gather.getAxis()];
    else if (auto fused = mlir::dyn_cast<ir::FusedOp>(use.getOwner()))
      extent = gatheredExtent(fused.getBody().front().getArgument(use.getOperandNumber()));
    else if (mlir::isa<ir::ReshapeOp, ir::TransposeOp, ir::SliceOp, ir::BroadcastOp>(use.getOwner()))
      extent = gatheredExtent(use.getOwner()->getResult(0));
    if (!extent)
      return std::nullopt;
    least = std::min(least.value_or(*extent), *extent);
  }
  return least;
}

} // namespace

IndexRange indexRange(mlir::Block &block) {
  IndexRange range{0, 8};
  block.walk([&](ir::AttentionOp attention) {
    for (auto softmax : attention.getBody().getOps<ir::SoftmaxOp>()) {
      std::int64_t keys = ir::shapeOf(softmax.getOperand()).back();
      range = {keys - keys / 8 - 1, keys};
    }
  });
  return range;
}

const std::vector<std::byte> &LargeNoise::of(DType type, IndexRange indices, std::uint64_t seed, double deviation) {
  if (isFloat(type))
    indices = {};
  const std::tuple key(type, indices.low, indices.high, seed, deviation);
  {
    std::scoped_lock lock(mutex);
    if (auto found = made.find(key); found != made.end())
      return found->second;
  }
  std::vector<std::byte> bytes = noise(type, {noisePeriod}, indices, seed, deviation); // Twice where two threads ask.
  std::scoped_lock lock(mutex);
  return made.try_emplace(key, std::move(bytes)).first->second;
}

std::vector<std::byte> noise(DType type, const Shape &shape, IndexRange indices, std::uint64_t seed, double deviation,
                             LargeNoise *large) {
  const Shape period{std::min(elementCount(shape), noisePeriod)};
  if (type == DType::Bool)
    indices = {0, 2};
  if (isPacked(type))
    return noise(DType::U8, packedShape(shape), indices, seed, deviation, large);
  if (large && period[0] == noisePeriod)
    return large->of(type, indices, seed, deviation);
  if (const std::optional<SmallInteger> range = smallInteger(type))
    indices = {range->lowest, range->largest + 1};
  return isFloat(type) ? reference::normal(type, period, seed, deviation).bytes
                       : reference::integers(type, period, seed, indices.low, indices.high).bytes;
}

std::vector<std::byte> argumentNoise(mlir::BlockArgument argument, IndexRange indices, std::uint64_t seed,
                                     double deviation, LargeNoise *large) {
  if (std::optional<std::int64_t> extent = gatheredExtent(argument))
    indices = {0, *extent};
  reference::HostTensor tensor{ir::dtypeOf(argument.getType()), ir::shapeOf(argument), {}};
  tensor.bytes = noise(tensor.type, tensor.shape, indices, seed, deviation, large);
  forEachPrefix(argument, [&](ir::PrefixOp prefix) {
    std::vector<double> lengths = reference::toDoubles(tensor);
    const std::int64_t most = ir::dimsOf(prefix)[prefix.getAxis()];
    const std::int64_t longest =
        (most - static_cast<std::int64_t>(prefix.getPlus())) / static_cast<std::int64_t>(prefix.getTimes());
    lengths[prefix.getLength()] = static_cast<double>(longest);
    tensor.bytes = reference::tensorOf(tensor.type, tensor.shape, lengths).bytes;
  });
  return tensor.bytes;
}

} // namespace kfuse::tuner
