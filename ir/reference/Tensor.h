// Tensors on the host: as stored, and as the evaluator counts.
#pragma once

#include "kfuse/types.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kfuse::reference {

/// A dense row-major tensor as models store it. Bool takes one byte an element, 0 or 1; two 4-bit integers share one.
struct HostTensor {
  DType type = DType::F32;
  Shape shape;
  std::vector<std::byte> bytes;

  static HostTensor zeros(DType type, Shape shape);
  std::int64_t size() const { return elementCount(shape); }
  friend bool operator==(const HostTensor &, const HostTensor &) = default;
};

/// One element: `real` of a float tensor, `integer` of any other, so that i64 stays exact.
union Number {
  double real;
  std::int64_t integer;
};

/// A tensor in the evaluator's numbers. Floats hold f64, whatever their type: only a store rounds.
struct Values {
  DType type = DType::F32;
  Shape shape;
  std::vector<Number> numbers;

  std::int64_t size() const { return static_cast<std::int64_t>(numbers.size()); }
  double real(std::int64_t i) const { return numbers[i].real; }
  std::int64_t integer(std::int64_t i) const { return numbers[i].integer; }
};

/// `value` rounded to the nearest element of a float type, ties to even, in one step. The 8-bit floats saturate.
double roundTo(DType type, double value);

/// Elements [begin, begin + count) of stored elements `stride` apart, of a type that is not packed; writes `count`
/// numbers.
void readNumbers(DType type, const std::byte *stored, std::int64_t begin, std::int64_t stride, std::int64_t count,
                 Number *out);

/// Where elements of a packed type lie, whose rows begin at whole bytes.
class PackedElements {
public:
  PackedElements(DType type, const Shape &shape);
  std::int64_t byteOf(std::int64_t element) const { return element / row * rowBytes + element % row / 2; }
  /// The element in `byte`, the one at byteOf(element).
  Number read(std::byte byte, std::int64_t element) const;
  /// `byte` with the element in it.
  std::byte write(Number number, std::byte byte, std::int64_t element) const;

private:
  unsigned shiftOf(std::int64_t element) const { return element % row % 2 * 4; }

  DType type;
  std::int64_t row, rowBytes;
};

Values toValues(const HostTensor &tensor);
/// Rounds floats to the tensor's type.
HostTensor toTensor(const Values &values);

/// A tensor of the given numbers, rounded to its type; `values` are as many as the shape has elements.
HostTensor tensorOf(DType type, Shape shape, const std::vector<double> &values);
/// Every element as f64 (i64 beyond 2^53 rounds).
std::vector<double> toDoubles(const HostTensor &tensor);

/// Seeded noise, the same on every machine and for every number of threads. `uniform` lies in
/// [low, high), `integers` in [low, high); integer types take either, bool from `integers` alone.
/// `normal` is so to 3.46 deviations, which it does not exceed.
HostTensor uniform(DType type, Shape shape, std::uint64_t seed, double low = -1, double high = 1);
HostTensor normal(DType type, Shape shape, std::uint64_t seed, double deviation = 1);
HostTensor integers(DType type, Shape shape, std::uint64_t seed, std::int64_t low, std::int64_t high);

/// The i-th random word of a seed, and the i-th number in [-1, 1).
std::uint64_t wordAt(std::uint64_t seed, std::uint64_t i);
double uniformAt(std::uint64_t seed, std::uint64_t i);

/// The deviation with which noise in a model's weights lets values through layer after layer at their size: of a matrix
/// 1 / sqrt(K), K taken for the shorter of its last two dimensions (LeCun et al., Efficient BackProp, 1998); else 1.
double weightDeviation(const Shape &shape);

} // namespace kfuse::reference
