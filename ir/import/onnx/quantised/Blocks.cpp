// ONNX Runtime's ops of weights in 2, 4 and 8 bits with a scale for each block of them.
#include "ir/import/ColumnOrder.h"
#include "ir/import/onnx/quantised/Ops.h"
#include "ir/import/onnx/quantised/PackedBits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// Input `i`, bytes of the file, as the integers they hold: a matrix of rows.type().
Value integersOf(Node &node, unsigned i, const PackedRows &rows, llvm::ArrayRef<int64_t> columns = {}) {
  const std::string what = "input " + std::to_string(i) + " of " + toString(node.dims(i));
  // Given another form for an op before, or of that type in the file.
  const bool isUnpacked = node.type(i) == DType::U4 && rows.type() == DType::U4 &&
                          node.dims(i) == llvm::ArrayRef<int64_t>({rows.rows, rows.columns});
  if (!isUnpacked && (node.type(i) != DType::U8 || elementsIn(node.dims(i)) != rows.rows * rows.rowBytes()))
    return node.fail(what + " is no UINT8 of " + llvm::Twine(rows.rows) + " rows of " + llvm::Twine(rows.rowBytes()) +
                     " bytes");
  std::string form = std::to_string(rows.bits) + " bits in rows of " + std::to_string(rows.columns);
  for (int64_t column : columns)
    form += " " + std::to_string(column);
  return node.converted(i, form, [&](const ParameterData &data) {
    const int64_t bits = isPacked(data.type) ? 4 : rows.bits;
    return unpacked(data, {bits, rows.rows, rows.columns}, std::span(columns));
  });
}

/// The order of K in which blocks follow each other, where g_idx says to which block each column belongs; empty where
/// they do as they are. Nothing, and failed, where blocks are not of `size` columns.
std::optional<Ints> blockOrder(Node &node, unsigned input, int64_t k, int64_t size) {
  std::optional<Ints> blocks = node.input(input) ? node.constantIntegers(input, "g_idx") : Ints();
  if (!blocks || blocks->empty())
    return blocks;
  if (static_cast<int64_t>(blocks->size()) < k) {
    node.fail("g_idx has " + llvm::Twine(blocks->size()) + " elements for K = " + llvm::Twine(k));
    return std::nullopt;
  }
  std::optional<std::vector<int64_t>> order = columnOrder(std::span(*blocks).first(static_cast<size_t>(k)), size);
  if (order)
    return Ints(order->begin(), order->end());
  node.fail("g_idx does not give each block " + llvm::Twine(size) + " columns of K; export it without g_idx");
  return std::nullopt;
}

/// Zero points of one block a column: packed as the elements are, of a float type, or 2^(bits - 1). ONNX Runtime takes
/// floats in f32, of whatever type they are.
Value zerosOf(Node &node, unsigned input, const PackedRows &zeros, Value scales) {
  Emitter &emit = node.emit;
  if (!node.input(input))
    return emit.splat(static_cast<double>(1 << (zeros.bits - 1)), zeros.type(), dimsOf(scales));
  if (isFloat(node.type(input)))
    return emit.reshape(emit.cast(node.input(input), DType::F32), dimsOf(scales));
  return emit.reshape(integersOf(node, input, zeros), dimsOf(scales));
}

/// a B^T (+ bias), B in blocks along K.
Values matMulNBits(Node &node) {
  Emitter &emit = node.emit;
  const int64_t k = node.integer("K", 0), n = node.integer("N", 0), bits = node.integer("bits", 4),
                block = node.integer("block_size", 0);
  if (node.integer("weight_prepacked", 0) != 0)
    return node.fail("its weights are packed for one kernel of ONNX Runtime; build the model with weight_prepacked 0");
  if (k < 1 || n < 1 || block < 1 || k > maxTensorBytes || n > maxTensorBytes || block > maxTensorBytes ||
      (bits != 2 && bits != 4 && bits != 8) || block * bits % 8 != 0)
    return node.fail("K = " + llvm::Twine(k) + ", N = " + llvm::Twine(n) + ", blocks of " + llvm::Twine(block) +
                     " and " + llvm::Twine(bits) + " bits; 2, 4 or 8 bits, and blocks of whole bytes");
  const int64_t blocks = (k - 1) / block + 1;
  if (n > maxTensorBytes / blocks || elementsIn(node.dims(2)) != n * blocks)
    return node.fail("scales of " + toString(node.dims(2)) + " for " + llvm::Twine(n) + " rows of " +
                     llvm::Twine(blocks) + " blocks");
  std::optional<Ints> order = blockOrder(node, 4, k, block);
  if (!order)
    return Value();
  Ints columns = *order; // Those behind K, which fill the last block, stay there.
  for (int64_t column = k; !order->empty() && column < blocks * block; ++column)
    columns.push_back(column);
  Value q = integersOf(node, 1, {bits, n, blocks * block}, columns);
  Value scales = emit.reshape(node.input(2), {n, blocks});
  if (!q || !scales)
    return Value();
  Value weights =
      emit.dequantize(emit.slice(q, 1, 0, k), scales, zerosOf(node, 3, {bits, n, blocks}, scales), {1, block});
  Value a = node.input(0);
  if (!order->empty())
    a = emit.gather(a, emit.integers(*order), node.rank(0) - 1);
  Value product = emit.matmul(a, emit.cast(weights, node.type(0)), false, true);
  return node.input(5) ? emit.add(product, node.input(5)) : product;
}

/// Rows of a table in blocks, as an embedding reads them.
Values gatherBlockQuantized(Node &node) {
  Emitter &emit = node.emit;
  const bool areBytes = node.type(0) == DType::U8;
  const int64_t bits = areBytes ? node.integer("bits", 4) : 4, block = node.integer("block_size", 128);
  Ints dims(node.dims(0));
  if (elementsIn(dims) == 0 || dims.empty() || block < 1 || (bits != 4 && bits != 8))
    return node.fail("data of " + toString(dims) + " in blocks of " + llvm::Twine(block) + " and " + llvm::Twine(bits) +
                     " bits; some rows, and 4 or 8 bits");
  const int64_t rank = static_cast<int64_t>(dims.size()),
                axis = node.normalised(node.integer("quantize_axis", 1), rank),
                along = node.normalised(node.integer("gather_axis", 0), rank);
  if (node.failed())
    return Value();
  const bool isPackedAsBytes = areBytes && bits == 4;
  dims.back() *= isPackedAsBytes ? 2 : 1;
  Value q = node.input(0);
  if (isPackedAsBytes)
    q = emit.reshape(integersOf(node, 0, {bits, elementsIn(dims) / dims.back(), dims.back()}), dims);
  Ints blocks(dims.size(), 1), expected(dims);
  blocks[axis] = block;
  expected[axis] = static_cast<int64_t>(llvm::divideCeil(dims[axis], block));
  if (Ints(node.dims(2)) != expected)
    return node.fail("scales of " + toString(node.dims(2)) + ", expected " + toString(expected));
  Value zeros;
  if (node.input(3) && isPackedAsBytes)
    zeros =
        emit.reshape(integersOf(node, 3, {bits, elementsIn(expected) / expected.back(), expected.back()}), expected);
  else if (node.input(3))
    zeros = node.input(3);
  else if (areBytes)
    zeros = emit.splat(static_cast<double>(1 << (bits - 1)), bits == 8 ? DType::U8 : DType::U4, expected);
  return emit.gather(emit.dequantize(q, node.input(2), zeros, blocks), node.input(1), along);
}

constexpr OnnxOp table[] = {
    {"com.microsoft.GatherBlockQuantized", 3, 4, gatherBlockQuantized, "bits block_size gather_axis quantize_axis"},
    {"com.microsoft.MatMulNBits", 3, 6, matMulNBits, "K N accuracy_level bits block_size weight_prepacked"},
};

} // namespace

llvm::ArrayRef<OnnxOp> blockQuantisedOps() { return table; }

} // namespace kfuse::ir::onnx
