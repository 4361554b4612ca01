#include "ChildProcess.h"
#include "StoreFixture.h"
#include "TemporaryFolder.h"

#include "tuner/store/StoreFile.h"
#include "tuner/store/StoreUpkeep.h"

#include <csignal>
#include <unistd.h>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

void replaceAll(std::string &text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

} // namespace

TEST_CASE("store: the store of a newer kfuse is left alone") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  putRow(*mustOpen(path), 0);
  execute(path, "PRAGMA user_version=7");
  const std::string before = readFile(path);
  const std::string refusal = "store " + path.string() +
                              " has schema 7 and this kfuse reads 4: use the kfuse that wrote it, or name another file";
  Result<std::unique_ptr<Store>> store = Store::open(path, {});
  REQUIRE_FALSE(store);
  CHECK(store.error().message == refusal);
  Result<std::unique_ptr<StoreFile>> read = StoreFile::openToRead(path, {});
  REQUIRE_FALSE(read);
  CHECK(read.error().message == refusal);
  CHECK(readFile(path) == before);
  CHECK_FALSE(fs::exists(path.string() + ".corrupt-1"));
}

TEST_CASE("store: a store of an older schema becomes one of today's with every row but machine code") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  std::string sql = readFile(KFUSE_TEST_DIR "/data/store_schema2.sql");
  SUBCASE("as its last day wrote it") {}
  SUBCASE("as its first day did") {
    replaceAll(sql, ", boot TEXT, lost_boots INT NOT NULL DEFAULT 0)", ", starts INT NOT NULL DEFAULT 1)");
    replaceAll(sql, ",NULL,0);", ",1);");
    replaceAll(sql, ",'a boot',0);", ",1);");
  }
  SUBCASE("of schema 3") { sql = readFile(KFUSE_TEST_DIR "/data/store_schema3.sql"); }
  execute(path, sql.c_str());
  const std::string before = readFile(path);
  {
    Result<std::unique_ptr<StoreFile>> read = StoreFile::openToRead(path, {});
    REQUIRE(read);
    CHECK(readContents(**read).choices.size() == 2);
    CHECK(readFile(path) == before); // Whoever only looks changes nothing.
  }
  Warnings warnings;
  std::unique_ptr<Store> store = mustOpen(path, warnings.sink());
  CHECK(warnings.text == "store " + path.string() + " was an older kfuse's: it is of schema 4 now\n");
  std::optional<Choice> choice = store->findChoice("region 1");
  REQUIRE(choice);
  CHECK(same(*choice, choiceNumber(1)));
  CHECK(choice->at == 1795303735.9431934356);
  CHECK(toString(choice->stop) == "none");
  CHECK_FALSE(store->findChoice("region 2")->timing);
  CHECK(store->findMeasurement("kernel 1")->timing == choice->timing);
  CHECK(store->findMeasurement("kernel 2")->failure->message == "output 0 is off");
  CHECK_FALSE(store->findMeasurement("kernel 3")); // Was under way.
  CHECK_FALSE(store->findBinary("kernel 2"));      // Its seal holds a CRC-32 alone.
  CHECK(store->findPeaks("Fake GPU")->readBytesPerUs == 4.2e6);
  putRow(*store, 5);
  CHECK(holdsRow(*store, 5));
  CHECK(store->beginTrial(measurementNumber(3)));
  CHECK((store->problem() ? store->problem()->message : "") == "");
  CHECK(mustOpen(path)->findChoice("region 1"));
  CHECK(verify(**StoreFile::openToRead(path, {})).damage.empty());
}

TEST_CASE("store: upgrading keeps a broken row broken, and a kill leaves one schema or the other") {
  TemporaryFolder folder;
  const std::string sql = readFile(KFUSE_TEST_DIR "/data/store_schema2.sql");
  fs::path path = folder.path / "store.db";
  execute(path, sql.c_str());
  execute(path, "UPDATE choices SET config = 'k=9,m=128' WHERE region = 'region 1'");
  CHECK_FALSE(mustOpen(path)->findChoice("region 1"));
  CHECK(mustOpen(path)->findChoice("region 2"));

  for (int round = 0; round < 30; ++round) {
    path = folder.path / ("killed" + std::to_string(round) + ".db");
    execute(path, sql.c_str());
    pid_t child = spawn([&] { return Store::open(path, {}) ? 0 : 1; });
    usleep(static_cast<useconds_t>(round * 200));
    kill(child, SIGKILL);
    waitFor(child);
    Warnings warnings;
    std::unique_ptr<Store> store = mustOpen(path, warnings.sink());
    CHECK(store->findChoice("region 1"));
    CHECK(store->findChoice("region 2"));
    CHECK(warnings.text.find("moved aside") == std::string::npos);
  }
}

TEST_CASE("store: a store of a schema that is not known any more is moved aside") {
  TemporaryFolder folder;
  fs::path path = folder.path / "store.db";
  putRow(*mustOpen(path), 0);
  execute(path, "PRAGMA user_version=1");
  Warnings warnings;
  std::unique_ptr<Store> store = mustOpen(path, warnings.sink());
  CHECK_FALSE(store->findChoice(choiceNumber(0).region));
  CHECK(warnings.text.find("is of schema 1, which is not known any more: moved aside to store.db.corrupt-1") !=
        std::string::npos);
  putRow(*store, 0);
  CHECK(holdsRow(*store, 0));
}
