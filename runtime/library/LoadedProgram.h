// A pack's program on its device, as the C interface hands it out.
#pragma once

#include "runtime/Device.h"
#include "runtime/library/VariantChoice.h"
#include "runtime/pack/Pack.h"
#include "runtime/pack/PackWeights.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace kfuse::runtime {

/// Memory that a program's callers asked for: it lasts as long as the program, which weights and sessions hold.
class GivenMemory {
public:
  void *keep(std::unique_ptr<DeviceBuffer> buffer);
  void free(const void *memory);

private:
  std::mutex mutex;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
};

/// How a pack is loaded.
struct LoadWish {
  VariantWish variant;
  int threads = 0; ///< A CPU's; 0: one for each processor.
  WeightsSource weights;
};

/// Immutable once loaded, but for the memory that it keeps.
struct LoadedProgram {
  std::shared_ptr<const Pack> pack;
  std::unique_ptr<Device> device;
  int ordinal = -1; ///< The CUDA device's; -1 on the CPU.
  std::string title;
  std::vector<VariantPrograms> programs; ///< In the order of `table`.
  BucketTable table;                     ///< It has one bucket where no run gives lengths.
  WeightsSource weights;
  std::unique_ptr<GivenMemory> given;

  static Result<std::shared_ptr<const LoadedProgram>> load(std::shared_ptr<const Pack> pack, const LoadWish &wish);
  const Manifest &manifest() const { return pack->manifest(); }
  /// What follows these lengths, and how; null where no run gives lengths. Usage outside of their ranges.
  Result<const LengthEdges *> edgesFor(std::span<const std::int64_t> lengths) const;
};

} // namespace kfuse::runtime
