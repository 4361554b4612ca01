#include "runtime/cuda/PinnedRing.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace kfuse::runtime::cuda {
namespace {

/// The driver pins memory at about 3 GB/s, so that the ring costs 5 ms, in which plain copies move this.
constexpr std::size_t leastForRing = std::size_t(32) << 20;

/// A pinned buffer, which is filled again once its last copy has been.
struct Slot {
  PinnedMemory memory;
  StreamHandle stream;
  Event copied;
  bool isUnderWay = false;

  static Result<Slot> make(const ContextRef &context) {
    Result<PinnedMemory> memory = allocatePinned(context, slotBytes);
    if (!memory)
      return memory.error();
    Result<StreamHandle> stream = makeStream(context);
    if (!stream)
      return stream.error();
    Result<Event> copied = makeEvent(context);
    if (!copied)
      return copied.error();
    return Slot{std::move(*memory), std::move(*stream), std::move(*copied)};
  }

  Result<void> wait(const DriverApi &api) {
    if (isUnderWay)
      KFUSE_DRIVER(api, cuEventSynchronize(copied.get()));
    isUnderWay = false;
    return {};
  }

  Result<void> send(const DriverApi &api, const Transfer &piece) {
    if (Result<void> free = wait(api); !free)
      return free;
    std::memcpy(memory.get(), piece.host.data(), piece.host.size());
    KFUSE_DRIVER(api, cuMemcpyHtoDAsync(devicePointer(piece.device), memory.get(), piece.host.size(), stream.get()));
    KFUSE_DRIVER(api, cuEventRecord(copied.get(), stream.get()));
    isUnderWay = true;
    return {};
  }
};

using Ring = std::array<Slot, ringSlots>;

Result<Ring> makeRing(const ContextRef &context) {
  Ring ring;
  for (Slot &slot : ring) {
    Result<Slot> made = Slot::make(context);
    if (!made)
      return made.error();
    slot = std::move(*made);
  }
  return ring;
}

/// What a slot holds at most.
std::vector<Transfer> piecesOf(std::span<const Transfer> transfers) {
  std::vector<Transfer> pieces;
  for (const auto &[device, host] : transfers)
    for (std::size_t at = 0; at < host.size(); at += slotBytes)
      pieces.push_back(
          {static_cast<std::byte *>(device) + at, host.subspan(at, std::min(slotBytes, host.size() - at))});
  return pieces;
}

Result<void> copyPlainly(const ContextRef &context, std::span<const Transfer> transfers) {
  Current current(*context);
  for (const auto &[device, host] : transfers)
    if (!host.empty())
      KFUSE_DRIVER(context->api, cuMemcpyHtoD(devicePointer(device), host.data(), host.size()));
  KFUSE_DRIVER(context->api, cuStreamSynchronize(nullptr)); // What was copied plainly may still be under way.
  return {};
}

} // namespace

Result<void> uploadThroughRing(const ContextRef &context, std::span<const Transfer> transfers) {
  std::size_t bytes = 0;
  for (const Transfer &transfer : transfers)
    bytes += transfer.host.size();
  if (bytes < leastForRing)
    return copyPlainly(context, transfers);
  Result<Ring> ring = makeRing(context);
  if (!ring)
    return copyPlainly(context, transfers);
  const std::vector<Transfer> pieces = piecesOf(transfers);
  std::atomic<std::size_t> next = 0;
  std::array<Result<void>, ringSlots> done;
  auto sendAll = [&](std::size_t number) { // Each slot takes pieces as long as there are some.
    Current current(*context);
    Slot &slot = (*ring)[number];
    Result<void> sent;
    for (std::size_t i = next++; sent && i < pieces.size(); i = next++)
      sent = slot.send(context->api, pieces[i]);
    const Result<void> ended = slot.wait(context->api); // The slot outlives its copy, whatever failed.
    done[number] = sent ? ended : sent;
  };
  {
    std::array<std::jthread, ringSlots> threads;
    for (std::size_t i = 0; i < ringSlots; ++i)
      threads[i] = std::jthread(sendAll, i);
  }
  for (const Result<void> &each : done)
    if (!each)
      return each;
  return {};
}

} // namespace kfuse::runtime::cuda
