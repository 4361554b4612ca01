#include "tuner/store/StoreFile.h"

#include "tuner/store/StorePlace.h"
#include "tuner/store/StoreRows.h"
#include "tuner/store/StoreSchema.h"
#include "tuner/store/StoreTrust.h"

#include <SQLiteCpp/Backup.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace fs = std::filesystem;

namespace kfuse::tuner {
namespace {

constexpr int applicationId = 0x6b667573; // "kfus"
/// In the header of every SQLite file (www.sqlite.org/fileformat.html): 2 in WAL mode, and our mark, big-endian.
constexpr std::size_t writeVersionOffset = 18, applicationIdOffset = 68;

/// SQLiteCpp's own code, for a column that is not there.
constexpr int misuse = -1;

/// True when the file itself is broken. Our SQL is fixed, so an SQL error means a broken schema too.
bool isDamage(const SQLite::Exception &error) {
  constexpr std::array codes{SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_ERROR, SQLITE_FORMAT, SQLITE_MISMATCH, misuse};
  return std::find(codes.begin(), codes.end(), error.getErrorCode()) != codes.end();
}

/// What SQLite met, in words that say what to do.
std::string reasonOf(const SQLite::Exception &error) {
  if (error.getExtendedErrorCode() == SQLITE_READONLY_ROLLBACK)
    return "it was cut off while written: open it for writing once, as kfuse tune does";
  switch (error.getErrorCode()) {
  case SQLITE_BUSY:
    return fmt::format("another process has kept it locked for {} s: end that process, or name another file",
                       StoreFile::usualPatienceMs / 1000);
  case SQLITE_FULL:
  case SQLITE_IOERR: // What a full disk says when the write-ahead log cannot grow.
    return fmt::format("the disk is full or failing ({}): free some space, or name a file on another disk",
                       error.what());
  default:
    return error.what();
  }
}

/// Whether SQLite keeps a file beside the store, whose name ends so.
bool hasCompanion(const fs::path &path, const char *ending) {
  std::error_code ignored;
  return fs::exists(fs::canonical(path, ignored).string() + ending, ignored); // SQLite follows links, too.
}

/// Whether nobody writes to the store, nor was cut off while doing so: all of it is in the one file.
bool isAtRest(const fs::path &path) { return !hasCompanion(path, "-wal") && !hasCompanion(path, "-journal"); }

Error noStore(const fs::path &path) {
  return {ErrorCode::Io,
          fmt::format("there is no store {}: tune something first, or name another file", path.string())};
}

using Header = std::array<unsigned char, applicationIdOffset + 4>;

/// Zeros where there is no file, or too little of it.
Header headerOf(const fs::path &path) {
  Header header{};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(header.data()), header.size());
  return header;
}

bool isInWalMode(const fs::path &path) { return headerOf(path)[writeVersionOffset] == 2; }

/// Whether the file begins as a kfuse store does, however little of it is left.
bool bearsOurMark(const fs::path &path) {
  const Header header = headerOf(path);
  int id = 0;
  for (std::size_t i = applicationIdOffset; i < header.size(); ++i)
    id = id << 8 | header[i];
  return id == applicationId;
}

int numberOf(SQLite::Database &db, const char *query) { return db.execAndGet(query).getInt(); }

/// Whether nobody has made anything of the file yet.
bool isBlank(SQLite::Database &db) {
  return numberOf(db, "SELECT count(*) FROM sqlite_master") == 0 && numberOf(db, "PRAGMA application_id") == 0 &&
         numberOf(db, "PRAGMA user_version") == 0;
}

/// Nothing is done where another host was faster: FolderLock may not reach it.
void create(SQLite::Database &db) {
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  if (!isBlank(db))
    return;
  db.exec(createTables());
  db.exec(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", applicationId, storeSchema));
  transaction.commit();
}

std::string uri(const fs::path &path, std::string_view parameters) {
  std::string text = "file:";
  for (char c : path.string())
    text += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02x}", static_cast<int>(c)) : std::string(1, c);
  return text + "?" + std::string(parameters);
}

} // namespace

void StoreFile::say(const std::string &message) {
  if (said.insert(message).second && warn)
    warn(message);
}

void StoreFile::degrade(const std::string &message) {
  say(message);
  if (!firstProblem)
    firstProblem = Error{ErrorCode::Io, message};
}

void StoreFile::giveUp(const SQLite::Exception &error) {
  if (isDisplaced()) // SQLite's own error would tell of a failing disk.
    return confirmPlace();
  const char *loss = access == Access::ReadWrite ? "; results are not kept" : "";
  degrade(fmt::format("store {}: {}{}", file.string(), reasonOf(error), loss));
  if (error.getErrorCode() == SQLITE_BUSY) { // Waited for once: hundreds of writes would take hours.
    database->setBusyTimeout(0);
    waits = false;
  }
}

/// The lock was free.
void StoreFile::waitAgain() {
  if (!waits)
    database->setBusyTimeout(patienceMs);
  waits = true;
}

bool StoreFile::mayMend(const SQLite::Exception &error) const {
  return isDamage(error) && (access == Access::ReadWrite || isOutdated());
}

StoreFile::Version StoreFile::version() const {
  struct stat facts{};
  if (stat(file.c_str(), &facts) != 0)
    return {};
  return {facts.st_ino, facts.st_size, facts.st_mtim.tv_sec * std::int64_t(1'000'000'000) + facts.st_mtim.tv_nsec};
}

/// Whether another file, or none, has the name of the one that is written to.
bool StoreFile::isDisplaced() const { return access == Access::ReadWrite && version().inode != opened.inode; }

/// Whether what was read without locks may have been half of the old and half of the new.
bool StoreFile::isOutdated() const { return access == Access::Immutable && version() != opened; }

/// With locks, where there can be any.
void StoreFile::readAnew() {
  std::string why = "it is no store";
  for (Access how : {Access::ReadOnly, Access::Immutable}) {
    try {
      if (connect(how))
        return;
    } catch (const SQLite::Exception &error) { // Tried another way, and then said.
      why = error.what();
    }
  }
  openInMemory("it cannot be read any more: " + why);
}

Error StoreFile::foreign() const {
  return {ErrorCode::Io,
          fmt::format("{} is not a kfuse store: name another file, or move this one away", file.string())};
}

bool StoreFile::isOnDisk() const {
  std::scoped_lock lock(mutex);
  return access == Access::ReadWrite;
}

std::optional<Error> StoreFile::problem() const {
  std::scoped_lock lock(mutex);
  return firstProblem;
}

/// SQLite mostly goes on writing to a file without a name.
void StoreFile::confirmPlace() {
  std::scoped_lock lock(mutex);
  if (isDisplaced())
    degrade(fmt::format("store {} was deleted or replaced while this process wrote to it: its results are not kept; "
                        "run it again",
                        file.string()));
}

void StoreFile::compact() {
  std::scoped_lock lock(mutex);
  attempt([](SQLite::Database &db) {
    db.exec("VACUUM");
    SQLite::Statement(db, "PRAGMA wal_checkpoint(TRUNCATE)").executeStep();
  });
}

Result<void> StoreFile::connect(Access how) {
  if (how == Access::Immutable && hasCompanion(file, "-journal"))
    throw SQLite::Exception("half of a transaction may be in it", SQLITE_READONLY);
  const Version before = version();
  database.reset();
  int flags = how == Access::ReadWrite || how == Access::Memory ? SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE
                                                                : SQLite::OPEN_READONLY;
  std::string name = how == Access::Memory      ? ":memory:"
                     : how == Access::Immutable ? uri(fs::absolute(file), "immutable=1")
                                                : uri(fs::absolute(file), "");
  database = std::make_unique<SQLite::Database>(name, flags | SQLite::OPEN_URI, patienceMs);
  access = how;
  if (how == Access::ReadWrite && sqlite3_db_readonly(database->getHandle(), "main") == 1)
    throw SQLite::Exception("no permission to write", SQLITE_READONLY);
  const bool isRemote = how == Access::ReadWrite && isNetworkFileSystem(file);
  const bool leavesWalMode =
      isRemote && isInWalMode(file); // It was local. Alone, SQLite needs no shared memory for it.
  if (leavesWalMode)
    database->exec("PRAGMA locking_mode=EXCLUSIVE");
  if (Result<void> known = identify(how); !known)
    return known;
  if (isRemote)
    say(fmt::format("store {} is on a network file system: slower journal; set KFUSE_STORE to a local file",
                    file.string()));
  if (how == Access::ReadWrite) {
    SQLite::Statement(*database, isRemote ? "PRAGMA journal_mode=DELETE" : "PRAGMA journal_mode=WAL").executeStep();
    database->exec("PRAGMA synchronous=NORMAL");
  }
  if (leavesWalMode) {
    database->exec("PRAGMA locking_mode=NORMAL");
    database->execAndGet("SELECT count(*) FROM sqlite_master"); // Locks are let go with the next reading.
  }
  opened = how == Access::Immutable ? before : version();
  return {};
}

Result<void> StoreFile::identify(Access how) {
  if (isBlank(*database)) {
    if (how == Access::ReadOnly || how == Access::Immutable)
      throw SQLite::Exception("empty and read-only", SQLITE_READONLY);
    create(*database);
  }
  const int application = numberOf(*database, "PRAGMA application_id");
  const int version = numberOf(*database, "PRAGMA user_version");
  if (application != applicationId)
    return foreign();
  if (version < oldestSchema && how == Access::ReadWrite)
    return renew(fmt::format("is of schema {}, which is not known any more", version));
  if (version >= oldestSchema && version < storeSchema)
    upgrade(how);
  else if (version != storeSchema)
    return Error{ErrorCode::Io, fmt::format("store {} has schema {} and this kfuse reads {}: use the kfuse that wrote "
                                            "it, or name another file",
                                            file.string(), version, storeSchema)};
  return {};
}

/// A file that is only read is upgraded as a copy in memory.
void StoreFile::upgrade(Access how) {
  if (how != Access::ReadWrite) {
    auto copy = std::make_unique<SQLite::Database>(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    SQLite::Backup(*copy, *database).executeStep();
    database = std::move(copy);
  }
  upgradeTables(*database);
  if (how == Access::ReadWrite)
    say(fmt::format("store {} was an older kfuse's: it is of schema {} now", file.string(), storeSchema));
}

void StoreFile::openInMemory(const std::string &reason) {
  degrade(fmt::format("store {}: {}; results are kept in memory only", file.string(), reason));
  [[maybe_unused]] Result<void> opened = connect(Access::Memory); // Needs no file, so nothing of it can fail.
}

/// Moves the file aside and begins a fresh one.
Result<void> StoreFile::renew(const std::string &reason) {
  database.reset();
  Result<fs::path> aside = moveAside(file);
  if (!aside)
    return aside.error();
  say(fmt::format("store {} {}: moved aside to {}, kernels will be tuned anew", file.string(), reason,
                  aside->filename().string()));
  return connect(Access::ReadWrite);
}

/// The ladder: read and write; after damage a fresh file; read only; in memory.
Result<void> StoreFile::openAny() {
  const bool isOurs = file == cacheStorePath();
  std::error_code ignored;
  makeFolders(folderOf(file));
  if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored))
    return foreign();
  if (std::optional<std::string> planted = plantedCompanion(file))
    return Error{ErrorCode::Io, *planted};
  FolderLock lock(folderOf(file));
  std::string reason;
  for (Access how : {Access::ReadWrite, Access::ReadOnly, Access::Immutable}) {
    try {
      Result<void> connected = connect(how);
      if (connected && how != Access::ReadWrite)
        degrade(fmt::format("store {} cannot be written ({}): new results are not kept", file.string(), reason));
      return connected;
    } catch (const SQLite::Exception &error) {
      if (error.getErrorCode() == SQLITE_NOTADB && !isOurs && !bearsOurMark(file))
        return foreign();
      if (isDamage(error))
        return renew(fmt::format("is damaged ({})", error.what()));
      if (reason.empty())
        reason = reasonOf(error);
      if (error.getErrorCode() == SQLITE_BUSY)
        break; // Reading would wait as long again.
    }
  }
  if (!isOurs && fs::exists(file, ignored) && ::access(file.c_str(), R_OK) != 0)
    return Error{ErrorCode::Io, fmt::format("store {} cannot be read ({}): mend its permissions or name another file",
                                            file.string(), reason)};
  openInMemory(reason);
  return {};
}

/// Damage met in the middle of the work. Another process may have renewed the file already.
void StoreFile::reopenAfter(const std::string &reason) {
  if (access == Access::Immutable)
    return readAnew();
  try {
    FolderLock lock(folderOf(file));
    Result<void> reopened =
        version().inode == opened.inode ? renew(fmt::format("is damaged ({})", reason)) : connect(Access::ReadWrite);
    if (!reopened)
      openInMemory(reopened.error().message);
  } catch (const SQLite::Exception &error) {
    openInMemory(error.what());
  }
}

Result<std::unique_ptr<StoreFile>> StoreFile::open(const fs::path &path, Warn warn) {
  std::unique_ptr<StoreFile> store(new StoreFile(path, std::move(warn)));
  try {
    if (Result<void> opened = store->openAny(); !opened)
      return opened.error();
  } catch (const SQLite::Exception &error) {
    store->openInMemory(error.what());
  }
  return store;
}

Result<std::unique_ptr<StoreFile>> StoreFile::openToRead(const fs::path &path, Warn warn, int patienceMs) {
  std::unique_ptr<StoreFile> store(new StoreFile(path, std::move(warn)));
  store->patienceMs = patienceMs;
  std::error_code failure;
  if (!fs::exists(path, failure))
    return failure ? Error{ErrorCode::Io, fmt::format("store {} cannot be read: {}", path.string(), failure.message())}
                   : noStore(path);
  if (!fs::is_regular_file(path, failure)) // A pipe would be waited for.
    return store->foreign();
  if (std::optional<std::string> planted = plantedCompanion(path))
    return Error{ErrorCode::Io, *planted};
  std::string reason;
  // A connection with locks makes companion files that one which may not write cannot remove.
  const std::array ladder = isAtRest(path) ? std::array{Access::Immutable, Access::ReadOnly}
                                           : std::array{Access::ReadOnly, Access::Immutable};
  for (Access how : ladder) {
    try {
      if (Result<void> opened = store->connect(how); !opened)
        return opened.error();
      return store;
    } catch (const SQLite::Exception &error) {
      if (error.getErrorCode() == SQLITE_NOTADB && !bearsOurMark(path))
        return store->foreign();
      if (isDamage(error))
        return Error{ErrorCode::Io, fmt::format("store {} is damaged ({}); the next tuning moves it aside and begins "
                                                "it anew",
                                                path.string(), error.what())};
      if (reason.empty())
        reason = reasonOf(error);
    }
  }
  return Error{ErrorCode::Io, fmt::format("store {} cannot be read: {}", path.string(), reason)};
}

std::unique_ptr<StoreFile> StoreFile::absent(const fs::path &path) {
  std::unique_ptr<StoreFile> store(new StoreFile(path, {}));
  store->firstProblem = noStore(path);
  [[maybe_unused]] Result<void> connected = store->connect(Access::Memory); // Needs no file.
  return store;
}

} // namespace kfuse::tuner
