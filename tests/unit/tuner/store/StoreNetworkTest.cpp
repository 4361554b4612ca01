// A store on a network file system. There is none here: this program's own statfs() says so of a folder. Locks and
// files are the local ones.
#include "ChildProcess.h"
#include "StoreFixture.h"
#include "TemporaryFolder.h"

#include "tuner/store/StoreFile.h"
#include "tuner/store/StorePlace.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utility>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

constexpr unsigned long nfs = 0x6969;

/// The file system that statfs reports for what lies in `folder`; empty: nothing.
struct {
  std::string folder;
  unsigned long magic = nfs;
} mounted;

/// What lies in it is on a network file system while this lives.
struct NetworkFolder : TemporaryFolder {
  NetworkFolder() { mounted = {path.string(), nfs}; }
  ~NetworkFolder() { mounted = {}; }
  fs::path store = path / "store.db";
};

/// What the file's header says: it is 2 for a store whose readers and writers share a write-ahead log.
int journalFormat(const fs::path &store) { return readFile(store)[18]; }

/// With half of a transaction in the file, for the next one to roll back.
void dieWriting(const fs::path &store) {
  (*StoreFile::open(store, {}))->write([](SQLite::Database &db) {
    db.exec("UPDATE choices SET config = 'torn'");
    sqlite3_db_cacheflush(db.getHandle());
    raise(SIGKILL);
  });
}

} // namespace

/// Called in place of the C library's.
extern "C" int statfs(const char *path, struct statfs *facts) noexcept {
  const long status = syscall(SYS_statfs, path, facts);
  if (!mounted.folder.empty() && std::string(path).starts_with(mounted.folder))
    facts->f_type = static_cast<decltype(facts->f_type)>(mounted.magic);
  return static_cast<int>(status);
}

/// NFS locks nothing that was opened for reading alone, as folders are: hosts are not kept apart while they open.
extern "C" int flock(int file, int operation) noexcept {
  if (mounted.folder.empty())
    return static_cast<int>(syscall(SYS_flock, file, operation));
  errno = EBADF;
  return -1;
}

TEST_CASE("network store: file systems are told by their magic numbers") {
  NetworkFolder folder;
  writeFile(folder.store, "");
  for (unsigned long network : {0x6969UL, 0x517bUL, 0xff534d42UL, 0xfe534d42UL, 0x00c36400UL, 0x0bd00bd0UL,
                                0x47504653UL, 0x5346414fUL, 0x65735546UL, 0x01021997UL}) {
    mounted.magic = network;
    CHECK_MESSAGE(isNetworkFileSystem(folder.store), network);
  }
  for (unsigned long local : {0xef53UL, 0x58465342UL, 0x9123683eUL, 0x01021994UL, 0x794c7630UL, 0x2fc12fc1UL}) {
    mounted.magic = local;
    CHECK_MESSAGE(!isNetworkFileSystem(folder.store), local);
  }
  CHECK_FALSE(isNetworkFileSystem(folder.path / "absent"));
}

TEST_CASE("network store: it works without a write-ahead log, and one line says so") {
  NetworkFolder folder;
  Warnings warnings;
  {
    std::unique_ptr<Store> store = mustOpen(folder.store, warnings.sink());
    std::unique_ptr<Store> other = mustOpen(folder.store);
    for (int i = 0; i < 5; ++i)
      putRow(i % 2 == 0 ? *store : *other, i);
    for (int i = 0; i < 5; ++i)
      CHECK(holdsRow(*store, i));
    CHECK(store->lease("region 1"));
    CHECK_FALSE(store->problem()); // What is tuned is kept.
    CHECK(filesIn(folder.path) == std::vector<std::string>{"store.db"});
  }
  CHECK(warnings.text == "store " + folder.store.string() +
                             " is on a network file system: slower journal; set KFUSE_STORE to a local file\n");
  CHECK(journalFormat(folder.store) == 1);
  CHECK(holdsRow(*mustOpenToRead(folder.store), 4));
}

TEST_CASE("network store: one that was on a local disk leaves its write-ahead log without shared memory") {
  NetworkFolder folder;
  const std::string network = std::exchange(mounted.folder, "");
  waitFor(spawn([&] {
    std::unique_ptr<Store> store = mustOpen(folder.store);
    putRow(*store, 1);
    raise(SIGKILL); // So that the row is in the log alone.
    return 0;
  }));
  CHECK(journalFormat(folder.store) == 2);
  REQUIRE(fs::remove(folder.store.string() + "-shm"));
  fs::create_directory(folder.store.string() + "-shm"); // Whoever wants to share memory fails.
  mounted.folder = network;
  {
    std::unique_ptr<Store> store = mustOpen(folder.store);
    CHECK(holdsRow(*store, 1));
    putRow(*store, 2);
    CHECK_FALSE(store->problem());
    putRow(*mustOpen(folder.store), 3); // It keeps nobody out.
    CHECK(holdsRow(*store, 3));
  }
  CHECK(journalFormat(folder.store) == 1);
  CHECK_FALSE(fs::exists(folder.store.string() + "-wal"));
}

TEST_CASE("network store: one whose writer was killed is not read as it lies there") {
  NetworkFolder folder;
  putRow(*mustOpen(folder.store), 1);
  CHECK(waitFor(spawn([&] {
          dieWriting(folder.store);
          return 0;
        })) == -1);
  REQUIRE(fs::exists(folder.store.string() + "-journal"));
  Result<std::unique_ptr<StoreFile>> read = StoreFile::openToRead(folder.store, {});
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::Io);
  CHECK(read.error().message == "store " + folder.store.string() +
                                    " cannot be read: it was cut off while written: open it for writing once, as "
                                    "kfuse tune does");
  CHECK(holdsRow(*mustOpen(folder.store), 1));
  CHECK(holdsRow(*mustOpenToRead(folder.store), 1));
}

TEST_CASE("network store: hosts that create one at the same time do not block each other") {
  for (int attempt = 0; attempt < 5; ++attempt) {
    NetworkFolder folder;
    int start[2];
    REQUIRE(pipe(start) == 0);
    std::array<pid_t, 4> children{};
    for (int process = 0; process < 4; ++process)
      children[static_cast<std::size_t>(process)] = spawn([&] {
        close(start[1]);
        char none = 0;
        [[maybe_unused]] const ssize_t ended = read(start[0], &none, 1); // All begin as the parent closes its end.
        Result<std::unique_ptr<Store>> store = Store::open(folder.store, {});
        if (!store)
          return 1;
        putRow(**store, process);
        return (*store)->problem() ? 2 : 0;
      });
    close(start[0]), close(start[1]);
    for (pid_t child : children)
      CHECK(waitFor(child) == 0);
    for (int row = 0; row < 4; ++row)
      CHECK(holdsRow(*mustOpenToRead(folder.store), row));
    CHECK(filesIn(folder.path) == std::vector<std::string>{"store.db"});
  }
}

TEST_CASE("network store: eight processes write it, some are killed, and nothing written is lost") {
  NetworkFolder folder;
  int pipeEnds[2];
  REQUIRE(pipe(pipeEnds) == 0);
  std::array<pid_t, 8> children{};
  for (int process = 0; process < 8; ++process)
    children[static_cast<std::size_t>(process)] = spawn([&] {
      Result<std::unique_ptr<Store>> store = Store::open(folder.store, {});
      for (int i = 0; store && i < 10; ++i) {
        const int row = 10 * process + i;
        putRow(**store, row);
        if (!(*store)->problem() && write(pipeEnds[1], &row, sizeof row) != sizeof row)
          return 1;
        if (process % 2 == 0 && i == 4)
          dieWriting(folder.store);
      }
      return store && !(*store)->problem() ? 0 : 2;
    });
  close(pipeEnds[1]);
  for (int process = 0; process < 8; ++process)
    CHECK(waitFor(children[static_cast<std::size_t>(process)]) == (process % 2 == 0 ? -1 : 0));
  std::unique_ptr<Store> store = mustOpen(folder.store);
  int written = 0;
  for (int row = 0; read(pipeEnds[0], &row, sizeof row) == sizeof row; ++written)
    CHECK(holdsRow(*store, row));
  close(pipeEnds[0]);
  CHECK(written == 4 * 10 + 4 * 5);
  CHECK_FALSE(store->problem());
}
