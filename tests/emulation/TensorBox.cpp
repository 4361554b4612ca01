#include "tests/emulation/TensorBox.h"

#include <cassert>

namespace kfuse::test {

unsigned swizzled(unsigned address, unsigned swizzleBytes) {
  return swizzleBytes == 0 ? address : address ^ (address >> 3 & (swizzleBytes - 16));
}

unsigned EmulatedTensor::boxBytes() const {
  auto bytes = static_cast<unsigned>(byteWidth(recipe.type));
  for (const std::uint32_t extent : recipe.box)
    bytes *= extent;
  return bytes;
}

void EmulatedTensor::forEachPiece(
    std::span<const int> place, unsigned shared,
    const std::function<void(unsigned shared, std::byte *memory, unsigned bytes)> &visit) const {
  const auto width = static_cast<unsigned>(byteWidth(recipe.type));
  const unsigned lineBytes = recipe.box[0] * width, lines = boxBytes() / lineBytes;
  assert(recipe.swizzleBytes == 0 || lineBytes <= recipe.swizzleBytes);
  for (unsigned line = 0; line < lines; ++line) {
    std::byte *memory = start;
    for (unsigned rest = line, i = 1; i < recipe.box.size(); rest /= recipe.box[i++]) {
      const auto at = place[i] + static_cast<std::int64_t>(rest % recipe.box[i]);
      if (at < 0 || at >= static_cast<std::int64_t>(recipe.sizes[i]))
        memory = nullptr;
      if (memory)
        memory += at * static_cast<std::int64_t>(recipe.strideBytes[i - 1]);
    }
    for (unsigned x = 0; x < recipe.box[0]; ++x) {
      const std::int64_t at = place[0] + std::int64_t{x};
      const bool isInside = memory && at >= 0 && at < static_cast<std::int64_t>(recipe.sizes[0]);
      visit(swizzled(shared + line * lineBytes + x * width, recipe.swizzleBytes),
            isInside ? memory + at * width : nullptr, width);
    }
  }
}

} // namespace kfuse::test
