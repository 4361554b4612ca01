// The buffers of a kernel and as many copies of them as push each other out of the L2.
#pragma once

#include "runtime/cuda/PrimaryContext.h"

#include <algorithm>
#include <span>
#include <vector>

namespace kfuse::runtime::cuda {

class BufferRotation {
public:
  /// Sets of `buffers`: the first is the buffers themselves, the others lie in `room` (`roomBytes` of it) and are to be
  /// filled. Buffers that share an allocation share its copy. No copies where one set fills the room by itself.
  static Result<BufferRotation> make(const ContextRef &context, std::span<void *const> buffers, CUdeviceptr room,
                                     std::size_t roomBytes);
  /// One set, over and over.
  static BufferRotation of(std::span<void *const> buffers);

  /// Copies what is in the buffers now to all other sets.
  Result<void> fill(const ContextRef &context) const;

  bool isOf(std::span<void *const> buffers) const { return std::ranges::equal(sets.front(), buffers); }
  std::size_t count() const { return sets.size(); }
  /// The sets in turn.
  std::span<void *const> next() { return sets[turn++ % sets.size()]; }

private:
  struct Copy {
    CUdeviceptr to, from;
    std::size_t bytes;
  };
  std::vector<std::vector<void *>> sets;
  std::vector<Copy> copies;
  std::size_t turn = 0;
};

} // namespace kfuse::runtime::cuda
