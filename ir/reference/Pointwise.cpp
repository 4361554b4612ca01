// Elementwise ops: a scalar function each, looped over runs of elements.
#include "ir/reference/OpTable.h"

#include "ir/dialect/Kfuse.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace kfuse::reference {
namespace {

using Int = std::int64_t;

//===- Loops ---------------------------------------------------------------------------------===//

template <class T> T as(Number number) {
  if constexpr (std::is_same_v<T, double>)
    return number.real;
  else if constexpr (std::is_same_v<T, bool>)
    return number.integer != 0;
  else
    return number.integer;
}

Number numberOf(double value) { return {.real = value}; }
Number numberOf(Int value) { return {.integer = value}; }
Number numberOf(bool value) { return {.integer = value ? 1 : 0}; }

/// Applies a scalar function to `count` elements of each operand.
using Loop = void (*)(Int count, const Number *const *operands, Number *out);

template <auto f> struct LoopOf;
template <class R, class... A, R (*f)(A...)> struct LoopOf<f> {
  static void run(Int count, const Number *const *operands, Number *out) {
    apply(count, operands, out, std::index_sequence_for<A...>());
  }
  template <std::size_t... i>
  static void apply(Int count, const Number *const *operands, Number *out, std::index_sequence<i...>) {
    for (Int n = 0; n < count; ++n)
      out[n] = numberOf(f(as<A>(operands[i][n])...));
  }
};

class PointwiseTensor : public LazyTensor {
public:
  PointwiseTensor(DType type, Shape shape, std::vector<LazyTensor *> operands, Loop loop)
      : LazyTensor(type, std::move(shape)), operands(std::move(operands)), loop(loop) {}

private:
  static constexpr Int piece = 512; // 4 KB an operand: stays in L1.

  void compute(Line line, Number *out) override {
    for (; line.count > 0; line.first += piece * line.stride, line.count -= piece, out += piece)
      computePiece({line.first, line.stride, std::min(piece, line.count)}, out);
  }

  void computePiece(Line line, Number *out) {
    Number buffers[3][piece];
    std::array<const Number *, 3> runs{};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      runs[i] = operands[i]->stored(line);
      if (!runs[i]) {
        operands[i]->read(line, buffers[i]);
        runs[i] = buffers[i];
      }
    }
    loop(line.count, runs.data(), out);
  }

  std::vector<LazyTensor *> operands;
  Loop loop;
};

LazyTensor &makePointwise(mlir::Operation *op, Operands operands, LazyArena &arena, Loop loop) {
  Shape shape = ir::shapeOf(op->getResult(0));
  std::vector<LazyTensor *> spread;
  for (LazyTensor *operand : operands)
    spread.push_back(&arena.broadcast(*operand, shape));
  return arena.make<PointwiseTensor>(ir::dtypeOf(op->getResult(0).getType()), shape, std::move(spread), loop);
}

//===- Scalar functions ----------------------------------------------------------------------===//

namespace real {
double relu(double x) { return x < 0 ? 0 : x; } // NaN stays.
// erfc keeps the digits that 1 + erf cancels where x is far below 0.
double gelu(double x) { return x / 2 * std::erfc(-x / std::numbers::sqrt2); }
double geluTanh(double x) {
  // 1 + tanh u as 2 / (1 + e^-2u): the sum would lose every digit where x is far below 0.
  return x / (1 + std::exp(-2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
double silu(double x) { return x / (1 + std::exp(-x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double tanh(double x) { return std::tanh(x); }
double erf(double x) { return std::erf(x); }
double exp(double x) { return std::exp(x); }
double expm1(double x) { return std::expm1(x); }
double log(double x) { return std::log(x); }
double log1p(double x) { return std::log1p(x); }
double sqrt(double x) { return std::sqrt(x); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double reciprocal(double x) { return 1 / x; }
double sin(double x) { return std::sin(x); }
double cos(double x) { return std::cos(x); }
double atan(double x) { return std::atan(x); }
/// Rounds a number of the type, even where nothing else is rounded; to even, the mode that programs start with.
template <DType type> double round(double x) { return std::nearbyint(type == DType::F32 ? x : roundTo(type, x)); }
double floor(double x) { return std::floor(x); }
double neg(double x) { return -x; }
double abs(double x) { return std::fabs(x); }
bool isNan(double x) { return x != x; }

double add(double a, double b) { return a + b; }
double sub(double a, double b) { return a - b; }
double mul(double a, double b) { return a * b; }
double div(double a, double b) { return a / b; }
double max(double a, double b) { return a != a || a > b ? a : b; }
double min(double a, double b) { return a != a || a < b ? a : b; }
double pow(double a, double b) { return std::pow(a, b); }
double rem(double a, double b) { return std::fmod(a, b); }
double mod(double a, double b) {
  double remainder = std::fmod(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
} // namespace real

/// Modulo 2^64, as processors count. What is of 32 bits is cut to them where it is read.
namespace integer {
using Bits = std::uint64_t;
Int relu(Int x) { return std::max<Int>(x, 0); }
Int neg(Int x) { return static_cast<Int>(-static_cast<Bits>(x)); }
Int abs(Int x) { return x < 0 ? neg(x) : x; }

Int add(Int a, Int b) { return static_cast<Int>(static_cast<Bits>(a) + static_cast<Bits>(b)); }
Int sub(Int a, Int b) { return static_cast<Int>(static_cast<Bits>(a) - static_cast<Bits>(b)); }
Int mul(Int a, Int b) { return static_cast<Int>(static_cast<Bits>(a) * static_cast<Bits>(b)); }
Int div(Int a, Int b) { return b == 0 ? 0 : b == -1 ? neg(a) : a / b; }
Int rem(Int a, Int b) { return b == 0 || b == -1 ? 0 : a % b; }
Int max(Int a, Int b) { return std::max(a, b); }
Int min(Int a, Int b) { return std::min(a, b); }
Int mod(Int a, Int b) {
  Int remainder = rem(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
} // namespace integer

namespace logic {
bool negation(bool x) { return !x; }
/// Integers bit by bit; a boolean is 0 or 1.
Int conjunction(Int a, Int b) { return a & b; }
Int disjunction(Int a, Int b) { return a | b; }
} // namespace logic

template <class T> bool eq(T a, T b) { return a == b; }
template <class T> bool ne(T a, T b) { return a != b; }
template <class T> bool lt(T a, T b) { return a < b; }
template <class T> bool le(T a, T b) { return a <= b; }
template <class T> bool gt(T a, T b) { return a > b; }
template <class T> bool ge(T a, T b) { return a >= b; }
template <class T> T where(bool condition, T then, T otherwise) { return condition ? then : otherwise; }

template <class T> T keep(T x) { return x; }
template <class T> bool isNonzero(T x) { return x != 0; }
double toReal(Int x) { return static_cast<double>(x); }
/// Towards zero, saturating; NaN gives 0.
template <class T> Int truncate(double x) {
  constexpr double beyond = -static_cast<double>(std::numeric_limits<T>::min());
  if (x != x)
    return 0;
  if (x >= beyond)
    return std::numeric_limits<T>::max();
  return x < -beyond ? std::numeric_limits<T>::min() : static_cast<Int>(x);
}

//===- Rows ----------------------------------------------------------------------------------===//

/// `onReals` where the last operand holds floats, else `onIntegers`.
template <auto onReals, auto onIntegers> LazyTensor &either(mlir::Operation *op, Operands operands, LazyArena &arena) {
  Loop loop = isFloat(operands.back()->type) ? LoopOf<onReals>::run : LoopOf<onIntegers>::run;
  return makePointwise(op, operands, arena, loop);
}
template <auto function> LazyTensor &only(mlir::Operation *op, Operands operands, LazyArena &arena) {
  return makePointwise(op, operands, arena, LoopOf<function>::run);
}

/// To an integer of 8 bits: floats saturate, of integers the low 8 bits stay.
template <class T> Int saturated(double x) {
  return std::clamp<Int>(truncate<Int>(x), std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
}
template <class T> Int lowBits(Int x) { return static_cast<T>(x); }

Loop castLoop(DType from, DType to) {
  if (to == DType::I8)
    return isFloat(from) ? LoopOf<saturated<std::int8_t>>::run : LoopOf<lowBits<std::int8_t>>::run;
  if (to == DType::U8)
    return isFloat(from) ? LoopOf<saturated<std::uint8_t>>::run : LoopOf<lowBits<std::uint8_t>>::run;
  if (to == DType::Bool)
    return isFloat(from) ? LoopOf<isNonzero<double>>::run : LoopOf<isNonzero<Int>>::run;
  if (isFloat(from) && !isFloat(to))
    return to == DType::I32 ? LoopOf<truncate<std::int32_t>>::run : LoopOf<truncate<Int>>::run;
  if (isFloat(from))
    return LoopOf<keep<double>>::run;
  return isFloat(to) ? LoopOf<toReal>::run : LoopOf<keep<Int>>::run;
}
LazyTensor &cast(mlir::Operation *op, Operands operands, LazyArena &arena) {
  return makePointwise(op, operands, arena, castLoop(operands[0]->type, ir::dtypeOf(op->getResult(0).getType())));
}

LazyTensor &round(mlir::Operation *op, Operands operands, LazyArena &arena) {
  const DType type = operands[0]->type;
  return makePointwise(op, operands, arena,
                       type == DType::F16    ? LoopOf<real::round<DType::F16>>::run
                       : type == DType::BF16 ? LoopOf<real::round<DType::BF16>>::run
                                             : LoopOf<real::round<DType::F32>>::run);
}

/// (q - zero) scale, by blocks. A difference from a float has its type, even where nothing else is rounded.
class DequantizedTensor : public LazyTensor {
public:
  DequantizedTensor(ir::DequantizeOp op, Operands operands)
      : LazyTensor(operands[1]->type, operands[0]->shape), quantized(*operands[0]), scales(*operands[1]),
        zeros(operands.size() > 2 ? operands[2] : nullptr), blocks(op.getBlocks()) {}

private:
  void compute(Line line, Number *out) override {
    quantized.read(line, out);
    for (Int i = 0; i < line.count; ++i) {
      const Int block = blockOf(line.first + i * line.stride);
      auto value = static_cast<double>(out[i].integer);
      if (zeros && isFloat(zeros->type))
        value = roundTo(zeros->type, value - zeros->at(block).real);
      else if (zeros)
        value -= static_cast<double>(zeros->at(block).integer);
      out[i].real = value * scales.at(block).real;
    }
  }

  Int blockOf(Int element) const {
    Int block = 0, stride = 1;
    for (std::size_t dim = shape.size(); dim-- > 0; element /= shape[dim]) {
      block += blocks[dim] == 0 ? 0 : element % shape[dim] / blocks[dim] * stride;
      stride *= scales.shape[dim];
    }
    return block;
  }

  LazyTensor &quantized, &scales;
  LazyTensor *zeros;
  llvm::ArrayRef<Int> blocks;
};
LazyTensor &dequantize(mlir::Operation *op, Operands operands, LazyArena &arena) {
  return arena.make<DequantizedTensor>(mlir::cast<ir::DequantizeOp>(op), operands);
}

constexpr ReferenceOp rows[] = {
    {"relu", either<real::relu, integer::relu>},
    {"gelu", only<real::gelu>},
    {"gelu_tanh", only<real::geluTanh>},
    {"silu", only<real::silu>},
    {"sigmoid", only<real::sigmoid>},
    {"tanh", only<real::tanh>},
    {"erf", only<real::erf>},
    {"exp", only<real::exp>},
    {"expm1", only<real::expm1>},
    {"log", only<real::log>},
    {"log1p", only<real::log1p>},
    {"sqrt", only<real::sqrt>},
    {"rsqrt", only<real::rsqrt>},
    {"reciprocal", only<real::reciprocal>},
    {"sin", only<real::sin>},
    {"cos", only<real::cos>},
    {"atan", only<real::atan>},
    {"round", round},
    {"floor", only<real::floor>},
    {"neg", either<real::neg, integer::neg>},
    {"abs", either<real::abs, integer::abs>},
    {"not", only<logic::negation>},
    {"is_nan", only<real::isNan>},
    {"add", either<real::add, integer::add>},
    {"sub", either<real::sub, integer::sub>},
    {"mul", either<real::mul, integer::mul>},
    {"div", either<real::div, integer::div>},
    {"max", either<real::max, integer::max>},
    {"min", either<real::min, integer::min>},
    {"pow", only<real::pow>},
    {"mod", either<real::mod, integer::mod>},
    {"rem", either<real::rem, integer::rem>},
    {"and", only<logic::conjunction>},
    {"or", only<logic::disjunction>},
    {"eq", either<eq<double>, eq<Int>>},
    {"ne", either<ne<double>, ne<Int>>},
    {"lt", either<lt<double>, lt<Int>>},
    {"le", either<le<double>, le<Int>>},
    {"gt", either<gt<double>, gt<Int>>},
    {"ge", either<ge<double>, ge<Int>>},
    {"where", either<where<double>, where<Int>>},
    {"cast", cast},
    {"dequantize", dequantize},
};

} // namespace

llvm::ArrayRef<ReferenceOp> pointwiseOps() { return rows; }

} // namespace kfuse::reference
