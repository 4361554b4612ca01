// Softmax, norms, reductions, and rotary embedding: ops that read along the last dimension.
#include "ir/reference/OpTable.h"

#include "ir/dialect/Kfuse.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace kfuse::reference {
namespace {

using Int = std::int64_t;

//===- Whole rows ----------------------------------------------------------------------------===//

/// An op whose rows, along the last dimension, follow from the operand's rows.
class RowTensor : public LazyTensor {
public:
  explicit RowTensor(LazyTensor &operand)
      : LazyTensor(operand.type, operand.shape), operand(operand), length(operand.shape.back()) {}

private:
  /// Turns the operand's row into the result's.
  virtual void computeRow(Number *row) const = 0;

  void compute(Line line, Number *out) override {
    if (line.stride == 1 && line.first % length == 0 && line.count % length == 0) {
      operand.read(line, out);
      for (Int begin = 0; begin < line.count; begin += length)
        computeRow(out + begin);
      return;
    }
    for (Int i = 0; i < line.count; ++i) {
      Int offset = line.first + i * line.stride;
      out[i] = remembered(offset / length)[offset % length];
    }
  }

  /// Sampled reads come back to a row many times; 64 MB of rows are kept.
  const Number *remembered(Int row) {
    auto [found, isNew] = memo.try_emplace(row);
    if (isNew) {
      if (static_cast<Int>(memo.size()) * length > (8 << 20)) {
        memo.clear();
        found = memo.try_emplace(row).first;
      }
      found->second.resize(length);
      operand.read({row * length, 1, length}, found->second.data());
      computeRow(found->second.data());
    }
    return found->second.data();
  }

  LazyTensor &operand;
  std::unordered_map<Int, std::vector<Number>> memo;

protected:
  const Int length;
};

/// The sum of term(0), ..., term(count - 1) in blocks, whose partial sums a framework's vector lanes
/// and threads form as well.
template <class Accumulator, class Term> Accumulator blockedSum(Int count, Term term) {
  constexpr Int block = 256;
  Accumulator sum = 0;
  for (Int begin = 0; begin < count; begin += block) {
    Accumulator partial = 0;
    for (Int i = begin; i < std::min(count, begin + block); ++i)
      partial += term(i);
    sum += partial;
  }
  return sum;
}

/// f64 for the exact mode, f32 for that of a framework; the norms and softmax compute in it throughout.
template <class Accumulator> class SoftmaxTensor : public RowTensor {
public:
  using RowTensor::RowTensor;

private:
  void computeRow(Number *row) const override {
    auto x = [&](Int i) { return static_cast<Accumulator>(row[i].real); };
    Accumulator max = -std::numeric_limits<Accumulator>::infinity();
    for (Int i = 0; i < length; ++i)
      max = x(i) > max || std::isnan(x(i)) ? x(i) : max; // A NaN found stays: no x exceeds it.
    for (Int i = 0; i < length; ++i)
      row[i].real = std::exp(x(i) - max);
    auto sum = blockedSum<Accumulator>(length, x);
    for (Int i = 0; i < length; ++i)
      row[i].real = x(i) / sum;
  }
};

template <class Accumulator> class NormTensor : public RowTensor {
public:
  /// Layer norm subtracts the row's mean, RMS norm nothing.
  NormTensor(LazyTensor &operand, LazyTensor *weight, LazyTensor *bias, double epsilon, bool centres)
      : RowTensor(operand), weight(weight), bias(bias), epsilon(epsilon), centres(centres) {}

private:
  void computeRow(Number *row) const override {
    auto x = [&](Int i) { return static_cast<Accumulator>(row[i].real); };
    if (centres) {
      Accumulator mean = blockedSum<Accumulator>(length, x) / length;
      for (Int i = 0; i < length; ++i)
        row[i].real = x(i) - mean;
    }
    Accumulator meanSquare = blockedSum<Accumulator>(length, [&](Int i) { return x(i) * x(i); }) / length;
    Accumulator deviation = std::sqrt(meanSquare + static_cast<Accumulator>(epsilon));
    for (Int i = 0; i < length; ++i)
      row[i].real = x(i) / deviation;
    combine(row, weight, [](Accumulator a, Accumulator b) { return a * b; });
    combine(row, bias, [](Accumulator a, Accumulator b) { return a + b; });
  }

  template <class Function> void combine(Number *row, LazyTensor *vector, Function function) const {
    if (!vector)
      return;
    std::vector<Number> other(length);
    vector->read({0, 1, length}, other.data());
    for (Int i = 0; i < length; ++i)
      row[i].real = function(static_cast<Accumulator>(row[i].real), static_cast<Accumulator>(other[i].real));
  }

  LazyTensor *weight, *bias;
  double epsilon;
  bool centres;
};

/// Makes Tensor<double> or Tensor<float>, as the arena's mode accumulates.
template <template <class> class Tensor, class... Args> LazyTensor &inMode(LazyArena &arena, Args &&...args) {
  if (arena.mode == Mode::Exact)
    return arena.make<Tensor<double>>(std::forward<Args>(args)...);
  return arena.make<Tensor<float>>(std::forward<Args>(args)...);
}

LazyTensor &softmax(mlir::Operation *, Operands operands, LazyArena &arena) {
  return inMode<SoftmaxTensor>(arena, *operands[0]);
}

LazyTensor *operandOrNull(Operands operands, unsigned i) { return i < operands.size() ? operands[i] : nullptr; }

LazyTensor &layerNorm(mlir::Operation *op, Operands operands, LazyArena &arena) {
  double epsilon = mlir::cast<ir::LayerNormOp>(op).getEpsilon().convertToFloat();
  return inMode<NormTensor>(arena, *operands[0], operandOrNull(operands, 1), operandOrNull(operands, 2), epsilon, true);
}

LazyTensor &rmsNorm(mlir::Operation *op, Operands operands, LazyArena &arena) {
  double epsilon = mlir::cast<ir::RmsNormOp>(op).getEpsilon().convertToFloat();
  return inMode<NormTensor>(arena, *operands[0], operandOrNull(operands, 1), nullptr, epsilon, false);
}

//===- Reduce --------------------------------------------------------------------------------===//

/// Sizes and strides of some dimensions of a tensor, with the size of what they span.
struct Dims {
  Shape sizes, strides;
  void add(Int size, Int stride) {
    sizes.push_back(size);
    strides.push_back(stride);
  }
};

template <class Accumulator> class ReduceTensor : public LazyTensor {
public:
  ReduceTensor(LazyTensor &operand, const Dims &kept, Dims reduced, llvm::StringRef function)
      : LazyTensor(operand.type, kept.sizes), operand(operand), first(kept.sizes, kept.strides),
        reduced(std::move(reduced)), count(elementCount(this->reduced.sizes)), function(function) {}

private:
  void compute(Line line, Number *out) override {
    std::vector<Number> elements(count);
    for (Int i = 0; i < line.count; ++i) {
      Number *next = elements.data();
      StridedMap(reduced.sizes, reduced.strides, first(line.first + i * line.stride))
          .forEachLine({0, 1, count}, [&](Line piece) {
            operand.read(piece, next);
            next += piece.count;
          });
      out[i] = isFloat(type) ? Number{.real = ofReals(elements)} : Number{.integer = ofIntegers(elements)};
    }
  }

  double ofReals(const std::vector<Number> &x) const {
    if (function == "max" || function == "min")
      return extreme(x);
    auto sum = blockedSum<Accumulator>(count, [&](Int i) { return static_cast<Accumulator>(x[i].real); });
    return function == "mean" ? sum / count : sum;
  }

  double extreme(const std::vector<Number> &x) const {
    double sign = function == "max" ? 1 : -1, best = -std::numeric_limits<double>::infinity();
    for (Number number : x) {
      double value = sign * number.real;
      best = value > best || value != value ? value : best;
    }
    return sign * best;
  }

  Int ofIntegers(const std::vector<Number> &x) const {
    using Limits = std::numeric_limits<Int>;
    Int result = function == "max" ? Limits::min() : function == "min" ? Limits::max() : 0;
    for (Number number : x) {
      Int value = number.integer;
      if (function == "max")
        result = std::max(result, value);
      else if (function == "min")
        result = std::min(result, value);
      else // Modulo 2^64.
        result = static_cast<Int>(static_cast<std::uint64_t>(result) + static_cast<std::uint64_t>(value));
    }
    return result;
  }

  LazyTensor &operand;
  StridedMap first; ///< Where the reduced elements of a result element begin.
  Dims reduced;
  Int count;
  llvm::StringRef function;
};

LazyTensor &reduce(mlir::Operation *op, Operands operands, LazyArena &arena) {
  auto reduce = mlir::cast<ir::ReduceOp>(op);
  const Shape &shape = operands[0]->shape, strides = denseStrides(shape);
  Dims kept, reduced;
  for (std::size_t i = 0; i < shape.size(); ++i)
    (llvm::is_contained(reduce.getAxes(), static_cast<Int>(i)) ? reduced : kept).add(shape[i], strides[i]);
  return inMode<ReduceTensor>(arena, *operands[0], kept, reduced, reduce.getFunction());
}

//===- Rotary --------------------------------------------------------------------------------===//

class RotaryTensor : public LazyTensor {
public:
  /// The tables are broadcast to x but for their last dimension, which may be half of x's.
  RotaryTensor(LazyTensor &x, LazyTensor &cos, LazyTensor &sin, bool interleaved)
      : LazyTensor(x.type, x.shape), x(x), cos(cos), sin(sin), size(x.shape.back()), interleaved(interleaved) {}

private:
  void compute(Line line, Number *out) override {
    for (Int i = 0; i < line.count; ++i)
      out[i].real = rotated(line.first + i * line.stride);
  }

  double rotated(Int offset) const {
    Int i = offset % size, row = offset / size, half = size / 2;
    bool isFirst = interleaved ? i % 2 == 0 : i < half;
    Int distance = interleaved ? 1 : half;
    double own = x.at(offset).real, partner = x.at(isFirst ? offset + distance : offset - distance).real;
    double c = table(cos, row, i), s = table(sin, row, i);
    return isFirst ? own * c - partner * s : own * c + partner * s;
  }

  double table(LazyTensor &angles, Int row, Int i) const {
    Int width = angles.shape.back();
    if (width != size)
      i = interleaved ? i / 2 : i % width;
    return angles.at(row * width + i).real;
  }

  LazyTensor &x, &cos, &sin;
  Int size;
  bool interleaved;
};

LazyTensor &rotary(mlir::Operation *op, Operands operands, LazyArena &arena) {
  auto table = [&](LazyTensor &angles) -> LazyTensor & {
    Shape shape = operands[0]->shape;
    shape.back() = angles.shape.back();
    return arena.broadcast(angles, shape);
  };
  return arena.make<RotaryTensor>(*operands[0], table(*operands[1]), table(*operands[2]),
                                  mlir::cast<ir::RotaryOp>(op).getInterleaved());
}

constexpr ReferenceOp rows[] = {
    {"softmax", softmax}, {"layer_norm", layerNorm}, {"rms_norm", rmsNorm}, {"reduce", reduce}, {"rotary", rotary},
};

} // namespace

llvm::ArrayRef<ReferenceOp> rowOps() { return rows; }

} // namespace kfuse::reference
