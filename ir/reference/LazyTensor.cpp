#include "ir/reference/LazyTensor.h"

#include "ir/reference/Policy.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace kfuse::reference {

void LazyTensor::read(Line line, Number *out) {
  compute(line, out);
  if (noise != 0)
    shake(line, out);
  if (rounds && isFloat(type))
    std::transform(out, out + line.count, out, [&](Number n) { return Number{.real = roundTo(type, n.real)}; });
  if (type == DType::I32)
    std::transform(out, out + line.count, out,
                   [](Number n) { return Number{.integer = static_cast<std::int32_t>(n.integer)}; });
}

/// What is denormal may be lost altogether.
void LazyTensor::shake(Line line, Number *out) const {
  constexpr double smallestNormal = 0x1p-126;
  for (std::int64_t i = 0; i < line.count; ++i) {
    const double value = out[i].real, part = uniformAt(noise, static_cast<std::uint64_t>(line.first + i * line.stride));
    if (std::isfinite(value))
      out[i].real = value + part * (tolerance(type) * std::fabs(value) + smallestNormal);
  }
}

Number LazyTensor::at(std::int64_t offset) {
  Number number;
  read({offset, 1, 1}, &number);
  return number;
}

const Number *WholeTensor::stored(Line line) const {
  return line.stride == 1 ? values->numbers.data() + line.first : nullptr;
}

void WholeTensor::compute(Line line, Number *out) {
  const Number *in = values->numbers.data() + line.first;
  for (std::int64_t i = 0; i < line.count; ++i)
    out[i] = in[i * line.stride];
}

void CallersTensor::compute(Line line, Number *out) {
  if (isPacked(type)) {
    const PackedElements place(type, shape);
    for (; line.count > 0; line.first += line.stride, --line.count)
      *out++ = place.read(tensor.bytes[static_cast<std::size_t>(place.byteOf(line.first)) % tensor.bytes.size()],
                          line.first);
    return;
  }
  const auto stored = static_cast<std::int64_t>(tensor.bytes.size() / byteWidth(type));
  while (line.count > 0) { // Up to an end of what is stored, then on from its other end.
    const std::int64_t first = line.first % stored;
    const std::int64_t toEnd = line.stride < 0 ? first : stored - 1 - first;
    const std::int64_t count = line.stride == 0 ? line.count : std::min(line.count, toEnd / std::abs(line.stride) + 1);
    readNumbers(type, tensor.bytes.data(), first, line.stride, count, out);
    out += count;
    line.first += count * line.stride;
    line.count -= count;
  }
}

//===- Strided reads -------------------------------------------------------------------------===//

Shape denseStrides(const Shape &shape) {
  Shape strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

Shape broadcastStrides(const Shape &from, const Shape &to) {
  Shape own = denseStrides(from), strides(to.size());
  std::size_t shift = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i)
    strides[shift + i] = from[i] == 1 ? 0 : own[i];
  return strides;
}

StridedMap::StridedMap(const Shape &allSizes, const Shape &allStrides, std::int64_t offset) : offset(offset) {
  // Neighbours that are walked as one become one: a tensor read in its own order has one dimension.
  for (std::size_t i = 0; i < allSizes.size(); ++i) {
    if (allSizes[i] == 1)
      continue;
    if (!sizes.empty() && strides.back() == allStrides[i] * allSizes[i]) {
      sizes.back() *= allSizes[i];
      strides.back() = allStrides[i];
    } else {
      sizes.push_back(allSizes[i]);
      strides.push_back(allStrides[i]);
    }
  }
  weights = denseStrides(sizes);
}

std::int64_t StridedMap::operator()(std::int64_t position) const {
  std::int64_t there = offset;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    there += position / weights[i] * strides[i];
    position %= weights[i];
  }
  return there;
}

/// The longest start of `line` that steps along one dimension without leaving it.
Line StridedMap::firstPiece(Line line) const {
  std::int64_t there = (*this)(line.first), pace = std::abs(line.stride);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t steps = pace / weights[i];
    if (steps == 0 || pace % weights[i] != 0 || steps >= sizes[i])
      continue;
    std::int64_t index = line.first / weights[i] % sizes[i];
    std::int64_t left = line.stride > 0 ? (sizes[i] - 1 - index) / steps : index / steps;
    return {there, strides[i] * (line.stride / weights[i]), std::min(line.count, left + 1)};
  }
  // No step at all, or one across several dimensions.
  return {there, 0, line.stride == 0 ? line.count : 1};
}

void StridedTensor::compute(Line line, Number *out) {
  map.forEachLine(line, [&](Line piece) {
    source.read(piece, out);
    out += piece.count;
  });
}

LazyTensor &LazyArena::broadcast(LazyTensor &source, const Shape &shape) {
  if (source.shape == shape)
    return source;
  return make<StridedTensor>(source, shape, StridedMap(shape, broadcastStrides(source.shape, shape)));
}

} // namespace kfuse::reference
