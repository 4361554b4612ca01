#include "codegen/cuda/chain/ChainMemory.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace kfuse::codegen::cuda {

/// The last layer that reads a result.
static int lastReader(const ChainProblem &chain, int layer, unsigned result) {
  int last = layer;
  for (auto [number, reader] : llvm::enumerate(chain.layers))
    for (const ChainLayer::Source &source : reader.from.inputs)
      if (source.layer == layer && source.index == result)
        last = static_cast<int>(number);
  return last;
}

/// Results between layers share memory. A block writes a tile once all tiles of the same rows of the layer before have
/// been sent, so that what that one read and earlier ones may be overwritten, by a result with rows of as many bytes.
ChainMemory::ChainMemory(const ChainProblem &chain) {
  struct Slot {
    uint64_t offset;
    int64_t rowBytes;
    int lastReader;
  };
  std::vector<Slot> slots;
  for (auto [index, layer] : llvm::enumerate(chain.layers)) {
    const int number = static_cast<int>(index);
    results.emplace_back();
    for (auto [result, output] : llvm::enumerate(layer.from.region.graph.outputs)) {
      if (const int asOutput = layer.from.outputs[result]; asOutput >= 0) {
        results.back().push_back({asOutput, 0});
        continue;
      }
      const int64_t rowBytes = layer.product.N * static_cast<int64_t>(byteWidth(output.type));
      const int reader = lastReader(chain, number, result);
      auto slot =
          llvm::find_if(slots, [&](const Slot &slot) { return slot.rowBytes == rowBytes && slot.lastReader < number; });
      if (slot == slots.end()) {
        slot = slots.insert(slots.end(), {bytes, rowBytes, reader});
        bytes += llvm::alignTo(rowBytes * chain.M * chain.batches, 1024);
      }
      slot->lastReader = reader;
      results.back().push_back({-1, slot->offset});
    }
  }
}

} // namespace kfuse::codegen::cuda
