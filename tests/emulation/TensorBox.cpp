#include "tests/emulation/TensorBox.h"

#include <algorithm>
#include <cstdint>

namespace kfuse::test {

unsigned EmulatedTensor::boxBytes() const {
  unsigned bytes = elementBytes();
  for (const std::uint32_t extent : recipe.box)
    bytes *= extent;
  return bytes;
}

std::string EmulatedTensor::refusal() const {
  constexpr unsigned granule = 16, longest = 256;
  const std::size_t rank = recipe.sizes.size();
  const unsigned lineBytes = recipe.box[0] * elementBytes();
  if (recipe.box.size() != rank || recipe.strideBytes.size() + 1 != rank)
    return "a tensor map whose ranks differ";
  if (lineBytes % granule != 0 || (recipe.swizzleBytes > 0 && lineBytes > recipe.swizzleBytes))
    return "a box with lines of " + std::to_string(lineBytes) + " bytes";
  if (std::ranges::any_of(recipe.box, [](std::uint32_t extent) { return extent == 0 || extent > longest; }))
    return "a box of more than 256 elements along a dimension";
  if (std::ranges::any_of(recipe.strideBytes, [](std::uint64_t stride) { return stride % granule != 0; }) ||
      recipe.offsetBytes % granule != 0)
    return "a tensor that starts or strides at other than multiples of 16 bytes";
  return "";
}

void EmulatedTensor::forEachChunk(
    std::span<const int> place, unsigned shared,
    const std::function<void(unsigned shared, std::byte *memory, unsigned bytes)> &visit) const {
  // What swizzling keeps together.
  const unsigned chunkBytes = 16, width = elementBytes(), ofChunk = chunkBytes / width,
                 lineBytes = recipe.box[0] * width, lines = boxBytes() / lineBytes;
  for (unsigned line = 0; line < lines; ++line) {
    std::byte *memory = start;
    for (unsigned rest = line, i = 1; i < recipe.box.size(); rest /= recipe.box[i++]) {
      const auto at = place[i] + static_cast<std::int64_t>(rest % recipe.box[i]);
      if (at < 0 || at >= static_cast<std::int64_t>(recipe.sizes[i]))
        memory = nullptr;
      if (memory)
        memory += at * static_cast<std::int64_t>(recipe.strideBytes[i - 1]);
    }
    for (unsigned x = 0; x < recipe.box[0]; x += ofChunk) {
      const std::int64_t first = place[0] + std::int64_t{x}, size = static_cast<std::int64_t>(recipe.sizes[0]);
      const unsigned to = swizzled(shared + line * lineBytes + x * width, recipe.swizzleBytes);
      if (!memory || first + ofChunk <= 0 || first >= size)
        visit(to, nullptr, chunkBytes);
      else if (first >= 0 && first + ofChunk <= size)
        visit(to, memory + first * width, chunkBytes);
      else
        for (unsigned i = 0; i < ofChunk; ++i) {
          const std::int64_t at = first + i;
          visit(to + i * width, at >= 0 && at < size ? memory + at * width : nullptr, width);
        }
    }
  }
}

} // namespace kfuse::test
