#include "tuner/store/StorePlace.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace fs = std::filesystem;

namespace kfuse::tuner {
namespace {

constexpr std::chrono::milliseconds lockPause(10);
constexpr std::chrono::seconds longestLock(10);

fs::path environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

fs::path homeFolder() {
  fs::path home = environment("HOME");
  const passwd *user = home.empty() ? getpwuid(geteuid()) : nullptr; // Services have no HOME.
  return user ? fs::path(user->pw_dir) : home;
}

} // namespace

fs::path cacheStorePath() {
  fs::path cache = environment("XDG_CACHE_HOME");
  return (cache.empty() ? homeFolder() / ".cache" : cache) / "kfuse/store.db";
}

fs::path defaultStorePath() {
  fs::path named = environment("KFUSE_STORE");
  return named.empty() ? cacheStorePath() : named;
}

fs::path folderOf(const fs::path &path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

void makeFolders(const fs::path &folder) {
  fs::path made;
  for (const fs::path &name : folder) {
    made /= name;
    ::mkdir(made.c_str(), 0755);
  }
}

bool isNetworkFileSystem(const fs::path &file) {
  // Magic numbers from statfs(2), linux/magic.h and their own sources. FUSE: sshfs, s3fs, virtiofs.
  constexpr unsigned long nfs = 0x6969, smb = 0x517b, cifs = 0xff534d42, smb2 = 0xfe534d42, ceph = 0x00c36400,
                          lustre = 0x0bd00bd0, gpfs = 0x47504653, afs = 0x5346414f, kafs = 0x6b414653,
                          fuse = 0x65735546, plan9 = 0x01021997, beegfs = 0x19830326, panfs = 0xaad7aaea,
                          ocfs2 = 0x7461636f, gfs2 = 0x01161970, orangefs = 0x20030528, vboxsf = 0x786f4256;
  constexpr std::array magics{nfs,  smb,   cifs,   smb2,  ceph,  lustre, gpfs,     afs,   kafs,
                              fuse, plan9, beegfs, panfs, ocfs2, gfs2,   orangefs, vboxsf};
  struct statfs facts{};
  if (statfs(file.c_str(), &facts) != 0)
    return false;
  return std::find(magics.begin(), magics.end(), static_cast<unsigned long>(facts.f_type) & 0xffffffff) != magics.end();
}

FolderLock::FolderLock(const fs::path &folder)
    : descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  for (auto waited = lockPause * 0; descriptor >= 0 && waited < longestLock; waited += lockPause) {
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
      return;
    std::this_thread::sleep_for(lockPause);
  }
}

FolderLock::~FolderLock() {
  if (descriptor >= 0)
    ::close(descriptor);
}

Result<fs::path> moveAside(const fs::path &path) {
  fs::path aside;
  for (int n = 1; aside.empty() || fs::exists(aside); ++n)
    aside = path.string() + ".corrupt-" + std::to_string(n);
  std::error_code failed;
  fs::rename(path, aside, failed);
  if (failed)
    return Error{ErrorCode::Io,
                 path.string() + " is damaged and cannot be moved aside (" + failed.message() + "): remove it"};
  for (const char *companion : {"-wal", "-shm", "-journal"})
    fs::rename(path.string() + companion, aside.string() + companion, failed);
  return aside;
}

} // namespace kfuse::tuner
