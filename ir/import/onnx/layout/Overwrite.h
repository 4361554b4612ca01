// A copy of a tensor with a part of it overwritten.
#pragma once

#include "ir/import/onnx/node/Emitter.h"

namespace kfuse::ir::onnx {

/// The transposition that undoes another.
Ints inverse(llvm::ArrayRef<std::int64_t> permutation);
/// Sizes of `shape` in the order of `dims`.
Ints taken(llvm::ArrayRef<std::int64_t> shape, llvm::ArrayRef<std::int64_t> dims);

/// For every element of the data the update that `chosen` (of the data's rank) says. `updates` are laid as the data is,
/// 1 along dimensions that are searched, with the choice as one more dimension at the end. The result has the choice's
/// sizes where those are above 1, else the updates'.
mlir::Value choose(Emitter &emit, mlir::Value updates, mlir::Value chosen);

/// `whole` with `part` in place of the box from `offsets` on, from dimension `dim` on.
mlir::Value replaceBox(Emitter &emit, mlir::Value whole, mlir::Value part, llvm::ArrayRef<std::int64_t> offsets,
                       std::size_t dim = 0);

/// What becomes of rows that reach beyond the end.
enum class Beyond {
  Dropped,  ///< They are not written. A position below 0 counts from the end.
  Continued ///< They go on at the beginning.
};

/// `data` with the rows of `updates` (as many of them as its size along `axis`, else of the data's shape) from
/// `position` along `axis` on: one number, or some along other dimensions, as a tensor of the data's rank that
/// broadcasts to it.
///
/// This is what a static cache of keys and values is written by, whichever op the exporter took (index_copy and
/// index_put give ScatterND, scatter ScatterElements, newer ones TensorScatter), and however it transposed the cache
/// before and after: `data` is the cache itself. It costs one pass over `data`; of data that is a state,
/// kfuse.state_update writes the same rows in place.
mlir::Value writeRows(Emitter &emit, mlir::Value data, mlir::Value updates, mlir::Value position, std::int64_t axis,
                      Beyond beyond = Beyond::Dropped);

} // namespace kfuse::ir::onnx
