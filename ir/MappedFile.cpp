#include "ir/MappedFile.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace kfuse {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};

std::string placeOf(int file) {
  char place[PATH_MAX];
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), place, sizeof(place));
  return length < 0 ? "" : std::string(place, static_cast<std::size_t>(length));
}

} // namespace

Result<MappedFile> MappedFile::open(const std::string &path) {
  auto failure = [&](const std::string &reason) {
    return Error{ErrorCode::Io, "cannot read '" + path + "': " + reason};
  };
  // Non-blocking, or a named pipe without a writer would hang here.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status{};
  if (file.number < 0 || fstat(file.number, &status) != 0)
    return failure(std::strerror(errno));
  if (S_ISDIR(status.st_mode))
    return failure("it is a folder; name the file in it");
  if (!S_ISREG(status.st_mode))
    return failure("it is not a regular file");
  MappedFile mapped;
  mapped.resolved = placeOf(file.number);
  if (status.st_size == 0) // mmap refuses empty files.
    return mapped;
  const auto size = static_cast<std::size_t>(status.st_size);
  void *address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED)
    return failure(std::strerror(errno));
  mapped.address = address;
  mapped.size = size;
  return mapped;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : address(std::exchange(other.address, nullptr)), size(std::exchange(other.size, 0)),
      resolved(std::move(other.resolved)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(address, other.address);
  std::swap(size, other.size);
  std::swap(resolved, other.resolved);
  return *this;
}

MappedFile::~MappedFile() {
  if (address)
    munmap(address, size);
}

} // namespace kfuse
