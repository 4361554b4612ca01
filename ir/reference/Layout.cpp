// Ops that move elements, generators, and in-place updates.
#include "ir/dialect/ScatteredRows.h"
#include "ir/reference/OpTable.h"

#include "ir/dialect/Kfuse.h"

#include <algorithm>

namespace kfuse::reference {
namespace {

using Int = std::int64_t;

template <class Op> Shape resultShape(Op op) { return ir::shapeOf(op->getResult(0)); }

//===- Strided views -------------------------------------------------------------------------===//

LazyTensor &reshape(mlir::Operation *op, Operands operands, LazyArena &arena) {
  Shape shape = resultShape(op);
  return arena.make<StridedTensor>(*operands[0], shape, StridedMap(shape, denseStrides(shape)));
}

LazyTensor &transpose(mlir::Operation *op, Operands operands, LazyArena &arena) {
  Shape shape = resultShape(op), from = denseStrides(operands[0]->shape), strides;
  for (Int dim : mlir::cast<ir::TransposeOp>(op).getPermutation())
    strides.push_back(from[dim]);
  return arena.make<StridedTensor>(*operands[0], shape, StridedMap(shape, strides));
}

LazyTensor &broadcast(mlir::Operation *op, Operands operands, LazyArena &arena) {
  Shape shape = resultShape(op);
  return arena.make<StridedTensor>(*operands[0], shape, StridedMap(shape, broadcastStrides(operands[0]->shape, shape)));
}

LazyTensor &slice(mlir::Operation *op, Operands operands, LazyArena &arena) {
  auto slice = mlir::cast<ir::SliceOp>(op);
  Shape shape = resultShape(op), strides = denseStrides(operands[0]->shape);
  Int offset = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    offset += slice.getOffsets()[i] * strides[i];
    strides[i] *= slice.getStrides()[i];
  }
  return arena.make<StridedTensor>(*operands[0], shape, StridedMap(shape, strides, offset));
}

//===- Along an axis -------------------------------------------------------------------------===//

/// A shape seen from one of its dimensions: `outer` x `size` x `inner` elements.
struct AlongAxis {
  Int size, inner;
  AlongAxis(const Shape &shape, Int axis) : size(shape[axis]), inner(1) {
    for (std::size_t i = axis + 1; i < shape.size(); ++i)
      inner *= shape[i];
  }
};

/// Calls `visitor(line, out)` for pieces of a line that stay within `block` neighbouring elements.
template <class Visitor> void forEachBlock(Line line, Int block, Number *out, Visitor visitor) {
  while (line.count > 0) {
    Int left = line.stride == 1 ? block - line.first % block : 1;
    Line piece{line.first, 1, std::min(left, line.count)};
    visitor(piece, out);
    out += piece.count;
    line.first += piece.count * line.stride;
    line.count -= piece.count;
  }
}

class ConcatTensor : public LazyTensor {
public:
  ConcatTensor(DType type, const Shape &shape, Operands operands, Int axis)
      : LazyTensor(type, shape), pieces(operands.begin(), operands.end()), axis(axis), along(shape, axis) {}

private:
  void compute(Line line, Number *out) override {
    forEachBlock(line, along.inner, out, [&](Line block, Number *where) {
      Int inner = block.first % along.inner, position = block.first / along.inner % along.size;
      Int outer = block.first / along.inner / along.size;
      std::size_t piece = 0;
      for (; position >= pieces[piece]->shape[axis]; ++piece)
        position -= pieces[piece]->shape[axis];
      block.first = (outer * pieces[piece]->shape[axis] + position) * along.inner + inner;
      pieces[piece]->read(block, where);
    });
  }

  std::vector<LazyTensor *> pieces;
  Int axis;
  AlongAxis along;
};

LazyTensor &concat(mlir::Operation *op, Operands operands, LazyArena &arena) {
  return arena.make<ConcatTensor>(operands[0]->type, resultShape(op), operands, mlir::cast<ir::ConcatOp>(op).getAxis());
}

class GatherTensor : public LazyTensor {
public:
  GatherTensor(Shape shape, LazyTensor &data, LazyTensor &indices, Int axis)
      : LazyTensor(data.type, std::move(shape)), data(data), indices(indices), along(data.shape, axis),
        count(elementCount(indices.shape)) {}

private:
  void compute(Line line, Number *out) override {
    forEachBlock(line, along.inner, out, [&](Line block, Number *where) {
      Int inner = block.first % along.inner, outer = block.first / along.inner / count;
      Int index = indices.at(block.first / along.inner % count).integer;
      index = std::clamp<Int>(index < 0 ? index + along.size : index, 0, along.size - 1);
      block.first = (outer * along.size + index) * along.inner + inner;
      data.read(block, where);
    });
  }

  LazyTensor &data, &indices;
  AlongAxis along;
  Int count;
};

LazyTensor &gather(mlir::Operation *op, Operands operands, LazyArena &arena) {
  return arena.make<GatherTensor>(resultShape(op), *operands[0], *operands[1], mlir::cast<ir::GatherOp>(op).getAxis());
}

/// Sliding windows: the operand's element that each element of the result is, or 0 past the operand's edges.
class WindowTensor : public LazyTensor {
public:
  WindowTensor(Shape shape, LazyTensor &source, ir::WindowOp op)
      : LazyTensor(source.type, std::move(shape)), source(source), strides(op.getStrides()),
        dilations(op.getDilations()), pads(op.getPads()), weights(denseStrides(source.shape)),
        outer(source.shape.size() - pads.size()) {}

private:
  void compute(Line line, Number *out) override {
    for (Int i = 0; i < line.count; ++i) {
      const Int from = sourceOf(line.first + i * line.stride);
      out[i] = from < 0 ? Number{} : source.at(from);
    }
  }

  /// The offset in the operand of the element at `offset` of the result, or -1 where there is none.
  Int sourceOf(Int offset) const {
    llvm::SmallVector<Int, 8> index(shape.size());
    for (std::size_t dim = shape.size(); dim-- > 0; offset /= shape[dim])
      index[dim] = offset % shape[dim];
    Int from = 0;
    for (std::size_t dim = 0; dim < outer; ++dim)
      from += index[dim] * weights[dim];
    for (std::size_t i = 0; i < pads.size(); ++i) {
      const Int at = index[outer + pads.size() + i] * strides[i] + index[outer + i] * dilations[i] - pads[i];
      if (at < 0 || at >= source.shape[outer + i])
        return -1;
      from += at * weights[outer + i];
    }
    return from;
  }

  LazyTensor &source;
  llvm::SmallVector<Int, 3> strides, dilations, pads;
  Shape weights; ///< Row-major strides of the operand.
  std::size_t outer;
};

LazyTensor &window(mlir::Operation *op, Operands operands, LazyArena &arena) {
  return arena.make<WindowTensor>(resultShape(op), *operands[0], mlir::cast<ir::WindowOp>(op));
}

class StateUpdateTensor : public LazyTensor {
public:
  StateUpdateTensor(LazyTensor &state, LazyTensor &value, LazyTensor &position, Int axis)
      : LazyTensor(state.type, state.shape), state(state), value(value), position(position), along(state.shape, axis),
        written(value.shape[axis]) {}

private:
  void compute(Line line, Number *out) override {
    forEachBlock(line, along.inner, out, [&](Line block, Number *where) {
      Int row = block.first / along.inner, outer = row / along.size, index = row % along.size;
      Int start = positionOf(block.first);
      bool fits = start >= 0 && start <= along.size - written;
      if (!fits || index < start || index >= start + written)
        return state.read(block, where);
      block.first = (outer * written + index - start) * along.inner + block.first % along.inner;
      value.read(block, where);
    });
  }

  /// One position for all, or one per index of dimension 0.
  Int positionOf(Int offset) const {
    Int positions = elementCount(position.shape);
    return position.at(positions == 1 ? 0 : offset / (elementCount(shape) / shape[0])).integer;
  }

  LazyTensor &state, &value, &position;
  AlongAxis along;
  Int written;
};

/// Row i of the value along an axis is row position[i] of the state, or position[sequence, i], if there is one.
class ScatteredRowsTensor : public LazyTensor {
public:
  ScatteredRowsTensor(LazyTensor &state, LazyTensor &value, LazyTensor &position, Int axis)
      : LazyTensor(state.type, state.shape), state(state), value(value), along(state.shape, axis),
        written(value.shape[axis]), sequences(elementCount(position.shape) / written),
        sources(sequences * along.size, -1) {
    for (Int i = 0; i < sequences * written; ++i)
      if (const Int to = position.at(i).integer; to >= 0 && to < along.size)
        sources[i / written * along.size + to] = i % written;
  }

private:
  void compute(Line line, Number *out) override {
    const Int outers = elementCount(shape) / (along.size * along.inner);
    forEachBlock(line, along.inner, out, [&](Line block, Number *where) {
      const Int row = block.first / along.inner, outer = row / along.size, index = row % along.size;
      const Int source = sources[outer / (outers / sequences) * along.size + index];
      if (source < 0)
        return state.read(block, where);
      block.first = (outer * written + source) * along.inner + block.first % along.inner;
      value.read(block, where);
    });
  }

  LazyTensor &state, &value;
  AlongAxis along;
  Int written, sequences;
  std::vector<Int> sources; ///< The row of the value that is written to each row of the state, or -1.
};

LazyTensor &stateUpdate(mlir::Operation *op, Operands operands, LazyArena &arena) {
  auto update = mlir::cast<ir::StateUpdateOp>(op);
  const auto axis = static_cast<Int>(update.getAxis());
  if (ir::scattersRows(update))
    return arena.make<ScatteredRowsTensor>(*operands[0], *operands[1], *operands[2], axis);
  return arena.make<StateUpdateTensor>(*operands[0], *operands[1], *operands[2], axis);
}

/// All of the operand: a run may read whatever it likes behind the prefix.
LazyTensor &prefix(mlir::Operation *op, Operands operands, LazyArena &arena) { return reshape(op, operands, arena); }

//===- Generators ----------------------------------------------------------------------------===//

class IotaTensor : public LazyTensor {
public:
  IotaTensor(DType type, const Shape &shape, Int dim) : LazyTensor(type, shape), along(shape, dim) {}

private:
  void compute(Line line, Number *out) override {
    for (Int i = 0; i < line.count; ++i)
      out[i].integer = (line.first + i * line.stride) / along.inner % along.size;
  }

  AlongAxis along;
};

LazyTensor &iota(mlir::Operation *op, Operands, LazyArena &arena) {
  auto iota = mlir::cast<ir::IotaOp>(op);
  return arena.make<IotaTensor>(ir::dtypeOf(iota.getType()), resultShape(op), iota.getDim());
}

class SameSequenceTensor : public LazyTensor {
public:
  SameSequenceTensor(LazyTensor &rowStarts, LazyTensor &keyStarts, const Shape &shape, bool isCausal)
      : LazyTensor(DType::Bool, shape), rowStarts(rowStarts), keyStarts(keyStarts), isCausal(isCausal) {}

private:
  void compute(Line line, Number *out) override {
    for (Int i = 0; i < line.count; ++i) {
      const Int at = line.first + i * line.stride;
      out[i].integer = isSeen(at / shape[1], at % shape[1]);
    }
  }
  bool isSeen(Int row, Int key) {
    for (Int i = 0; i + 1 < rowStarts.shape[0]; ++i) {
      const Int rowEnd = rowStarts.at(i + 1).integer, keyEnd = keyStarts.at(i + 1).integer;
      if (rowStarts.at(i).integer <= row && row < rowEnd && keyStarts.at(i).integer <= key && key < keyEnd)
        return !isCausal || rowEnd - row <= keyEnd - key;
    }
    return false;
  }

  LazyTensor &rowStarts, &keyStarts;
  bool isCausal;
};

LazyTensor &sameSequence(mlir::Operation *op, Operands operands, LazyArena &arena) {
  return arena.make<SameSequenceTensor>(*operands[0], *operands[1], resultShape(op),
                                        mlir::cast<ir::SameSequenceOp>(op).getCausal());
}

constexpr ReferenceOp rows[] = {
    {"reshape", reshape},
    {"transpose", transpose},
    {"broadcast", broadcast},
    {"slice", slice},
    {"concat", concat},
    {"gather", gather},
    {"state_update", stateUpdate},
    {"iota", iota},
    {"window", window},
    {"same_sequence", sameSequence},
    {"prefix", prefix},
};

} // namespace

llvm::ArrayRef<ReferenceOp> layoutOps() { return rows; }

} // namespace kfuse::reference
