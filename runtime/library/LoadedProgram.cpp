#include "runtime/library/LoadedProgram.h"

#include "runtime/host/HostDevice.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace kfuse::runtime {

void *GivenMemory::keep(std::unique_ptr<DeviceBuffer> buffer) {
  std::scoped_lock lock(mutex);
  return buffers.emplace_back(std::move(buffer))->data();
}

void GivenMemory::free(const void *memory) {
  std::scoped_lock lock(mutex);
  std::erase_if(buffers, [&](const auto &buffer) { return buffer->data() == memory; });
}

Result<std::shared_ptr<const LoadedProgram>> LoadedProgram::load(std::shared_ptr<const Pack> pack,
                                                                 const LoadWish &wish) {
  Result<VariantChoice> chosen = chooseVariant(pack->manifest(), wish.variant);
  if (!chosen)
    return chosen.error();
  Result<BucketTable> table = pack->table(chosen->variant);
  if (!table)
    return table.error();
  Result<std::vector<VariantPrograms>> programs = pack->loadAll(chosen->variant);
  if (!programs)
    return programs.error();
  auto loaded = std::make_shared<LoadedProgram>();
  loaded->given = std::make_unique<GivenMemory>();
  if (chosen->isCpu) {
    const int all = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    loaded->device = std::make_unique<HostDevice>(wish.threads > 0 ? wish.threads : all);
  } else {
    Result<std::unique_ptr<Device>> gpu = openCuda(wish.variant.device);
    if (!gpu)
      return gpu.error();
    loaded->device = std::move(*gpu);
    loaded->ordinal = wish.variant.device;
  }
  loaded->title = pack->manifest().variants[chosen->variant].title();
  loaded->programs = std::move(*programs);
  loaded->table = std::move(*table);
  loaded->weights = wish.weights;
  loaded->pack = std::move(pack);
  return std::shared_ptr<const LoadedProgram>(std::move(loaded));
}

Result<const LengthEdges *> LoadedProgram::edgesFor(std::span<const std::int64_t> lengths) const {
  if (Result<void> inside = checkLengths(manifest().dims, lengths); !inside)
    return inside.error();
  if (manifest().dims.empty())
    return nullptr;
  Result<std::size_t> bucket = table.find(lengths);
  return bucket ? Result(&programs[*bucket].edges) : bucket.error();
}

} // namespace kfuse::runtime
