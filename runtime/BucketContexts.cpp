#include "runtime/BucketContexts.h"

#include <algorithm>

namespace kfuse::runtime {
namespace {

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + contextAlignment - 1) / contextAlignment * contextAlignment;
}

std::uint64_t lengthBytes(std::size_t dims) { return aligned(dims * sizeof(std::int64_t)); }

std::uint64_t arenaBytes(std::span<const Program *const> programs) {
  std::uint64_t most = 0;
  for (const Program *program : programs)
    most = std::max(most, program->arenaBytes);
  return aligned(most);
}

} // namespace

std::uint64_t BucketContexts::bytes(std::span<const Program *const> programs, std::size_t dims) {
  std::uint64_t sum = lengthBytes(dims) + arenaBytes(programs) + aligned(Workspace(programs).bytes());
  for (const Program *program : programs)
    sum += contextBytes(*program, /*isShared=*/true);
  return sum;
}

Result<BucketContexts> BucketContexts::make(Device &device, std::span<const Program *const> programs, std::size_t dims,
                                            std::span<std::byte> memory) {
  BucketContexts made;
  const std::uint64_t needed = bytes(programs, dims);
  if (!memory.data() && needed > 0) {
    Result<std::unique_ptr<DeviceBuffer>> own = device.allocate(needed);
    if (!own)
      return own.error();
    made.own = std::move(*own);
    memory = {static_cast<std::byte *>(made.own->data()), needed};
  }
  if (memory.size() < needed)
    return Error{ErrorCode::Usage, "the memory given has " + std::to_string(memory.size()) + " bytes, expected " +
                                       std::to_string(needed)};
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % contextAlignment != 0)
    return Error{ErrorCode::Usage, "the memory given is not aligned to 256 bytes"};
  auto take = [&](std::uint64_t size) {
    const std::span<std::byte> taken = memory.first(size);
    memory = memory.subspan(size);
    return size > 0 ? taken : std::span<std::byte>();
  };
  const Workspace shared(programs);
  const std::span<std::byte> lengths = take(lengthBytes(dims)), arena = take(arenaBytes(programs)),
                             workspace = take(aligned(shared.bytes()));
  made.forLengths = lengths.data();
  if (made.forLengths)
    if (Result<void> filled = device.fill(lengths.data(), 0, lengths.size()); !filled)
      return filled.error();
  if (shared.zeroed > 0)
    if (Result<void> filled = device.fill(workspace.data(), 0, shared.zeroed); !filled)
      return filled.error();
  for (const Program *program : programs) {
    Result<std::unique_ptr<Context>> context = makeContext(*program, device,
                                                           {.arena = arena,
                                                            .workspace = workspace,
                                                            .shared = shared,
                                                            .memory = take(contextBytes(*program, /*isShared=*/true))});
    if (!context)
      return context.error();
    made.contexts.push_back(std::move(*context));
  }
  return made;
}

} // namespace kfuse::runtime
