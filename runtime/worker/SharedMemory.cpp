#include "runtime/worker/SharedMemory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace kfuse::runtime::worker {
namespace {

Error noMemory() {
  return {ErrorCode::OutOfMemory,
          std::string("no memory to share with the worker process: ") + std::strerror(errno) + "; free some"};
}

} // namespace

Result<SharedMemory> SharedMemory::make() {
  int file = memfd_create("kfuse-worker", MFD_CLOEXEC);
  if (file < 0)
    return noMemory();
  SharedMemory owner(file, nullptr); // Closes it when it cannot be of use.
  if (ftruncate(file, bytes) != 0)
    return noMemory();
  owner.file = -1;
  return map(file);
}

Result<SharedMemory> SharedMemory::map(int descriptor) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    Error error = noMemory();
    ::close(descriptor);
    return error;
  }
  return SharedMemory(descriptor, static_cast<std::byte *>(memory));
}

SharedMemory::SharedMemory(SharedMemory &&other) noexcept
    : file(std::exchange(other.file, -1)), memory(std::exchange(other.memory, nullptr)) {}

SharedMemory &SharedMemory::operator=(SharedMemory &&other) noexcept {
  std::swap(file, other.file);
  std::swap(memory, other.memory);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (memory)
    munmap(memory, bytes);
  if (file >= 0)
    ::close(file);
}

} // namespace kfuse::runtime::worker
