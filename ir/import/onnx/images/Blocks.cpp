// Blocks of an image's places as channels, and back.
#include "ir/import/onnx/images/Ops.h"

using mlir::Value;

namespace kfuse::ir::onnx {
namespace {

/// The side of a block: fails for an operand that is no image or does not divide.
std::optional<int64_t> blockSize(Node &node) {
  int64_t size = node.integer("blocksize", 0);
  if (node.rank(0) == 4 && size > 0 && size <= maxTensorBytes)
    return size;
  node.fail("blocks of " + llvm::Twine(size) + " of a tensor of shape " + toString(node.dims(0)));
  return std::nullopt;
}

Values depthToSpace(Node &node) {
  Emitter &emit = node.emit;
  std::optional<int64_t> block = blockSize(node);
  if (!block)
    return Value();
  Ints dims(node.dims(0));
  llvm::StringRef mode = node.text("mode", "DCR");
  int64_t side = *block, channels = dims[1] / side / side;
  if (channels * side * side != dims[1] || (mode != "DCR" && mode != "CRD"))
    return node.fail(llvm::Twine(dims[1]) + " channels as blocks of " + llvm::Twine(side) + " by mode '" + mode + "'");
  bool depthFirst = mode == "DCR"; // Blocks before channels, or behind them.
  Ints split = depthFirst ? Ints{dims[0], side, side, channels, dims[2], dims[3]}
                          : Ints{dims[0], channels, side, side, dims[2], dims[3]};
  Ints order = depthFirst ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3};
  return emit.reshape(emit.transpose(emit.reshape(node.input(0), split), order),
                      {dims[0], channels, dims[2] * side, dims[3] * side});
}

Values spaceToDepth(Node &node) {
  Emitter &emit = node.emit;
  std::optional<int64_t> block = blockSize(node);
  if (!block)
    return Value();
  Ints dims(node.dims(0));
  int64_t side = *block, rows = dims[2] / side, columns = dims[3] / side;
  if (rows * side != dims[2] || columns * side != dims[3])
    return node.fail("blocks of " + llvm::Twine(side) + " of a tensor of shape " + toString(dims));
  Value split = emit.reshape(node.input(0), {dims[0], dims[1], rows, side, columns, side});
  return emit.reshape(emit.transpose(split, {0, 3, 5, 1, 2, 4}), {dims[0], side * side * dims[1], rows, columns});
}

constexpr OnnxOp table[] = {
    {"DepthToSpace", 1, 1, depthToSpace, "blocksize mode"},
    {"SpaceToDepth", 1, 1, spaceToDepth, "blocksize"},
};

} // namespace

llvm::ArrayRef<OnnxOp> blockOps() { return table; }

} // namespace kfuse::ir::onnx
