// Placing intervals of memory that live at known times.
#pragma once

#include "passes/OpGraph.h"

namespace kfuse::passes {

struct PackedBuffer {
  int64_t bytes = 0; ///< A multiple of the alignment.
  Lifetime lifetime;
  int64_t offset = 0; ///< The result.
};

/// Sets the offsets so that buffers that live together do not overlap; returns the bytes needed.
///
/// Colouring the interference graph would not do: it gives slots of one size each, and a large value
/// can take the place of two small ones. The algorithm is Greedy by Size for Offset Calculation
/// (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020): in a fixed
/// order, each buffer takes the smallest gap that fits it between the buffers it meets that are
/// already placed. No single order is best, so four are tried: by size, by lifetime, by their product
/// and by time; and each up to 16 times, what ended at the top going first. Not optimal (the problem is NP-hard):
/// MemoryPlan reports the bound beside it.
int64_t packOffsets(llvm::MutableArrayRef<PackedBuffer> buffers);

/// Largest sum of bytes that live at one step.
int64_t mostLiveBytes(llvm::ArrayRef<PackedBuffer> buffers);

} // namespace kfuse::passes
