#include "kfuse/inspect.h"

#include "tuner/api/NoThrow.h"
#include "tuner/store/StorePlace.h"
#include "tuner/store/StoreUpkeep.h"

namespace kfuse {
namespace {

/// What `read` makes of the store, which is only read.
template <class Read> Result<std::string> fromStore(const std::string &path, const Read &read) {
  return withoutThrowing([&]() -> Result<std::string> {
    if (const std::size_t nul = path.find('\0'); nul != std::string::npos)
      return Error{ErrorCode::Usage, "the store has a NUL in it, after '" + path.substr(0, nul) + "'"};
    Result<std::unique_ptr<tuner::StoreFile>> file = tuner::StoreFile::openToRead(
        path.empty() ? tuner::defaultStorePath() : std::filesystem::path(path), [](const std::string &) {});
    if (!file)
      return file.error();
    std::string text = read(**file);
    if (std::optional<Error> problem = (*file)->problem())
      return *problem;
    return text;
  });
}

} // namespace

std::string defaultStore() { return tuner::defaultStorePath().string(); }

Result<std::string> exportStore(const std::string &path) {
  return fromStore(path, [](tuner::StoreFile &file) { return tuner::toJson(tuner::readContents(file)); });
}

Result<std::string> verifyStore(const std::string &path) {
  return fromStore(path, [](tuner::StoreFile &file) { return tuner::toJson(tuner::verify(file)); });
}

} // namespace kfuse
