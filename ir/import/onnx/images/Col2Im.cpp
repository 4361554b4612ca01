// Col2Im: blocks are added up to the image that they were cut from.
#include "ir/import/onnx/images/Ops.h"
#include "ir/import/onnx/images/Windows.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// How blocks lie along one dimension of the image.
struct Blocks {
  int64_t size, length; ///< Elements of the image and of a block along a dimension.
  int64_t stride, dilation, before, count;

  /// For each place of the image and each element of a block, which block's element lies there: its number among the
  /// `length * count`; -1 where none does.
  Ints places() const {
    Ints all;
    for (int64_t place = 0; place < size; ++place)
      for (int64_t element = 0; element < length; ++element) {
        const int64_t start = place + before - element * dilation;
        const bool isBlock = start >= 0 && start % stride == 0 && start / stride < count;
        all.push_back(isBlock ? element * count + start / stride : -1);
      }
    return all;
  }

  /// `x` with this dimension's elements and blocks, one dimension `dim`, added up to the image.
  Value addedUp(Emitter &emit, Value x, int64_t dim) const {
    if (!x)
      return x;
    Ints index = places(), shape(dimsOf(x).size() + 1 - dim, 1);
    shape[0] = size;
    shape[1] = length;
    Value at = emit.reshape(emit.integers(index), {size, length});
    Value isThere = emit.reshape(emit.binary<GeOp>(at, emit.scalarLike(at, 0)), shape);
    Value picked = emit.gather(x, emit.binary<MaxOp>(at, emit.scalarLike(at, 0)), dim);
    return emit.reduce(emit.where(isThere, picked, emit.scalarLike(picked, 0)), "sum", {dim + 1});
  }
};

/// Blocks of each dimension; nothing, and failed, where attributes, sizes and the operand do not fit.
std::optional<llvm::SmallVector<Blocks>> blocksOf(Node &node, llvm::ArrayRef<int64_t> image,
                                                  llvm::ArrayRef<int64_t> lengths) {
  constexpr int64_t most = int64_t{1} << 24; // So that no sum or product overflows.
  const size_t rank = image.size();
  const Ints strides = node.integerList("strides").value_or(Ints(rank, 1)),
             dilations = node.integerList("dilations").value_or(Ints(rank, 1)),
             pads = node.integerList("pads").value_or(Ints(2 * rank, 0));
  auto areWithin = [&](llvm::ArrayRef<int64_t> values, size_t count, int64_t least) {
    return values.size() == count && llvm::all_of(values, [&](int64_t x) { return x >= least && x <= most; });
  };
  if (node.failed() || rank == 0 || !areWithin(image, rank, 1) || !areWithin(lengths, rank, 1) ||
      !areWithin(strides, rank, 1) || !areWithin(dilations, rank, 1) || !areWithin(pads, 2 * rank, 0)) {
    node.fail("adds blocks of " + toString(lengths) + " to an image of " + toString(image) + " by strides " +
              toString(strides) + ", dilations " + toString(dilations) + " and pads " + toString(pads) +
              "; expected is one positive number a dimension, and two pads");
    return std::nullopt;
  }
  llvm::SmallVector<Blocks> all;
  int64_t count = 1, elements = 1;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t room = image[i] + pads[i] + pads[i + rank] - dilations[i] * (lengths[i] - 1) - 1;
    all.push_back({image[i], lengths[i], strides[i], dilations[i], pads[i], room < 0 ? 0 : room / strides[i] + 1});
    if (image[i] > maxFoldedElements / lengths[i]) {
      node.fail("adds blocks of " + llvm::Twine(lengths[i]) + " to a dimension of " + llvm::Twine(image[i]) +
                "; at most " + llvm::Twine(maxFoldedElements) + " places of both can be had");
      return std::nullopt;
    }
    count *= std::min(all.back().count, most);
    elements *= lengths[i];
    if (count > maxTensorBytes / most || elements > maxTensorBytes / most)
      count = 0;
  }
  if (count == 0 || node.rank(0) != 3 || node.dims(0)[2] != count || node.dims(0)[1] % elements != 0 ||
      elementsIn(node.dims(0)) == 0) {
    node.fail("the operand of shape " + toString(node.dims(0)) + " does not hold blocks of " + toString(lengths) +
              " for an image of " + toString(image) + ": [N, C * " + llvm::Twine(elements) + ", " + llvm::Twine(count) +
              "]");
    return std::nullopt;
  }
  return all;
}

/// [N, C K1 ... Kk, O1 ... Ok] -> [N, C, S1, ..., Sk], in f32.
Values col2Im(Node &node) {
  Emitter &emit = node.emit;
  std::optional<Ints> image = node.constantIntegers(1, "image_shape"),
                      lengths = node.constantIntegers(2, "block_shape");
  if (!image || !lengths)
    return Value();
  if (image->size() != lengths->size())
    return node.fail("blocks of " + toString(*lengths) + " for an image of " + toString(*image));
  std::optional<llvm::SmallVector<Blocks>> blocks = blocksOf(node, *image, *lengths);
  if (!blocks)
    return Value();
  const auto rank = static_cast<int64_t>(blocks->size());
  const DType type = node.type(0);
  Ints split{node.dims(0)[0], node.dims(0)[1] / elementsIn(*lengths)}, order{0, 1}, joined(split);
  llvm::append_range(split, *lengths);
  for (const Blocks &dimension : *blocks)
    split.push_back(dimension.count);
  for (auto [i, dimension] : llvm::enumerate(*blocks)) {
    order.append({2 + static_cast<int64_t>(i), 2 + rank + static_cast<int64_t>(i)});
    joined.push_back(dimension.length * dimension.count);
  }
  Value x = isFloat(type) ? emit.cast(node.input(0), DType::F32) : node.input(0);
  x = emit.reshape(emit.transpose(emit.reshape(x, split), order), joined);
  for (auto [i, dimension] : llvm::enumerate(*blocks))
    x = dimension.addedUp(emit, x, 2 + static_cast<int64_t>(i));
  return emit.cast(x, type);
}

constexpr OnnxOp table[] = {
    {"Col2Im", 3, 3, col2Im, "dilations pads strides"},
};

} // namespace

llvm::ArrayRef<OnnxOp> col2ImOps() { return table; }

} // namespace kfuse::ir::onnx
