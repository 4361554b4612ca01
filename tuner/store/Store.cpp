#include "tuner/store/Store.h"

#include "tuner/record/BootId.h"
#include "tuner/record/UnixTime.h"
#include "tuner/store/StoreFile.h"
#include "tuner/store/StoreLease.h"
#include "tuner/store/StorePlace.h"
#include "tuner/store/StoreRows.h"
#include "tuner/store/StoreUpkeep.h"

#include <fmt/format.h>

namespace kfuse::tuner {
namespace {

/// When the kernel's trial began, as the first put said; later ones keep it.
double beginningOf(SQLite::Database &db, const std::string &kernel) {
  SQLite::Statement row(db, "SELECT at FROM measurements WHERE kernel = ?");
  row.bind(1, kernel);
  return row.executeStep() && !row.getColumn(0).isNull() ? row.getColumn(0).getDouble() : unixSeconds();
}

/// An earlier choice was seen by the search that made `offered`, and found wanting.
bool isStillBetter(const Choice &known, const Choice &offered) {
  return known.at > offered.at && rank(known) > rank(offered);
}

} // namespace

std::filesystem::path Store::defaultPath() { return defaultStorePath(); }

Store::Store(std::unique_ptr<StoreFile> opened) : file(std::move(opened)), leases(std::make_unique<LeaseBook>(*file)) {}
Store::~Store() = default;

/// `before` is whyNotTrusted() before the file was opened: what lay beside it then may be gone.
void Store::judge(StoreTrust trust, const std::optional<std::string> &before) {
  if (trust == StoreTrust::Given)
    return;
  if (const std::optional<std::string> why = before ? before : whyNotTrusted(file->path()))
    distrusted =
        fmt::format("the machine code in store {} is not trusted, as {}, or pass --trust-store (trustStore in the API)",
                    file->path().string(), *why);
}

Result<std::unique_ptr<Store>> Store::open(const std::filesystem::path &path, Warn warn, StoreTrust trust) {
  const std::filesystem::path name = path.empty() ? defaultPath() : path;
  const std::optional<std::string> before = whyNotTrusted(name);
  Result<std::unique_ptr<StoreFile>> file = StoreFile::open(name, std::move(warn));
  if (!file)
    return file.error();
  std::unique_ptr<Store> store(new Store(std::move(*file)));
  store->judge(trust, before);
  return store;
}

Result<std::unique_ptr<Store>> Store::openToRead(const std::filesystem::path &path, Warn warn, StoreTrust trust) {
  const std::optional<std::string> before = whyNotTrusted(path.empty() ? defaultPath() : path);
  Result<std::unique_ptr<Store>> store = openToRead(path, std::move(warn), StoreFile::usualPatienceMs);
  if (store)
    (*store)->judge(trust, before);
  return store;
}

Result<std::unique_ptr<Store>> Store::openToRead(const std::filesystem::path &path, Warn warn, int patienceMs) {
  const std::filesystem::path name = path.empty() ? defaultPath() : path;
  std::error_code failure, ignored; // What cannot be looked at is no empty store.
  const bool isAbsent = !std::filesystem::exists(name, failure) && !failure;
  if (isAbsent || std::filesystem::is_empty(name, ignored)) // Empty: a process was killed before its first write.
    return std::unique_ptr<Store>(new Store(StoreFile::absent(name)));
  Result<std::unique_ptr<StoreFile>> file = StoreFile::openToRead(name, std::move(warn), patienceMs);
  if (!file)
    return file.error();
  return std::unique_ptr<Store>(new Store(std::move(*file)));
}

std::filesystem::path Store::sharedFolder() const { return file->isOnDisk() ? folderOf(file->path()) : ""; }

std::optional<Error> Store::problem() const { return file->problem(); }

void Store::confirmPlace() { file->confirmPlace(); }

std::optional<Choice> Store::findChoice(const std::string &region) {
  return file->read([&](SQLite::Database &db) { return findRow<Choice>(db, region); });
}

std::optional<Measurement> Store::findMeasurement(const std::string &kernel) {
  return file->read([&](SQLite::Database &db) { return findRow<Measurement>(db, kernel); });
}

Store::TunedFor Store::newestIn(const std::filesystem::path &path) {
  Result<std::unique_ptr<Store>> store = openToRead(path, {}, 0);
  return store ? (*store)->newest() : TunedFor();
}

Store::TunedFor Store::newest() {
  return file->read([](SQLite::Database &db) {
    SQLite::Statement row(db, "SELECT target, sku FROM choices ORDER BY at DESC LIMIT 1");
    return row.executeStep() ? TunedFor{row.getColumn(0).getString(), row.getColumn(1).getString()} : TunedFor();
  });
}

std::vector<Choice> Store::findChoices(const std::string &ops, const std::string &sku) {
  return readChoices(*file, ops, sku);
}

std::vector<Measurement> Store::findMeasurements(const std::string &region) { return readMeasurements(*file, region); }

std::optional<runtime::CompiledKernel> Store::findBinary(const std::string &kernel) {
  if (distrusted)
    return std::nullopt;
  std::optional<StoredBinary> found =
      file->read([&](SQLite::Database &db) { return findRow<StoredBinary>(db, kernel); });
  return found ? std::optional(std::move(found->binary)) : std::nullopt;
}

std::optional<Peaks> Store::findPeaks(const std::string &sku) {
  std::optional<StoredPeaks> found = file->read([&](SQLite::Database &db) { return findRow<StoredPeaks>(db, sku); });
  if (!found)
    return std::nullopt;
  found->peaks.measured = true;
  return found->peaks;
}

bool Store::beginTrial(const Measurement &trial) {
  int lostBoots = 0;
  file->write([&](SQLite::Database &db) {
    SQLite::Statement row(
        db,
        "INSERT INTO measurements(kernel, region, config, driver, estimate_us, at, boot) VALUES(?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT(kernel) DO UPDATE SET lost_boots = CASE WHEN seal IS NULL AND driver = excluded.driver "
        "THEN lost_boots + (boot <> excluded.boot) ELSE 0 END, boot = excluded.boot, "
        "driver = excluded.driver, at = excluded.at, median_us = NULL, failure = NULL, seal = NULL "
        "RETURNING lost_boots");
    row.bind(1, trial.kernel);
    row.bind(2, trial.region);
    row.bind(3, trial.config.str());
    row.bind(4, trial.driver);
    row.bind(5, trial.estimateUs);
    row.bind(6, unixSeconds());
    row.bind(7, bootId());
    if (row.executeStep())
      lostBoots = row.getColumn(0).getInt();
  });
  return lostBoots < 2;
}

void Store::put(const Measurement &measurement) {
  file->write([&](SQLite::Database &db) {
    Measurement row = measurement;
    row.at = beginningOf(db, row.kernel);
    insertRow(db, row);
  });
}

void Store::put(const Choice &choice, const runtime::CompiledKernel &binary) {
  file->write([&](SQLite::Database &db) {
    std::optional<Choice> known = findRow<Choice>(db, choice.region);
    if (known && isStillBetter(*known, choice))
      return;
    Choice row = choice;
    row.at = unixSeconds();
    insertRow(db, row);
    insertRow(db, StoredBinary{choice.kernel, binary});
    db.exec("DELETE FROM binaries WHERE kernel NOT IN (SELECT kernel FROM choices)");
  });
}

void Store::put(const std::string &sku, const Peaks &peaks) {
  file->write([&](SQLite::Database &db) {
    std::optional<StoredPeaks> known = findRow<StoredPeaks>(db, sku); // Another process may have raised some.
    insertRow(db, StoredPeaks{sku, known ? higherOf(peaks, known->peaks) : peaks});
  });
}

std::optional<Store::Lease> Store::lease(const std::string &region) {
  return leases->claim(region) ? std::optional<Lease>(std::in_place, *this, region) : std::nullopt;
}

Store::Lease::~Lease() {
  if (store)
    store->leases->release(region);
}

} // namespace kfuse::tuner
