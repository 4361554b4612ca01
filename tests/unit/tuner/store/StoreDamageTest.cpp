// Damaged files, full disks and killed processes cost a store rows at most.
#include "ChildProcess.h"
#include "StoreFixture.h"
#include "TemporaryFolder.h"
#include "tests/Skip.h"

#include <csignal>
#include <random>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

TEST_CASE("store: an empty file becomes a store") {
  TemporaryFolder folder;
  writeFile(folder.path / "store.db", "");
  writeStore(folder.path / "store.db");
  CHECK(holdsRow(*mustOpen(folder.path / "store.db"), 0));
}

TEST_CASE("store: a truncated file is moved aside and begun anew") {
  TemporaryFolder folder;
  writeStore(folder.path / "whole.db");
  std::string whole = readFile(folder.path / "whole.db");
  int aside = 0;
  for (std::size_t length = 100; length < whole.size(); length += 1500) {
    fs::path path = folder.path / ("cut" + std::to_string(length) + ".db");
    writeFile(path, whole.substr(0, length));
    std::unique_ptr<Store> store = mustOpen(path);
    for (int i = 0; i < rows; ++i)
      holdsRow(*store, i);
    putRow(*store, 0);
    CHECK(holdsRow(*store, 0));
    CHECK_FALSE(store->problem());
    aside += fs::exists(path.string() + ".corrupt-1") ? 1 : 0;
  }
  CHECK(aside > 0);
}

TEST_CASE("store: a flipped bit costs rows at most, never gives a wrong one") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  writeStore(path);
  std::string whole = readFile(path);
  std::mt19937 random(1);
  int missing = 0, refused = 0;
  for (int trial = 0; trial < 150; ++trial) {
    std::string flipped = whole;
    // Every other flip hits the first page, where the schema is.
    std::size_t at = random() % (trial % 2 == 0 ? 4096 : whole.size());
    flipped[at] ^= static_cast<char>(1 << random() % 8);
    for (const fs::directory_entry &file : fs::directory_iterator(folder.path))
      fs::remove(file);
    writeFile(path, flipped);
    Result<std::unique_ptr<Store>> store = Store::open(path, {});
    if (!store) { // The marks in the header that say whose file it is.
      CHECK(readFile(path) == flipped);
      ++refused;
      continue;
    }
    for (int i = 0; i < rows; ++i)
      missing += holdsRow(**store, i) ? 0 : 1;
    putRow(**store, 100); // May be the one that meets the damage, half-way.
    putRow(**store, 100);
    CHECK(holdsRow(**store, 100));
  }
  CHECK(missing > 0);
  CHECK(refused < 10);
}

TEST_CASE("store: a damaged write-ahead log costs rows at most, never gives a wrong one") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db", log = path.string() + "-wal";
  writeStore(path);
  waitFor(spawn([&] {
    std::unique_ptr<Store> store = mustOpen(path);
    for (int i = rows; i < 2 * rows; ++i)
      putRow(*store, i);
    raise(SIGKILL); // Before the log went into the file.
    return 0;
  }));
  const std::string file = readFile(path), whole = readFile(log);
  REQUIRE(whole.size() > 4096);
  std::mt19937 random(1);
  int missing = 0;
  for (int trial = 0; trial < 60; ++trial) {
    std::string damaged = whole;
    if (trial % 3 == 0)
      damaged.resize(random() % whole.size());
    else if (trial % 3 == 1)
      damaged[random() % whole.size()] ^= static_cast<char>(1 << random() % 8);
    else
      damaged = std::string(whole.size(), 'x'); // Another file's.
    for (const fs::directory_entry &left : fs::directory_iterator(folder.path))
      fs::remove(left);
    writeFile(path, file);
    writeFile(log, damaged);
    {
      std::unique_ptr<Store> reader = mustOpenToRead(path);
      for (int i = 0; i < rows; ++i)
        CHECK(holdsRow(*reader, i));
    }
    std::unique_ptr<Store> store = mustOpen(path);
    for (int i = 0; i < rows; ++i)
      CHECK(holdsRow(*store, i));
    for (int i = rows; i < 2 * rows; ++i)
      missing += holdsRow(*store, i) ? 0 : 1;
    putRow(*store, 100);
    CHECK(holdsRow(*store, 100));
    CHECK_FALSE(store->problem());
    CHECK_FALSE(fs::exists(path.string() + ".corrupt-1"));
  }
  CHECK(missing > 0);
}

TEST_CASE("store: kill -9 in the middle of writing loses nothing that was written") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  int pipeEnds[2];
  int written = 0;
  for (int round = 0; round < 30; ++round) {
    REQUIRE(pipe(pipeEnds) == 0);
    pid_t child = spawn([&] {
      Result<std::unique_ptr<Store>> store = Store::open(path, {});
      for (int i = written; store; ++i) {
        putRow(**store, i);
        if (write(pipeEnds[1], "x", 1) != 1)
          return 1;
      }
      return 1;
    });
    close(pipeEnds[1]);
    char byte = 0;
    for (int i = 0; i < 3 && read(pipeEnds[0], &byte, 1) == 1; ++i)
      ++written;
    usleep(static_cast<useconds_t>(round * 131 % 2000)); // Anywhere within the next writes.
    kill(child, SIGKILL);
    waitFor(child);
    while (read(pipeEnds[0], &byte, 1) == 1)
      ++written;
    close(pipeEnds[0]);
    std::unique_ptr<Store> store = mustOpen(path);
    for (int i = 0; i < written; ++i)
      CHECK(holdsRow(*store, i));
    CHECK_FALSE(store->problem());
    CHECK_FALSE(fs::exists(path.string() + ".corrupt-1"));
  }
  CHECK(written >= 60);
}

TEST_CASE("store: a file that may not be written is read, and says so once") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  writeStore(path);
  chmod(path.c_str(), 0444);
  chmod(folder.path.c_str(), 0555);
  int status = waitFor(spawn([&] {
    if (geteuid() == 0 && setuid(65534) != 0)
      return 1;
    Warnings warnings;
    Result<std::unique_ptr<Store>> store = Store::open(path, warnings.sink());
    if (!store || !(*store)->problem())
      return 2;
    if (!(*store)->findChoice(choiceNumber(1).region) || !(*store)->findBinary(choiceNumber(1).kernel))
      return 3;
    (*store)->put(choiceNumber(50), binaryNumber(50));
    (*store)->put(choiceNumber(51), binaryNumber(51));
    bool once = warnings.text.find("cannot be written") == warnings.text.rfind("cannot be written");
    return once && warnings.text.find("new results are not kept") != std::string::npos ? 0 : 4;
  }));
  chmod(folder.path.c_str(), 0755);
  CHECK(status == 0);
}

TEST_CASE("store: on a read-only file system it is read, and what a killed process had written, too") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  writeStore(path);
  CHECK(waitFor(spawn([&] {
          putRow(*mustOpen(path), 30);
          std::unique_ptr<Store> store = mustOpen(path);
          putRow(*store, 31);
          raise(SIGKILL);
          return 0;
        })) == -1);
  CHECK(fs::exists(path.string() + "-wal"));
  int status = waitFor(spawn([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount(folder.path.c_str(), folder.path.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
        mount(nullptr, folder.path.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0)
      return 77;
    Warnings warnings;
    Result<std::unique_ptr<Store>> store = Store::openToRead(path, warnings.sink());
    if (!store || !warnings.text.empty())
      return 1;
    return holdsRow(**store, 1) && holdsRow(**store, 30) && holdsRow(**store, 31) ? 0 : 2;
  }));
  if (status == 77)
    kfuse::testing::skip("no right to mount a read-only file system");
  else
    CHECK(status == 0);
}

TEST_CASE("store: where no file can be made, results are kept in memory") {
  Warnings warnings;
  std::unique_ptr<Store> store = mustOpen("/proc/no/such/store.db", warnings.sink());
  putRow(*store, 1);
  CHECK(holdsRow(*store, 1));
  CHECK(store->problem()->code == ErrorCode::Io);
  CHECK(warnings.text.find("results are kept in memory only") != std::string::npos);
}

TEST_CASE("store: a file that may grow no further keeps what it has") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  int status = waitFor(spawn([&] {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{200 * 1024, 200 * 1024};
    Warnings warnings;
    Result<std::unique_ptr<Store>> store = Store::open(path, warnings.sink());
    if (!store)
      return 1;
    putRow(**store, 1);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
      return 2;
    for (int i = 2; i < 200; ++i)
      putRow(**store, i);
    if (!(*store)->problem() || warnings.text.find("results are not kept") == std::string::npos)
      return 3;
    return (*store)->findChoice(choiceNumber(1).region) ? 0 : 4;
  }));
  CHECK(status == 0);
  CHECK(holdsRow(*mustOpen(path), 1));
}

TEST_CASE("store: a full disk keeps what it has") {
  TemporaryFolder folder;
  int status = waitFor(spawn([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder.path.c_str(), "tmpfs", 0, "size=256k") != 0)
      return 77;
    Warnings warnings;
    Result<std::unique_ptr<Store>> store = Store::open(folder.path / "store.db", warnings.sink());
    if (!store)
      return 1;
    for (int i = 0; i < 200; ++i)
      putRow(**store, i);
    if (!(*store)->problem() || !(*store)->findChoice(choiceNumber(0).region))
      return 2;
    store->reset();
    Result<std::unique_ptr<Store>> again = Store::open(folder.path / "store.db", warnings.sink());
    return again && (*again)->findBinary(choiceNumber(0).kernel) ? 0 : 3;
  }));
  if (status == 77)
    kfuse::testing::skip("no right to mount a small file system");
  else
    CHECK(status == 0);
}
