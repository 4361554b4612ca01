#include "runtime/MappedFile.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kfuse::runtime {
namespace {

Error cannotRead(const std::string &path, const std::string &why) {
  return {ErrorCode::Io, "cannot read " + path + ": " + why};
}

} // namespace

Result<MappedFile> MappedFile::open(const std::string &path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return cannotRead(path, std::strerror(errno));
  struct stat facts{};
  const bool isPlain = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
  MappedFile mapped;
  if (isPlain && facts.st_size > 0) // Nothing can be mapped of an empty file.
    mapped.address = mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  const int failure = mapped.address == MAP_FAILED ? errno : 0;
  close(file);
  if (!isPlain)
    return cannotRead(path, "it is no plain file");
  if (failure != 0) {
    mapped.address = nullptr;
    return cannotRead(path, std::strerror(failure));
  }
  mapped.size = static_cast<std::size_t>(facts.st_size);
  return mapped;
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : address(std::exchange(other.address, nullptr)), size(std::exchange(other.size, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(address, other.address);
  std::swap(size, other.size);
  return *this;
}

MappedFile::~MappedFile() {
  if (address)
    munmap(address, size);
}

} // namespace kfuse::runtime
