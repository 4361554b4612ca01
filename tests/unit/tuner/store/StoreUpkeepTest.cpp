#include "StoreFixture.h"
#include "TemporaryFolder.h"

#include "tuner/store/StoreUpkeep.h"

#include <doctest/doctest.h>

using namespace kfuse;
using namespace kfuse::tuner;
using namespace kfuse::tuner::test;

namespace {

struct Fixture {
  std::unique_ptr<StoreFile> open(const char *name) {
    Result<std::unique_ptr<StoreFile>> file = StoreFile::open(folder.path / name, {});
    REQUIRE(file);
    return std::move(*file);
  }
  /// A store with `count` choices, binaries and measurements, and peaks.
  void fill(const char *name, int count) {
    Result<std::unique_ptr<Store>> store = Store::open(folder.path / name, {});
    REQUIRE(store);
    for (int i = 0; i < count; ++i) {
      (*store)->put(measurementNumber(i));
      (*store)->put(choiceNumber(i), binaryNumber(i));
    }
    (*store)->put("Fake GPU", Peaks{4e6, 4e6, 4e6, 67e6, 60e6, 790e6, 700e6, 1});
  }
  TemporaryFolder folder;
};

Error mustFail(Result<StoreContents> contents) {
  REQUIRE_FALSE(contents);
  return contents.error();
}

} // namespace

TEST_CASE("upkeep: contents travel as JSON without loss") {
  Fixture f;
  f.fill("a.db", 5);
  StoreContents contents = readContents(*f.open("a.db"));
  CHECK(contents.choices.size() == 5);
  CHECK(contents.measurements.size() == 5);
  CHECK(contents.peaks.size() == 1);
  Result<StoreContents> parsed = parseContents(toJson(contents));
  REQUIRE(parsed);
  CHECK(toJson(*parsed) == toJson(contents));
  std::unique_ptr<StoreFile> other = f.open("b.db");
  Result<StoreChanges> changes = addContents(*other, *parsed);
  REQUIRE(changes);
  CHECK(changes->choices == 5);
  CHECK(changes->measurements == 5);
  CHECK(changes->peaks == 1);
  CHECK(toJson(readContents(*other)) == toJson(contents));
  CHECK(verify(*other).damage.empty());
}

TEST_CASE("upkeep: a file with a fault is refused with one line") {
  StoreContents contents;
  contents.choices = {choiceNumber(1)};
  std::string good = toJson(contents);
  auto with = [&](const std::string &from, const std::string &to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  CHECK(mustFail(parseContents("{")).message.starts_with("no JSON: parse error"));
  CHECK(mustFail(parseContents("[]")).message == "no results of kfuse: \"format\" is not \"kfuse-results\"");
  CHECK(mustFail(parseContents(with("\"schema\": 1", "\"schema\": 2"))).message ==
        "results of schema 2, this kfuse reads 1");
  CHECK(mustFail(parseContents(with("\"full\"", "\"hard\""))).message ==
        "choices[0]: effort is none, quick or full, not 'hard'");
  CHECK(mustFail(parseContents(with("\"candidates\": 40", "\"candidates\": []"))).message ==
        "choices[0]: type must be number, but is array");
  CHECK(mustFail(parseContents(with("\"sku\"", "\"SKU\""))).message == "choices[0]: key 'sku' not found");
  CHECK(mustFail(parseContents(with("k=1,m=128", "k=,m"))).message ==
        "choices[0]: 'k=,m' is no config of the form m=128,n=64");
  CHECK(mustFail(parseContents(with("\"peaks\"", "\"peak\""))).message == "peaks[0]: key 'peaks' not found");
  StoreContents senseless;
  senseless.measurements = {measurementNumber(0)};
  senseless.measurements[0].timing.reset();
  CHECK(mustFail(parseContents(toJson(senseless))).message ==
        "measurements[0]: a measurement has either a timing or a failure");
  senseless.measurements[0].timing = Timing{0, 0, 3};
  CHECK(mustFail(parseContents(toJson(senseless))).message ==
        "measurements[0]: a timing has a finite median_us above 0 and samples");
}

TEST_CASE("upkeep: numbers that no device has are refused") {
  StoreContents good;
  good.choices = {choiceNumber(1)};
  good.measurements = {measurementNumber(0)};
  good.peaks = {{"Fake GPU", {4.2e6, 3.9e6, 4.1e6, 67e6, 60e6, 790e6, 700e6, 1.3}}};
  REQUIRE(parseContents(toJson(good)));
  auto refusalOf = [&](auto spoil) {
    StoreContents contents = good;
    spoil(contents);
    return mustFail(parseContents(toJson(contents))).message;
  };
  for (double at : {-1.0, 1e17, 1e300, -1e300}) {
    CHECK(refusalOf([&](StoreContents &c) { c.choices[0].at = at; }).starts_with("choices[0]: at is in Unix seconds"));
    CHECK(refusalOf([&](StoreContents &c) { c.measurements[0].at = at; }).starts_with("measurements[0]: at is in"));
  }
  for (double peak : {0.0, -1.0, 5e-324, 1e-300, 1e300}) {
    CHECK(
        refusalOf([&](StoreContents &c) { c.peaks[0].peaks.launchUs = peak; }).starts_with("peaks[0]: launch_us is "));
    CHECK(refusalOf([&](StoreContents &c) { c.peaks[0].peaks.halfBurst = peak; }).starts_with("peaks[0]: half_burst "));
  }
  CHECK(refusalOf([](StoreContents &c) { c.choices[0].failed = -1; }) ==
        "choices[0]: candidates, failed, cut and ruled_out are not below 0");
  CHECK(refusalOf([](StoreContents &c) { c.choices[0].timing->spread = -1; }) ==
        "choices[0]: the spread of a timing is finite and not below 0");
  std::string text = toJson(good);
  const std::string count = "\"candidates\": 40";
  text.replace(text.find(count), count.size(), "\"candidates\": 1e300");
  CHECK(mustFail(parseContents(text)).message == "choices[0]: candidates is a whole number of 32 bits, not 1e+300");
}

TEST_CASE("upkeep: what is nested deeper than results are is refused") {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  for (const char *list : {"format", "schema", "choices", "more"}) {
    CAPTURE(std::string(list));
    const std::string text =
        "{\"format\": \"kfuse-results\", \"schema\": 1, \"" + std::string(list) + "\": " + deep + "}";
    CHECK(mustFail(parseContents(text)).message == "no results of kfuse: nested deeper than 8, which results are not");
  }
}

TEST_CASE("upkeep: what is better is taken over, what is worse is not") {
  Fixture f;
  std::unique_ptr<StoreFile> file = f.open("a.db");
  Choice quick = choiceNumber(1);
  quick.effort = Effort::Quick;
  quick.at = 1000;
  auto offer = [&](const Choice &choice) {
    StoreContents contents;
    contents.choices = {choice};
    return addContents(*file, contents)->choices;
  };
  CHECK(offer(quick) == 1);
  CHECK(offer(quick) == 0); // The same.
  Choice untimed = quick;
  untimed.timing.reset();
  untimed.at = 2000;
  CHECK(offer(untimed) == 0);
  Choice later = quick;
  later.at = 2000;
  CHECK(offer(later) == 1);
  Choice full = quick;
  full.effort = Effort::Full;
  CHECK(offer(full) == 1);
  CHECK(offer(later) == 0);
}

TEST_CASE("upkeep: merging takes machine code along, importing does not") {
  Fixture f;
  f.fill("a.db", 3);
  f.fill("b.db", 6);
  std::unique_ptr<StoreFile> b = f.open("b.db");
  {
    std::unique_ptr<StoreFile> imported = f.open("imported.db");
    REQUIRE(addContents(*imported, readContents(*b)));
    CHECK(verify(*imported).binaries == 0);
  }
  std::unique_ptr<StoreFile> a = f.open("a.db");
  Result<StoreChanges> changes = merge(*a, *b);
  REQUIRE(changes);
  StoreVerdict verdict = verify(*a);
  CHECK(verdict.choices == 6);
  CHECK(verdict.measurements == 6);
  CHECK(verdict.binaries == 6);
  CHECK(verdict.damage.empty());
}

TEST_CASE("upkeep: an imported choice of another config has no binary, whatever lies under its kernel's key") {
  Fixture f;
  f.fill("a.db", 2);
  std::unique_ptr<StoreFile> file = f.open("a.db");
  StoreContents contents = readContents(*file);
  for (Choice &choice : contents.choices)
    choice.at += 1000; // Later ones are taken over.
  contents.choices[1].config = {{"m", 7}};
  CHECK(addContents(*file, contents)->choices == 2);
  CHECK(verify(*file).binaries == 1); // The others are the same but for that.
}

TEST_CASE("upkeep: pruning removes what is asked for and nothing else") {
  Fixture f;
  f.fill("a.db", 6);
  std::unique_ptr<StoreFile> file = f.open("a.db");
  StoreChanges none = *prune(*file, {});
  CHECK(none.choices + none.measurements + none.peaks + none.binaries == 0);
  StoreChanges failures = *prune(*file, {.failures = true});
  CHECK(failures.measurements == 3);
  CHECK(prune(*file, {.olderThanDays = 1})->choices == 0);
  CHECK(prune(*file, {.sku = "another GPU"})->choices == 0);
  REQUIRE(file->write([](SQLite::Database &db) { db.exec("UPDATE choices SET ops = 'x' WHERE region = 'region 2'"); }));
  CHECK(verify(*file).damage == std::vector<std::string>{"choices region 2: its seal is broken"});
  StoreChanges broken = *prune(*file, {});
  CHECK(broken.choices == 1);
  CHECK(broken.binaries == 1);
  CHECK(verify(*file).damage.empty());
  StoreChanges device = *prune(*file, {.sku = "Fake GPU"});
  CHECK(device.choices == 5);
  CHECK(device.peaks == 1);
  CHECK(verify(*file).binaries == 0);
}

TEST_CASE("upkeep: looking at a store changes nothing and needs no right to write") {
  Fixture f;
  CHECK(StoreFile::openToRead(f.folder.path / "absent.db", {}).error().message ==
        "there is no store " + (f.folder.path / "absent.db").string() + ": tune something first, or name another file");
  CHECK_FALSE(std::filesystem::exists(f.folder.path / "absent.db"));
  f.fill("a.db", 2);
  Result<std::unique_ptr<StoreFile>> file = StoreFile::openToRead(f.folder.path / "a.db", {});
  REQUIRE(file);
  CHECK(readContents(**file).choices.size() == 2);
  CHECK_FALSE(addContents(**file, readContents(**file)));
  CHECK_FALSE(prune(**file, {}));
}

TEST_CASE("upkeep: measurements of a region come in the order in which they were begun") {
  Fixture f;
  std::unique_ptr<StoreFile> file = f.open("a.db");
  StoreContents contents;
  for (int i : {4, 2, 6}) {
    contents.measurements.push_back(measurementNumber(i));
    contents.measurements.back().at = i;
  }
  REQUIRE(addContents(*file, contents));
  std::vector<double> order;
  for (const Measurement &measurement : readMeasurements(*file, "region"))
    order.push_back(measurement.at);
  CHECK(order == std::vector<double>{2, 4, 6});
  CHECK(readMeasurements(*file, "another").empty());
}

TEST_CASE("upkeep: what should have a seal and has none is damage, which pruning removes") {
  for (const char *table : {"choices", "binaries", "peaks"}) {
    CAPTURE(table);
    Fixture f;
    f.fill("a.db", 2);
    execute(f.folder.path / "a.db", ("UPDATE " + std::string(table) + " SET seal = NULL").c_str());
    std::unique_ptr<StoreFile> file = f.open("a.db");
    const StoreVerdict verdict = verify(*file);
    CHECK(verdict.damage.size() == (table == std::string("peaks") ? 1 : 2));
    CHECK(verdict.damage.front().find(table) == 0);
    CHECK_FALSE(
        (*Store::open(f.folder.path / "a.db", {}))->findBinary(table == std::string("binaries") ? "kernel 0" : ""));
    REQUIRE(prune(*file, {}));
    CHECK(verify(*file).damage.empty());
  }
}

TEST_CASE("upkeep: a trial under way has no seal, and is no damage") {
  Fixture f;
  f.fill("a.db", 1);
  (*Store::open(f.folder.path / "a.db", {}))->beginTrial(measurementNumber(7));
  const StoreVerdict verdict = verify(*f.open("a.db"));
  CHECK(verdict.damage.empty());
  CHECK(verdict.begun == 1);
}

TEST_CASE("upkeep: machine code that is left is not merged, and a choice comes without it") {
  Fixture f;
  f.fill("a.db", 3);
  std::unique_ptr<StoreFile> from = f.open("a.db"), into = f.open("b.db");
  Result<StoreChanges> changes = merge(*into, *from, Binaries::Left);
  REQUIRE(changes);
  CHECK(changes->choices == 3);
  CHECK(changes->binaries == 0);
  CHECK(verify(*into).binaries == 0);
}
