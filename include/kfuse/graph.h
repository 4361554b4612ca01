// Building a model's graph in C++.
//
//   kfuse::GraphBuilder g;
//   kfuse::Tensor x = g.input("x", kfuse::DType::BF16, {2048, 4096});
//   kfuse::Tensor w = g.parameter("w", kfuse::DType::BF16, {4096, 16384});
//   kfuse::Tensor b = g.parameter("b", kfuse::DType::BF16, {16384});
//   g.output("y", g.gelu(g.add(g.matmul(x, w), b)));
//   kfuse::Result<kfuse::Graph> graph = g.build();
//
// Mistakes are kept, not thrown: the first one is what build() returns, and whatever depends on it
// does nothing; a use of a builder that was moved from is one, too. A builder, and the graphs that came from
// it, are for one thread at a time. Axes may be negative and then count from the last dimension.
#pragma once

#include "kfuse/api.h"
#include "kfuse/error.h"
#include "kfuse/types.h"

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kfuse {

/// A finished graph. Cheap to copy; immutable.
class KFUSE_API Graph {
public:
  explicit operator bool() const { return impl != nullptr; } ///< False once it was moved from.
  /// The kfuse dialect's text, which Model::load reads again; "" once it was moved from.
  std::string text() const;

  struct Impl;
  explicit Graph(std::shared_ptr<const Impl> impl) : impl(std::move(impl)) {}
  const Impl &internals() const { return *impl; }

private:
  std::shared_ptr<const Impl> impl;
};

/// A value in the graph of the builder that gave it; of a failed call, or moved from, it is empty.
class KFUSE_API Tensor {
public:
  Tensor() = default;
  explicit operator bool() const { return owner != nullptr; }
  DType type() const { return elementType; }
  const Shape &shape() const { return dims; }

private:
  friend class GraphBuilder;
  std::shared_ptr<const void> owner; ///< Stands for the builder, and for no later one at the same address.
  int id = -1;
  DType elementType = DType::F32;
  Shape dims;
};

class KFUSE_API GraphBuilder {
public:
  GraphBuilder();
  GraphBuilder(GraphBuilder &&) noexcept;
  GraphBuilder &operator=(GraphBuilder &&) noexcept;
  ~GraphBuilder();

  // The graph's edges. Names of arguments, and names of outputs, are unique and not empty.
  Tensor input(std::string_view name, DType type, const Shape &shape);
  Tensor parameter(std::string_view name, DType type, const Shape &shape);
  Tensor state(std::string_view name, DType type, const Shape &shape);
  void output(std::string_view name, const Tensor &value);

  /// A tensor of one value; a scalar without a shape.
  Tensor constant(double value, DType type, const Shape &shape = {});
  /// A tensor of these values in row-major order, rounded to its type; of an integer type only those that it holds.
  Tensor constant(std::span<const double> values, DType type, const Shape &shape);
  /// The same of integers, which I64 holds exactly; doubles are exact up to 2^53.
  Tensor constant(std::span<const std::int64_t> values, DType type, const Shape &shape);
  /// Each element is its own index along `axis`. I32 or I64.
  Tensor iota(DType type, const Shape &shape, int axis);

  /// Any elementwise op of the dialect by its name ("add", "lt", "where", ...). Operands broadcast as in
  /// NumPy and hold one element type.
  Tensor pointwise(std::string_view op, std::span<const Tensor> operands);
  Tensor pointwise(std::string_view op, std::initializer_list<Tensor> operands) {
    return pointwise(op, std::span(operands.begin(), operands.size()));
  }
  Tensor add(const Tensor &a, const Tensor &b) { return pointwise("add", {a, b}); }
  Tensor sub(const Tensor &a, const Tensor &b) { return pointwise("sub", {a, b}); }
  Tensor mul(const Tensor &a, const Tensor &b) { return pointwise("mul", {a, b}); }
  Tensor div(const Tensor &a, const Tensor &b) { return pointwise("div", {a, b}); }
  Tensor relu(const Tensor &x) { return pointwise("relu", {x}); }
  Tensor gelu(const Tensor &x) { return pointwise("gelu", {x}); }
  Tensor silu(const Tensor &x) { return pointwise("silu", {x}); }
  Tensor tanh(const Tensor &x) { return pointwise("tanh", {x}); }
  Tensor sigmoid(const Tensor &x) { return pointwise("sigmoid", {x}); }
  Tensor where(const Tensor &condition, const Tensor &then, const Tensor &otherwise) {
    return pointwise("where", {condition, then, otherwise});
  }
  Tensor cast(const Tensor &x, DType type);

  /// (quantized - zeros) scales, of the scales' type: weights of I8, U8, I4 or U4 as they are multiplied. `blocks` says
  /// how many elements along each dimension share a scale, 0 for all of it: {1, 128} in [N, K] is groups of 128, {1, 0}
  /// a scale a row; scales and zeros have ceil(size / block) elements along it. An empty Tensor leaves the zeros out.
  /// The difference from zeros that are floats is rounded to their type.
  Tensor dequantize(const Tensor &quantized, const Tensor &scales, const Tensor &zeros, const Shape &blocks);

  struct Transpose {
    bool a = false, b = false;
  };
  /// What a product may make of f32 operands: true f32, or cut behind 10 bits of mantissa for tensor cores.
  enum class Precision : std::uint8_t { F32, TF32 };
  /// [batch..., M, K] times [batch..., K, N]; transposed operands come as [..., K, M] and [..., N, K].
  Tensor matmul(const Tensor &a, const Tensor &b, Transpose transpose = {false, false},
                Precision precision = Precision::F32);

  // Over the last dimension. `weight` and `bias` have its size; an empty Tensor leaves one out.
  Tensor softmax(const Tensor &x);
  Tensor layerNorm(const Tensor &x, const Tensor &weight, const Tensor &bias, float epsilon = 1e-5F);
  Tensor rmsNorm(const Tensor &x, const Tensor &weight, float epsilon = 1e-6F);
  /// Rotates pairs of x by angles whose cosines and sines are given, [..., D] or [..., D / 2].
  Tensor rotary(const Tensor &x, const Tensor &cos, const Tensor &sin, bool interleaved = false);
  /// "sum", "max", "min" or "mean" over `axes`, which the result drops.
  Tensor reduce(std::string_view function, const Tensor &x, const std::vector<int> &axes);

  /// Which of `rows` rows and `keys` keys belong to one sequence, where sequences are packed behind each other. Starts
  /// are [sequences + 1], I32 or I64, ascending; the last is where the last sequence ends. With `causal` the last row
  /// of a sequence sees its last key, the row before one key less. where() of it makes an attention's mask, outside of
  /// which keys cost no time.
  Tensor sameSequence(const Tensor &rowStarts, const Tensor &keyStarts, std::int64_t rows, std::int64_t keys,
                      bool causal = false);

  /// One size may be -1: what is left.
  Tensor reshape(const Tensor &x, Shape shape);
  /// Result dimension i is dimension permutation[i] of x.
  Tensor transpose(const Tensor &x, const std::vector<int> &permutation);
  Tensor broadcast(const Tensor &x, const Shape &shape);
  /// `sizes` elements of each dimension from `offsets`, `strides` apart (1 where none are given).
  Tensor slice(const Tensor &x, const Shape &offsets, const Shape &sizes, const Shape &strides = {});
  Tensor concat(std::span<const Tensor> pieces, int axis);
  Tensor concat(std::initializer_list<Tensor> pieces, int axis) {
    return concat(std::span(pieces.begin(), pieces.size()), axis);
  }
  /// Slices of `data` along `axis` at I32 or I64 indices; negative ones count from the end.
  Tensor gather(const Tensor &data, const Tensor &indices, int axis = 0);
  /// Writes `value` at `position` along `axis` of a state, in place; `position` is a scalar or one per
  /// index of dimension 0. The updated state is an output, under the state's name if not given another.
  Tensor updateState(const Tensor &state, const Tensor &value, const Tensor &position, int axis);

  /// The finished graph, or the first mistake; the builder may go on afterwards.
  Result<Graph> build() const;

private:
  struct Impl;
  Impl &use();
  std::unique_ptr<Impl> impl; ///< Null once it was moved from; used again it is made anew, with that mistake.
};

} // namespace kfuse
