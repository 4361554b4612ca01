#include "ir/import/MappedFile.h"

#include "llvm/ADT/ScopeExit.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kfuse::ir {

static std::string placeOf(int file) {
  std::error_code failed;
  const std::filesystem::path place = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), failed);
  return failed ? "" : place.string();
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string &path) {
  auto failure = [&](const std::string &reason) {
    return Error{ErrorCode::Io, "cannot read '" + path + "': " + reason};
  };
  // Non-blocking, or a named pipe without a writer would hang here.
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return failure(std::strerror(errno));
  auto closing = llvm::make_scope_exit([&] { ::close(file); });
  struct stat status{};
  if (fstat(file, &status) != 0)
    return failure(std::strerror(errno));
  if (S_ISDIR(status.st_mode))
    return failure("it is a folder; name the file in it");
  if (!S_ISREG(status.st_mode))
    return failure("it is not a regular file");
  void *data = nullptr;
  if (status.st_size > 0) { // mmap refuses empty files.
    data = mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED)
      return failure(std::strerror(errno));
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(data, status.st_size, placeOf(file)));
}

MappedFile::~MappedFile() {
  if (data)
    munmap(data, size);
}

} // namespace kfuse::ir
