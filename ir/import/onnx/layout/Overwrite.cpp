#include "ir/import/onnx/layout/Overwrite.h"

#include "llvm/ADT/STLExtras.h"

using mlir::Value;

namespace kfuse::ir::onnx {

Ints inverse(llvm::ArrayRef<int64_t> permutation) {
  Ints result(permutation.size());
  for (auto [i, dim] : llvm::enumerate(permutation))
    result[dim] = i;
  return result;
}

Ints taken(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims) {
  return Ints(llvm::map_range(dims, [&](int64_t dim) { return shape[dim]; }));
}

Value choose(Emitter &emit, Value updates, Value chosen) {
  if (!updates || !chosen)
    return {};
  llvm::ArrayRef<int64_t> given = dimsOf(updates), asked = dimsOf(chosen);
  // Both vary along some dimensions; along others there is one choice for all; the rest is searched.
  Ints shared, searched, whole;
  for (int64_t dim = 0, rank = asked.size(); dim < rank; ++dim)
    (asked[dim] == 1 ? whole : given[dim] == 1 ? searched : shared).push_back(dim);
  const int64_t choices = given.back(), choiceDim = asked.size();
  const int64_t groups = elementsIn(taken(given, shared)), places = elementsIn(taken(asked, searched));

  Ints order(shared), rows{groups * choices}, wholeSizes = taken(given, whole);
  order.push_back(choiceDim);
  llvm::append_range(order, whole);
  llvm::append_range(order, searched);
  llvm::append_range(rows, wholeSizes);
  Value table = emit.reshape(emit.transpose(updates, order), rows);

  Ints askedOrder(shared);
  llvm::append_range(askedOrder, searched);
  llvm::append_range(askedOrder, whole);
  Value index = emit.reshape(emit.transpose(chosen, askedOrder), {groups, places});
  if (groups > 1)
    index = emit.add(index, emit.mul(emit.iota({groups, 1}, 0), static_cast<double>(choices)));
  Value rowsOf = emit.gather(table, emit.reshape(index, groups * places), 0);

  Ints split = taken(given, shared), splitOrder(shared);
  llvm::append_range(split, taken(asked, searched));
  llvm::append_range(split, wholeSizes);
  llvm::append_range(splitOrder, searched);
  llvm::append_range(splitOrder, whole);
  return emit.transpose(emit.reshape(rowsOf, split), inverse(splitOrder));
}

Value replaceBox(Emitter &emit, Value whole, Value part, llvm::ArrayRef<int64_t> offsets, size_t dim) {
  if (!whole || !part)
    return {};
  llvm::ArrayRef<int64_t> dims = dimsOf(whole), sizes = dimsOf(part);
  while (dim < dims.size() && sizes[dim] == dims[dim])
    ++dim;
  if (dim == dims.size())
    return part;
  const int64_t offset = offsets[dim], size = sizes[dim], end = offset + size;
  llvm::SmallVector<Value, 3> pieces;
  if (offset > 0)
    pieces.push_back(emit.slice(whole, dim, 0, offset));
  pieces.push_back(replaceBox(emit, emit.slice(whole, dim, offset, size), part, offsets, dim + 1));
  if (end < dims[dim])
    pieces.push_back(emit.slice(whole, dim, end, dims[dim] - end));
  return emit.concat(pieces, dim);
}

Value writeRows(Emitter &emit, Value data, Value updates, Value position, int64_t axis, Beyond beyond) {
  if (!data || !updates || !position)
    return {};
  const size_t rank = dimsOf(data).size();
  const int64_t size = dimsOf(data)[axis], rows = dimsOf(updates)[axis];
  Ints along(rank, 1);
  along[axis] = size;
  Value place = emit.iota(along, axis), whole = emit.scalarLike(place, static_cast<double>(size));
  Value zero = emit.scalarLike(place, 0);
  if (rows == 1) {
    Value fromEnd = emit.where(emit.binary<LtOp>(position, zero), emit.add(position, whole), position);
    Value target = beyond == Beyond::Continued ? emit.binary<ModOp>(position, whole) : fromEnd;
    return emit.where(emit.binary<EqOp>(place, target), updates, data);
  }
  // The number of the row that comes to a place, if it is one. What is behind a position below 0 lies a size further
  // on.
  Value row = emit.sub(place, position);
  if (beyond == Beyond::Continued)
    row = emit.binary<ModOp>(row, whole);
  else
    row = emit.where(emit.binary<GeOp>(row, whole), emit.sub(row, whole), row);
  Value isBeforeEnd = emit.binary<LtOp>(row, emit.scalarLike(row, static_cast<double>(rows)));
  Value isWritten = emit.binary<AndOp>(emit.binary<GeOp>(row, zero), isBeforeEnd);
  Ints shape(dimsOf(updates));
  shape.insert(shape.begin() + axis, 1);
  // [.., rows, ..] -> [.., 1, .., rows].
  Ints permutation = counted(rank + 1);
  permutation.erase(permutation.begin() + axis + 1);
  permutation.push_back(axis + 1);
  Value laid = emit.transpose(emit.reshape(updates, shape), permutation);
  return emit.where(isWritten, choose(emit, laid, row), data);
}

} // namespace kfuse::ir::onnx
