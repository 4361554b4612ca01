#include "ChildProcess.h"
#include "StoreFixture.h"
#include "TemporaryFolder.h"
#include "tests/Skip.h"

#include <array>
#include <chrono>
#include <csignal>
#include <random>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

constexpr int rows = 12;

void writeStore(const fs::path &path) {
  std::unique_ptr<Store> store = mustOpen(path);
  for (int i = 0; i < rows; ++i)
    putRow(*store, i);
}

} // namespace

TEST_CASE("store: everything put is found by the next process") {
  TemporaryFolder folder;
  Peaks peaks{4.2e6, 3.9e6, 4.1e6, 67e6, 60e6, 790e6, 700e6, 1.3, true};
  {
    std::unique_ptr<Store> store = mustOpen(folder.path / "deep/er/store.db");
    putRow(*store, 1);
    putRow(*store, 2);
    Choice untimed = choiceNumber(3);
    untimed.timing.reset();
    store->put(untimed, binaryNumber(3));
    store->put("Fake GPU", peaks);
  }
  std::unique_ptr<Store> store = mustOpen(folder.path / "deep/er/store.db");
  CHECK(holdsRow(*store, 1));
  CHECK(holdsRow(*store, 2));
  CHECK_FALSE(store->findChoice("region 3")->timing);
  CHECK(store->findBinary("kernel 1")->compileMs == 31.4);
  CHECK(store->findBinary("kernel 1")->log == "ptxas info");
  CHECK(store->findPeaks("Fake GPU") == peaks);
  Peaks other = peaks; // Another process has raised another one.
  other.readBytesPerUs = 4.5e6;
  other.copyBytesPerUs = 4e6;
  store->put("Fake GPU", other);
  peaks.readBytesPerUs = 4.5e6;
  CHECK(store->findPeaks("Fake GPU") == peaks);
  CHECK_FALSE(store->findChoice("region 4"));
  CHECK_FALSE(store->findMeasurement("kernel 4"));
  CHECK_FALSE(store->findBinary("kernel 4"));
  CHECK_FALSE(store->findPeaks("another GPU"));
  CHECK_FALSE(store->problem());
}

TEST_CASE("store: a new choice replaces the old one and its binary") {
  TemporaryFolder folder;
  std::unique_ptr<Store> store = mustOpen(folder.path / "store.db");
  putRow(*store, 1);
  Choice better = choiceNumber(1);
  better.kernel = "kernel 2";
  store->put(better, binaryNumber(2));
  CHECK(store->findChoice(better.region)->kernel == "kernel 2");
  CHECK(store->findBinary("kernel 2"));
  CHECK_FALSE(store->findBinary("kernel 1"));
}

TEST_CASE("store: a better choice that another process stored meanwhile stays") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  std::unique_ptr<Store> mine = mustOpen(path), other = mustOpen(path);
  other->put(choiceNumber(1), binaryNumber(1));

  Choice offered = choiceNumber(1);
  offered.kernel = "kernel 2";
  SUBCASE("timed before untimed") { offered.timing.reset(); }
  SUBCASE("more effort before less") { offered.effort = Effort::Quick; }
  offered.at = mine->findChoice(offered.region)->at - 1; // Its search had begun before.
  mine->put(offered, binaryNumber(2));
  CHECK(mine->findChoice(offered.region)->kernel == "kernel 1");
  CHECK(mine->findBinary("kernel 1"));
  CHECK_FALSE(mine->findBinary("kernel 2"));

  offered.at = mine->findChoice(offered.region)->at + 1; // It saw that choice, of another driver say, and replaces it.
  mine->put(offered, binaryNumber(2));
  CHECK(mine->findChoice(offered.region)->kernel == "kernel 2");
}

TEST_CASE("store: a trial under way is no result, and is refused after the machine went down twice with it") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  std::unique_ptr<Store> store = mustOpen(path);
  auto goDown = [&] { execute(path, "UPDATE measurements SET boot = 'an earlier one'"); };
  Measurement trial = measurementNumber(2);
  CHECK(store->beginTrial(trial));
  CHECK_FALSE(store->findMeasurement(trial.kernel));
  for (int kill = 0; kill < 5; ++kill)
    CHECK(store->beginTrial(trial)); // Its process was killed: not its doing.
  goDown();
  CHECK(store->beginTrial(trial));
  goDown();
  CHECK_FALSE(store->beginTrial(trial));
  store->put(trial);
  CHECK(store->beginTrial(trial)); // It came back: measuring it again is fine.
  goDown();
  CHECK(store->beginTrial(trial));
  trial.driver = "2.0";
  goDown();
  CHECK(store->beginTrial(trial)); // Another driver counts anew.
  goDown();
  CHECK(store->beginTrial(trial));
  goDown();
  CHECK_FALSE(store->beginTrial(trial));
}

TEST_CASE("store: the default path follows the environment") {
  const char *store = std::getenv("KFUSE_STORE"), *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  setenv("KFUSE_STORE", "/a/b.db", 1);
  CHECK(Store::defaultPath() == "/a/b.db");
  unsetenv("KFUSE_STORE");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  CHECK(Store::defaultPath() == "/cache/kfuse/store.db");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/me", 1);
  CHECK(Store::defaultPath() == "/home/me/.cache/kfuse/store.db");

  TemporaryFolder folder;
  setenv("XDG_CACHE_HOME", folder.path.c_str(), 1);
  fs::create_directories(folder.path / "kfuse");
  writeFile(folder.path / "kfuse/store.db", "the first page is gone");
  Warnings warnings;
  std::unique_ptr<Store> healed = mustOpen("", warnings.sink()); // What lies there is kfuse's own.
  putRow(*healed, 1);
  CHECK(holdsRow(*healed, 1));
  CHECK(readFile(folder.path / "kfuse/store.db.corrupt-1") == "the first page is gone");
  CHECK(warnings.text.find("moved aside to store.db.corrupt-1") != std::string::npos);
  store ? setenv("KFUSE_STORE", store, 1) : unsetenv("KFUSE_STORE");
  cache ? setenv("XDG_CACHE_HOME", cache, 1) : unsetenv("XDG_CACHE_HOME");
  home ? setenv("HOME", home, 1) : unsetenv("HOME");
}

TEST_CASE("store: a file that was named and is something else is left alone") {
  TemporaryFolder folder;
  fs::path path = folder.path / "model.onnx";
  writeFile(path, "precious weights");
  Result<std::unique_ptr<Store>> text = Store::open(path, {});
  REQUIRE_FALSE(text);
  CHECK(text.error().code == ErrorCode::Io);
  CHECK(text.error().message == path.string() + " is not a kfuse store: name another file, or move this one away");
  CHECK(readFile(path) == "precious weights");

  fs::path database = folder.path / "other.db";
  execute(database, "CREATE TABLE mail(text); INSERT INTO mail VALUES('hello')");
  std::string before = readFile(database);
  CHECK_FALSE(Store::open(database, {}));
  CHECK(readFile(database) == before);

  CHECK_FALSE(Store::open(folder.path, {})); // A folder.
}

TEST_CASE("store: a measurement keeps the time at which its trial began") {
  TemporaryFolder folder;
  std::unique_ptr<Store> store = mustOpen(folder.path / "store.db");
  Measurement measurement = measurementNumber(2);
  double before = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  CHECK(store->beginTrial(measurement));
  double began = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  store->put(measurement);
  double first = store->findMeasurement(measurement.kernel)->at;
  CHECK(first >= before);
  CHECK(first <= began);
  store->put(measurement); // The finalists' second visit.
  CHECK(store->findMeasurement(measurement.kernel)->at == first);
}

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

TEST_CASE("store: eight processes write one fresh file at once") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  std::array<pid_t, 8> children{};
  for (int process = 0; process < 8; ++process)
    children[static_cast<std::size_t>(process)] = spawn([&] {
      Result<std::unique_ptr<Store>> store = Store::open(path, {});
      for (int i = 0; store && i < 10; ++i)
        putRow(**store, 10 * process + i);
      return store && !(*store)->problem() ? 0 : 1;
    });
  for (pid_t child : children)
    CHECK(waitFor(child) == 0);
  std::unique_ptr<Store> store = mustOpen(path);
  for (int i = 0; i < 80; ++i)
    CHECK(holdsRow(*store, i));
}

TEST_CASE("store: eight threads share one store") {
  TemporaryFolder folder;
  std::unique_ptr<Store> store = mustOpen(folder.path / "store.db");
  {
    std::array<std::jthread, 8> threads;
    for (std::size_t thread = 0; thread < threads.size(); ++thread)
      threads[thread] = std::jthread([&, thread] {
        for (int i = 0; i < 10; ++i)
          putRow(*store, 10 * static_cast<int>(thread) + i);
      });
  }
  for (int i = 0; i < 80; ++i)
    CHECK(holdsRow(*store, i));
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

TEST_CASE("store: opened to read it is left as it is") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  writeStore(path);
  const std::string before = readFile(path);
  Warnings warnings;
  {
    std::unique_ptr<Store> store = mustOpenToRead(path, warnings.sink());
    for (int i = 0; i < rows; ++i)
      CHECK(holdsRow(*store, i));
    CHECK(store->lease("region 1"));
    CHECK(store->sharedFolder().empty());
    putRow(*store, 50);
    CHECK(filesIn(folder.path) == std::vector<std::string>{"store.db"});
  }
  CHECK(filesIn(folder.path) == std::vector<std::string>{"store.db"});
  CHECK(readFile(path) == before);
  CHECK(warnings.text.empty());
}

TEST_CASE("store: opened to read where there is none it is empty, says why, and makes none") {
  TemporaryFolder folder;
  fs::path path = folder.path / "deep/store.db";
  Warnings warnings;
  std::unique_ptr<Store> store = mustOpenToRead(path, warnings.sink());
  CHECK_FALSE(store->findChoice(choiceNumber(1).region));
  CHECK(store->problem()->message ==
        "there is no store " + path.string() + ": tune something first, or name another file");
  CHECK(filesIn(folder.path).empty());
  writeFile(folder.path / "empty.db", ""); // A process that was killed as it began leaves it.
  CHECK(mustOpenToRead(folder.path / "empty.db")->problem());
  CHECK(readFile(folder.path / "empty.db").empty());
  CHECK(warnings.text.empty());
  writeFile(folder.path / "mail.txt", "hello");
  CHECK_FALSE(Store::openToRead(folder.path / "mail.txt", {}));
  fs::create_symlink("loop.db", folder.path / "loop.db"); // It cannot be looked at, so nothing says that it is absent.
  Result<std::unique_ptr<Store>> loop = Store::openToRead(folder.path / "loop.db", {});
  REQUIRE_FALSE(loop);
  CHECK(loop.error().code == ErrorCode::Io);
  CHECK(loop.error().message ==
        "store " + (folder.path / "loop.db").string() + " cannot be read: Too many levels of symbolic links");
}

TEST_CASE("store: a look at its newest target waits for nobody") {
  TemporaryFolder folder;
  const fs::path path = folder.path / "store.db", pipe = folder.path / "pipe";
  writeStore(path);
  CHECK(Store::newestIn(path).target == choiceNumber(1).target);
  CHECK(Store::newestIn(path).sku == choiceNumber(1).sku);
  sqlite3 *other = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &other) == SQLITE_OK);
  REQUIRE(sqlite3_exec(other, "PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE", nullptr, nullptr, nullptr) ==
          SQLITE_OK);
  const auto start = std::chrono::steady_clock::now();
  (void)Store::newestIn(path);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  sqlite3_close(other);
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(Store::newestIn(pipe).target.empty());
  Result<std::unique_ptr<Store>> piped = Store::openToRead(pipe, {});
  REQUIRE_FALSE(piped);
  CHECK(piped.error().message == pipe.string() + " is not a kfuse store: name another file, or move this one away");
}

TEST_CASE("store: a reader finds what others write meanwhile") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  writeStore(path);
  std::unique_ptr<Store> early = mustOpenToRead(path);
  CHECK(holdsRow(*early, 1));
  std::unique_ptr<Store> writer = mustOpen(path);
  putRow(*writer, 20);
  std::unique_ptr<Store> late = mustOpenToRead(path);
  CHECK(holdsRow(*late, 20)); // From the write-ahead log.
  late.reset();
  writer.reset(); // Now it is all in the file, of which the first reader has seen pages.
  for (int i = 0; i < rows; ++i)
    CHECK(holdsRow(*early, i));
  CHECK(holdsRow(*early, 20));
  CHECK_FALSE(early->problem());
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
