// The buffers of a kernel and as many copies of them as push each other out of the L2.
#pragma once

#include "runtime/cuda/PrimaryContext.h"

#include <span>
#include <vector>

namespace kfuse::runtime::cuda {

class BufferRotation {
public:
  /// Sets of `buffers`: the first is the buffers themselves, the others are copies in `room` (`roomBytes` of it).
  /// Buffers that share an allocation share its copy. No copies where one set fills the room by itself.
  static Result<BufferRotation> make(const ContextRef &context, std::span<void *const> buffers, CUdeviceptr room,
                                     std::size_t roomBytes);
  /// One set, over and over.
  static BufferRotation of(std::span<void *const> buffers);

  std::size_t count() const { return sets.size(); }
  /// The sets in turn.
  std::span<void *const> next() { return sets[turn++ % sets.size()]; }

private:
  std::vector<std::vector<void *>> sets;
  std::size_t turn = 0;
};

} // namespace kfuse::runtime::cuda
