#include "StoreFixture.h"
#include "TemporaryFolder.h"

#include "tests/Skip.h"
#include "tuner/record/Key.h"
#include "tuner/store/StoreTrust.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

/// A store in a folder of its own, which others may enter but not write.
struct Fixture {
  Fixture() {
    fs::create_directories(folder.path / "stores");
    allow(folder.path, 0755);
    allow(folder.path / "stores", 0755);
    putRow(*mustOpen(path), 0);
  }
  static void allow(const fs::path &name, mode_t mode) { REQUIRE(chmod(name.c_str(), mode) == 0); }
  std::string why() const { return whyNotTrusted(path).value_or(""); }

  TemporaryFolder folder;
  const fs::path path = folder.path / "stores" / "store.db";
};

constexpr uid_t nobody = 65534;

bool give(const fs::path &path, uid_t user) {
  if (geteuid() != 0)
    kfuse::testing::skip("only root can give files away");
  return geteuid() == 0 && lchown(path.c_str(), user, static_cast<gid_t>(-1)) == 0;
}

} // namespace

TEST_CASE("store trust: what its owner alone may write is trusted") {
  Fixture f;
  CHECK(f.why() == "");
  CHECK(whyNotTrusted(f.folder.path / "stores" / "none.db").value_or("") == "");
  CHECK(mustOpen(f.path)->findBinary("kernel 0"));
}

TEST_CASE("store trust: a file that others may write is not, by whatever name") {
  Fixture f;
  fs::create_symlink(f.path, f.folder.path / "link.db");
  for (mode_t mode : {0666, 0660, 0646}) {
    Fixture::allow(f.path, mode);
    const std::string text = fmt::format("others may write {0} (mode {1:04o}): chmod go-w {0}", f.path.string(), mode);
    CHECK(f.why() == text);
    CHECK(
        whyNotTrusted(f.folder.path / "link.db").value_or("") ==
        fmt::format("others may write {0} (mode {1:04o}): chmod go-w {0}", (f.folder.path / "link.db").string(), mode));
  }
}

TEST_CASE("store trust: nor is one in whose place others may put another") {
  Fixture f;
  const fs::path stores = f.path.parent_path();
  for (const fs::path &folder : {stores, f.folder.path}) {
    Fixture::allow(folder, 0777);
    CHECK(f.why() == fmt::format("others may write {0} (mode 0777): chmod go-w {0}", folder.string()));
    Fixture::allow(folder, 01777); // They may put files there, but replace none.
    CHECK(f.why() == "");
    Fixture::allow(folder, 0755);
  }
  // What is below a folder that nobody else may enter is out of reach.
  fs::create_directories(stores / "a" / "b");
  fs::copy_file(f.path, stores / "a" / "b" / "store.db");
  Fixture::allow(stores / "a", 0777);
  CHECK(whyNotTrusted(stores / "a" / "b" / "store.db"));
  Fixture::allow(stores, 0700);
  CHECK_FALSE(whyNotTrusted(stores / "a" / "b" / "store.db"));
  // By a link the link's own place counts, too.
  Fixture::allow(f.folder.path, 0755);
  Fixture::allow(stores, 0755);
  fs::create_directories(f.folder.path / "open");
  Fixture::allow(f.folder.path / "open", 0777);
  fs::create_symlink(f.path, f.folder.path / "open" / "link.db");
  CHECK(whyNotTrusted(f.folder.path / "open" / "link.db"));
}

TEST_CASE("store trust: SQLite's files beside it count") {
  Fixture f;
  std::unique_ptr<Store> open = mustOpen(f.path); // Its log is there.
  Fixture::allow(f.path.string() + "-wal", 0666);
  CHECK(f.why().find("store.db-wal (mode 0666)") != std::string::npos);
}

TEST_CASE("store trust: one of another user is not trusted") {
  Fixture f;
  if (!give(f.path, nobody))
    return;
  CHECK(f.why() == f.path.string() + " belongs to user 65534: make it your own");
  Warnings warnings;
  std::unique_ptr<Store> store = mustOpen(f.path, warnings.sink());
  CHECK_FALSE(store->findBinary("kernel 0"));
  CHECK(store->findChoice("region 0")); // Data is read, and checked.
  CHECK(store->distrust());
  store.reset();
  std::unique_ptr<Store> given = std::move(*Store::open(f.path, {}, StoreTrust::Given));
  CHECK(given->findBinary("kernel 0"));
  CHECK_FALSE(given->distrust());
}

TEST_CASE("store trust: a log that somebody else has put beside a store is not read") {
  Fixture f;
  for (const char *ending : {"-journal", "-wal"}) {
    const std::string planted = f.path.string() + ending;
    std::ofstream(planted) << "forged";
    if (!give(planted, nobody))
      return;
    const std::string refusal =
        planted + " belongs to user 65534 and the store does not: remove it, or name another file";
    CHECK(Store::open(f.path, {}).error().message == refusal);
    CHECK(Store::openToRead(f.path, {}).error().message == refusal);
    fs::remove(planted);
  }
  CHECK(holdsRow(*mustOpen(f.path), 0));
}

TEST_CASE("store trust: folders are made so that nobody else may write them, whatever the umask") {
  TemporaryFolder folder;
  const mode_t before = umask(0);
  putRow(*mustOpen(folder.path / "a" / "b" / "store.db"), 0);
  umask(before);
  CHECK(whyNotTrusted(folder.path / "a" / "b" / "store.db").value_or("") == "");
}

TEST_CASE("store trust: machine code of another hash is a miss, whatever its CRC-32") {
  Fixture f;
  CHECK(sha256(std::string_view("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // An image of zeros gets the bits of CRC-32's polynomial set, which leaves that checksum as it was.
  std::vector<std::byte> forged(binaryNumber(0).image.size());
  REQUIRE(binaryNumber(0).image == forged);
  const std::string image = "x'410671db01" + std::string(2 * (forged.size() - 5), '0') + "'";
  execute(f.path, ("UPDATE binaries SET image = " + image).c_str());
  CHECK_FALSE(mustOpen(f.path)->findBinary("kernel 0"));
}
