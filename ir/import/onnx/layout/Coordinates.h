// Where the elements are that GatherND, ScatterElements and the like read or write.
//
// They index the first dimensions of a tensor: at every position of a box (the indices' shape), one coordinate says
// where along one of these dimensions. Exporters write indices out in full, though most coordinates are the position
// itself, or one number: those are found here, and become slices.
#pragma once

#include "ir/import/onnx/node/Node.h"

namespace kfuse::ir::onnx {

/// offset + step * i, i being the position along dimension `dim` of the box; `offset` everywhere if `dim` is -1.
struct Line {
  std::int64_t dim = -1;
  std::int64_t offset = 0;
  std::int64_t step = 0;
};

struct Coordinate {
  std::int64_t size; ///< The size of the data's dimension.
  /// Where it is known when the model is read, and regular.
  std::optional<Line> line;
  /// In I64, of the box's rank, 1 along dimensions along which it is the same. May count from the end unless `isKnown`.
  mlir::Value index;
  bool isKnown = false;

  bool varies(std::size_t dim) const { return dimsOf(index)[dim] > 1; }
  /// Each position of the box's dimension `dim`, `count` of them, is one of the data's, in order and without gaps.
  bool runsAlong(std::size_t dim) const {
    return line && line->dim == static_cast<std::int64_t>(dim) && line->step == 1;
  }
};

/// The index of each element of a tensor of `shape` along `dim`, as a tensor that broadcasts to `shape`. Known when
/// `isKnown`, else computed where it is read.
mlir::Value positions(Emitter &emit, llvm::ArrayRef<std::int64_t> shape, std::size_t dim, DType type, bool isKnown);

/// False, and failed, when an index that is known lies outside [-size, size).
bool areInside(Node &node, mlir::Value indices, std::int64_t size);

/// The coordinate that `indices`, of the box's shape, hold for a dimension of `size`; nothing, and failed, when one of
/// them is known to lie outside it.
std::optional<Coordinate> coordinateOf(Node &node, mlir::Value indices, std::int64_t size);
/// Those that the last dimension of `indices` holds, for dimensions of `sizes`.
std::optional<llvm::SmallVector<Coordinate>> coordinatesIn(Node &node, mlir::Value indices,
                                                           llvm::ArrayRef<std::int64_t> sizes);
/// The position along the box's dimension `dim` itself.
Coordinate positionAlong(Emitter &emit, llvm::ArrayRef<std::int64_t> box, std::size_t dim, std::int64_t size,
                         bool isKnown);

/// data[c0, c1, ..., :, ...] at every position of the box: the box's dimensions, then those of the data that no
/// coordinate is for. Indices are clamped into range, as kfuse.gather clamps them.
mlir::Value gatherAt(Emitter &emit, mlir::Value data, llvm::ArrayRef<Coordinate> coordinates,
                     llvm::ArrayRef<std::int64_t> box);

} // namespace kfuse::ir::onnx
