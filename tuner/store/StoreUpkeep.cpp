#include "tuner/store/StoreUpkeep.h"

#include "tuner/record/Json.h"
#include "tuner/record/UnixTime.h"
#include "tuner/store/StoreLease.h"
#include "tuner/store/StoreRows.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

namespace kfuse::tuner {
namespace {

constexpr double secondsPerDay = 86400;

/// Which rows of a record have a seal: all, but for measurements under way.
template <class Record> constexpr const char *sealed = "";
template <> constexpr const char *sealed<Measurement> = " WHERE seal IS NOT NULL";

/// Calls `take(key, record)` for each row of `table` that should have a seal; the record is empty when it is broken, or
/// not there.
template <class Record, class Take> void forEach(SQLite::Database &db, const std::string &table, Take take) {
  SQLite::Statement row(db, "SELECT * FROM " + table + sealed<Record> + " ORDER BY rowid");
  while (row.executeStep())
    take(row.getColumn(0).getString(), rowOf<Record>(row));
}

template <class Record> std::vector<Record> readAll(SQLite::Database &db, const std::string &table) {
  std::vector<Record> records;
  forEach<Record>(db, table, [&](const std::string &, std::optional<Record> record) {
    if (record)
      records.push_back(std::move(*record));
  });
  return records;
}

bool isBetter(const Choice &offered, const std::optional<Choice> &known) {
  return !known || std::tuple(rank(offered), offered.at) > std::tuple(rank(*known), known->at);
}

bool isBetter(const Measurement &offered, const std::optional<Measurement> &known) {
  return !known || offered.at > known->at;
}

bool isBetter(const StoredPeaks &, const std::optional<StoredPeaks> &known) { return !known; }

template <class Value> int removeWhere(SQLite::Database &db, const std::string &sql, const Value &value) {
  SQLite::Statement drop(db, "DELETE FROM " + sql);
  drop.bind(1, value);
  return drop.exec();
}

/// The number of rows taken over. `onTaken` gets each, and the one it replaces.
template <class Record, class Key>
int add(SQLite::Database &db, const std::vector<Record> &offered, std::string Record::*key, Key onTaken) {
  int taken = 0;
  for (const Record &record : offered)
    if (const std::optional<Record> known = findRow<Record>(db, record.*key); isBetter(record, known)) {
      insertRow(db, record);
      onTaken(record, known);
      ++taken;
    }
  return taken;
}

/// `kernels` gets the winners of the choices taken over. Where the config is another than before, the old binary goes:
/// it vouches for a config that the template has listed here.
void add(SQLite::Database &db, const StoreContents &contents, StoreChanges &changes, std::set<std::string> &kernels) {
  auto nothing = [](const auto &, const auto &) {};
  auto onChoice = [&](const Choice &choice, const std::optional<Choice> &known) {
    kernels.insert(choice.kernel);
    if (!known || known->kernel != choice.kernel || known->config != choice.config)
      removeWhere(db, "binaries WHERE kernel = ?", choice.kernel);
  };
  changes.choices = add(db, contents.choices, &Choice::region, onChoice);
  changes.measurements = add(db, contents.measurements, &Measurement::kernel, nothing);
  changes.peaks = add(db, contents.peaks, &StoredPeaks::sku, nothing);
  db.exec("DELETE FROM binaries WHERE kernel NOT IN (SELECT kernel FROM choices)");
}

/// What kept a write from being done.
Error whyNot(const StoreFile &file) {
  return file.problem().value_or(Error{ErrorCode::Io, fmt::format("store {} cannot be written", file.path().string())});
}

template <class Record> int removeBroken(SQLite::Database &db, const std::string &table, const std::string &key) {
  std::vector<std::string> broken;
  forEach<Record>(db, table, [&](const std::string &name, const std::optional<Record> &record) {
    if (!record)
      broken.push_back(name);
  });
  for (const std::string &name : broken) {
    SQLite::Statement drop(db, fmt::format("DELETE FROM {} WHERE {} = ?", table, key));
    drop.bind(1, name);
    drop.exec();
  }
  return static_cast<int>(broken.size());
}

StoreChanges removeRows(SQLite::Database &db, const PruneOptions &options) {
  StoreChanges gone;
  gone.choices = removeBroken<Choice>(db, "choices", "region");
  gone.measurements = removeBroken<Measurement>(db, "measurements", "kernel");
  gone.peaks = removeBroken<StoredPeaks>(db, "peaks", "sku");
  gone.binaries = removeBroken<StoredBinary>(db, "binaries", "kernel");
  if (!options.sku.empty()) {
    gone.measurements +=
        removeWhere(db, "measurements WHERE region IN (SELECT region FROM choices WHERE sku = ?)", options.sku);
    gone.choices += removeWhere(db, "choices WHERE sku = ?", options.sku);
    gone.peaks += removeWhere(db, "peaks WHERE sku = ?", options.sku);
  }
  if (options.olderThanDays > 0) {
    double oldest = unixSeconds() - secondsPerDay * options.olderThanDays;
    gone.choices += removeWhere(db, "choices WHERE at < ?", oldest);
    gone.measurements += removeWhere(db, "measurements WHERE at < ?", oldest);
  }
  if (options.failures)
    gone.measurements += db.exec("DELETE FROM measurements WHERE failure IS NOT NULL");
  gone.binaries += db.exec("DELETE FROM binaries WHERE kernel NOT IN (SELECT kernel FROM choices)");
  return gone;
}

template <class Record>
int checkSeals(SQLite::Database &db, const std::string &table, std::vector<std::string> &damage) {
  int rows = 0;
  forEach<Record>(db, table, [&](const std::string &key, const std::optional<Record> &record) {
    ++rows;
    if (!record)
      damage.push_back(fmt::format("{} {}: its seal is broken", table, key)); // Or missing.
  });
  return rows;
}

} // namespace

StoreContents readContents(StoreFile &file) {
  return file.read([](SQLite::Database &db) {
    return StoreContents{readAll<Choice>(db, "choices"), readAll<Measurement>(db, "measurements"),
                         readAll<StoredPeaks>(db, "peaks")};
  });
}

std::vector<Measurement> readMeasurements(StoreFile &file, const std::string &region) {
  return file.read([&](SQLite::Database &db) {
    std::vector<Measurement> found;
    SQLite::Statement row(db, "SELECT * FROM measurements WHERE region = ? AND seal IS NOT NULL ORDER BY at, rowid");
    row.bind(1, region);
    while (row.executeStep())
      if (std::optional<Measurement> measurement = rowOf<Measurement>(row))
        found.push_back(std::move(*measurement));
    return found;
  });
}

std::vector<Choice> readChoices(StoreFile &file, const std::string &ops, const std::string &sku) {
  return file.read([&](SQLite::Database &db) {
    std::vector<Choice> found;
    SQLite::Statement row(db, "SELECT * FROM choices WHERE ops = ? AND sku = ? ORDER BY region");
    row.bind(1, ops);
    row.bind(2, sku);
    while (row.executeStep())
      if (std::optional<Choice> choice = rowOf<Choice>(row))
        found.push_back(std::move(*choice));
    return found;
  });
}

Result<StoreChanges> addContents(StoreFile &file, const StoreContents &contents) {
  StoreChanges changes;
  std::set<std::string> kernels;
  bool done = file.write([&](SQLite::Database &db) { add(db, contents, changes, kernels); });
  return done ? Result<StoreChanges>(changes) : whyNot(file);
}

Result<StoreChanges> merge(StoreFile &into, StoreFile &from, Binaries binaries) {
  const StoreContents contents = readContents(from);
  StoreChanges changes;
  bool done = into.write([&](SQLite::Database &db) {
    std::set<std::string> kernels;
    add(db, contents, changes, kernels);
    changes.binaries = 0;
    if (binaries == Binaries::Left)
      return;
    for (const std::string &kernel : kernels)
      if (std::optional<StoredBinary> binary =
              from.read([&](SQLite::Database &other) { return findRow<StoredBinary>(other, kernel); })) {
        insertRow(db, *binary);
        ++changes.binaries;
      }
  });
  return done ? Result<StoreChanges>(changes) : whyNot(into);
}

Result<StoreChanges> prune(StoreFile &file, const PruneOptions &options) {
  StoreChanges gone;
  if (!file.write([&](SQLite::Database &db) { gone = removeRows(db, options); }))
    return whyNot(file);
  file.compact();
  return gone;
}

StoreVerdict verify(StoreFile &file) {
  StoreVerdict verdict = file.read([](SQLite::Database &db) {
    StoreVerdict verdict;
    SQLite::Statement pages(db, "PRAGMA integrity_check(10)");
    while (pages.executeStep())
      if (std::string said = pages.getColumn(0).getString(); said != "ok")
        verdict.damage.push_back(said);
    verdict.choices = checkSeals<Choice>(db, "choices", verdict.damage);
    verdict.measurements = checkSeals<Measurement>(db, "measurements", verdict.damage);
    verdict.peaks = checkSeals<StoredPeaks>(db, "peaks", verdict.damage);
    verdict.binaries = checkSeals<StoredBinary>(db, "binaries", verdict.damage);
    verdict.begun = db.execAndGet("SELECT count(*) FROM measurements WHERE seal IS NULL").getInt();
    verdict.leases = countLeases(db);
    return verdict;
  });
  if (std::optional<Error> problem = file.problem())
    verdict.damage.push_back(problem->message);
  return verdict;
}

std::string toJson(const StoreVerdict &verdict) {
  return textOf({{"whole", verdict.damage.empty()},
                 {"damage", verdict.damage},
                 {"choices", verdict.choices},
                 {"measurements", verdict.measurements},
                 {"begun", verdict.begun},
                 {"peaks", verdict.peaks},
                 {"binaries", verdict.binaries},
                 {"leases", verdict.leases}});
}

} // namespace kfuse::tuner
