// Tensors whose elements are computed when they are asked for.
//
// Every op is described once, as a LazyTensor over its operands. A whole tensor is all its elements,
// read in parallel; a sampled check reads a few and computes no more than they need.
#pragma once

#include "ir/reference/Evaluator.h"
#include "ir/reference/Tensor.h"

#include <memory>
#include <type_traits>
#include <vector>

namespace kfuse::reference {

/// Elements first, first + stride, ... of a tensor counted in row-major order.
struct Line {
  std::int64_t first = 0;
  std::int64_t stride = 1;
  std::int64_t count = 1;
};

class LazyTensor {
public:
  LazyTensor(DType type, Shape shape) : type(type), shape(std::move(shape)) {}
  virtual ~LazyTensor() = default;

  const DType type;
  const Shape shape;

  /// The elements of `line`, rounded as the mode says. Lines of whole rows (stride 1) may be read by
  /// several threads at once, others keep memos.
  void read(Line line, Number *out);
  Number at(std::int64_t offset);
  /// Where the elements of a line already lie one after the other in memory, or null.
  virtual const Number *stored(Line /*line*/) const { return nullptr; }
  /// Whether results are rounded to the tensor's type: Mode::RoundEachOp of computing ops.
  bool rounds = false;
  /// Which errors are added, in Mode::Shaken, to what an elementwise op gives; 0: none.
  std::uint64_t noise = 0;

private:
  void shake(Line line, Number *out) const;
  virtual void compute(Line line, Number *out) = 0;
};

/// A computed tensor.
class WholeTensor : public LazyTensor {
public:
  explicit WholeTensor(std::shared_ptr<const Values> values)
      : LazyTensor(values->type, values->shape), values(std::move(values)) {}
  const Number *stored(Line line) const override;
  const Values &all() const { return *values; }

private:
  void compute(Line line, Number *out) override;
  std::shared_ptr<const Values> values;
};

/// A tensor as the caller stores it, which must outlive this. Fewer elements than the shape has are repeated.
class CallersTensor : public LazyTensor {
public:
  explicit CallersTensor(const HostTensor &tensor) : LazyTensor(tensor.type, tensor.shape), tensor(tensor) {}

private:
  void compute(Line line, Number *out) override;
  const HostTensor &tensor;
};

/// Where each element of a tensor of `sizes` lies in another: one step along dimension i moves by
/// strides[i], from `offset`. Describes transposes, broadcasts and slices.
class StridedMap {
public:
  StridedMap(const Shape &sizes, const Shape &strides, std::int64_t offset = 0);

  std::int64_t operator()(std::int64_t position) const;
  /// Cuts a line into pieces that are lines of the other tensor too.
  template <class Visitor> void forEachLine(Line line, Visitor visitor) const {
    while (line.count > 0) {
      Line piece = firstPiece(line);
      visitor(piece);
      line.first += piece.count * line.stride;
      line.count -= piece.count;
    }
  }

private:
  Line firstPiece(Line line) const;

  Shape sizes, strides;
  Shape weights; ///< Row-major strides of `sizes`.
  std::int64_t offset;
};

/// Row-major strides.
Shape denseStrides(const Shape &shape);
/// Strides that read a tensor of shape `from` as broadcast to `to`: 0 along what is repeated.
Shape broadcastStrides(const Shape &from, const Shape &to);

/// A transpose, broadcast, slice or reshape of `source`.
class StridedTensor : public LazyTensor {
public:
  StridedTensor(LazyTensor &source, Shape shape, StridedMap map)
      : LazyTensor(source.type, std::move(shape)), source(source), map(std::move(map)) {}

private:
  void compute(Line line, Number *out) override;
  LazyTensor &source;
  StridedMap map;
};

/// Owns the lazy tensors of one evaluation, made for its mode.
class LazyArena {
public:
  explicit LazyArena(Mode mode, std::uint64_t seed = 0) : mode(mode), seed(seed) {}
  const Mode mode;
  const std::uint64_t seed; ///< For Mode::Shaken.

  template <class T, class... Args> T &make(Args &&...args) {
    auto tensor = std::make_unique<T>(std::forward<Args>(args)...);
    T &result = *tensor;
    tensors.push_back(std::move(tensor));
    return result;
  }
  /// `source` read as a tensor of `shape`; itself when that is its shape.
  LazyTensor &broadcast(LazyTensor &source, const Shape &shape);
  std::size_t size() const { return tensors.size(); }

private:
  std::vector<std::unique_ptr<LazyTensor>> tensors;
};

} // namespace kfuse::reference
