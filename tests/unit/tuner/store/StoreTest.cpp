// What is put into a store is found again, by others at the same time and by readers.
#include "ChildProcess.h"
#include "StoreFixture.h"
#include "TemporaryFolder.h"

#include <array>
#include <chrono>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

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
