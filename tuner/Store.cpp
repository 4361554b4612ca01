#include "tuner/Store.h"

#include "tuner/Key.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

namespace fs = std::filesystem;

namespace kfuse::tuner {
namespace {

constexpr int applicationId = 0x6b667573; // "kfus"
constexpr int schemaVersion = 1;
constexpr int busyTimeoutMs = 10000;
constexpr std::size_t applicationIdOffset = 68; ///< In the header of every SQLite file, big-endian.

/// `seal` is a checksum of the row's other columns: SQLite does not notice a flipped bit in a value.
constexpr const char *schema = R"sql(
  CREATE TABLE choices(region TEXT PRIMARY KEY, kernel TEXT NOT NULL, name TEXT, ops TEXT, target TEXT, sku TEXT,
    compiler TEXT, driver TEXT, config TEXT, effort INT, median_us REAL, spread REAL, samples INT, candidates INT,
    failed INT, cut INT, seal TEXT);
  CREATE INDEX choices_by_kernel ON choices(kernel);
  CREATE TABLE measurements(kernel TEXT PRIMARY KEY, region TEXT, config TEXT, driver TEXT, estimate_us REAL,
    median_us REAL, spread REAL, samples INT, failure TEXT, message TEXT, starts INT NOT NULL DEFAULT 1, seal TEXT);
  CREATE TABLE binaries(kernel TEXT PRIMARY KEY, registers INT, spill_bytes INT, stack_bytes INT, shared_bytes INT,
    compile_ms REAL, log TEXT, image BLOB, seal TEXT);
  CREATE TABLE peaks(sku TEXT PRIMARY KEY, read_bytes_per_us REAL, write_bytes_per_us REAL, copy_bytes_per_us REAL,
    f32_burst REAL, f32_sustained REAL, half_burst REAL, half_sustained REAL, launch_us REAL, seal TEXT);
)sql";

enum class Access { ReadWrite, ReadOnly, Immutable, Memory };

/// SQLiteCpp's own code, for a column that is not there.
constexpr int misuse = -1;

/// True when the file itself is broken. Our SQL is fixed, so an SQL error means a broken schema too.
bool isDamage(const SQLite::Exception &error) {
  constexpr std::array codes{SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_ERROR, SQLITE_FORMAT, SQLITE_MISMATCH, misuse};
  return std::find(codes.begin(), codes.end(), error.getErrorCode()) != codes.end();
}

/// What SQLite met, in words that say what to do.
std::string reasonOf(const SQLite::Exception &error) {
  switch (error.getErrorCode()) {
  case SQLITE_BUSY:
    return fmt::format("another process has kept it locked for {} s: end that process, or name another file",
                       busyTimeoutMs / 1000);
  case SQLITE_FULL:
  case SQLITE_IOERR: // What a full disk says when the write-ahead log cannot grow.
    return fmt::format("the disk is full or failing ({}): free some space, or name a file on another disk",
                       error.what());
  default:
    return error.what();
  }
}

/// WAL needs shared memory, which network file systems do not offer. Magic numbers from statfs(2).
bool isNetworkFileSystem(const fs::path &folder) {
  constexpr unsigned long nfs = 0x6969, smb = 0x517b, cifs = 0xff534d42, smb2 = 0xfe534d42, ceph = 0x00c36400,
                          lustre = 0x0bd00bd0, gpfs = 0x47504653, afs = 0x5346414f, fuse = 0x65735546,
                          plan9 = 0x01021997, beegfs = 0x19830326, panfs = 0xaad7aaea;
  constexpr std::array magics{nfs, smb, cifs, smb2, ceph, lustre, gpfs, afs, fuse, plan9, beegfs, panfs};
  struct statfs facts{};
  if (statfs(folder.c_str(), &facts) != 0)
    return false;
  return std::find(magics.begin(), magics.end(), static_cast<unsigned long>(facts.f_type) & 0xffffffff) != magics.end();
}

/// Holds processes apart while one creates, opens or moves aside the file. A lock on the folder leaves no
/// lock file behind. Where the file system has no locks, or a stopped process keeps one, opening goes on without.
class FolderLock {
public:
  explicit FolderLock(const fs::path &folder) : descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    constexpr std::chrono::milliseconds pause(10);
    for (auto waited = pause * 0; descriptor >= 0 && waited.count() < busyTimeoutMs; waited += pause) {
      if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return;
      std::this_thread::sleep_for(pause);
    }
  }
  ~FolderLock() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

private:
  int descriptor;
};

fs::path folderOf(const fs::path &path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

ino_t inodeOf(const fs::path &path) {
  struct stat facts{};
  return stat(path.c_str(), &facts) == 0 ? facts.st_ino : 0;
}

/// Whether the file begins as a kfuse store does, however little of it is left.
bool bearsOurMark(const fs::path &path) {
  std::array<unsigned char, applicationIdOffset + 4> header{};
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(header.data()), header.size());
  int id = 0;
  for (std::size_t i = applicationIdOffset; i < header.size(); ++i)
    id = id << 8 | header[i];
  return id == applicationId;
}

fs::path environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

fs::path homeFolder() {
  fs::path home = environment("HOME");
  const passwd *user = home.empty() ? getpwuid(geteuid()) : nullptr; // Services have no HOME.
  return user ? fs::path(user->pw_dir) : home;
}

/// Where kfuse keeps its own store. What lies there is nobody else's.
fs::path cachePath() {
  fs::path cache = environment("XDG_CACHE_HOME");
  return (cache.empty() ? homeFolder() / ".cache" : cache) / "kfuse/store.db";
}

std::string uri(const fs::path &path, std::string_view parameters) {
  std::string text = "file:";
  for (char c : path.string())
    text += c == '%' || c == '?' || c == '#' ? fmt::format("%{:02x}", static_cast<int>(c)) : std::string(1, c);
  return text + "?" + std::string(parameters);
}

/// NAME.corrupt-N with the least free N; SQLite's companion files go along, for whoever wants to rescue it.
Result<fs::path> moveAside(const fs::path &path) {
  fs::path aside;
  for (int n = 1; aside.empty() || fs::exists(aside); ++n)
    aside = fmt::format("{}.corrupt-{}", path.string(), n);
  std::error_code failed;
  fs::rename(path, aside, failed);
  if (failed)
    return Error{ErrorCode::Io, fmt::format("{} is damaged and cannot be moved aside ({}): remove it", path.string(),
                                            failed.message())};
  for (const char *companion : {"-wal", "-shm", "-journal"})
    fs::rename(path.string() + companion, aside.string() + companion, failed);
  return aside;
}

std::string text(const std::optional<Timing> &timing) {
  return timing ? fmt::format("{} {} {}", timing->medianUs, timing->spread, timing->samples) : "untimed";
}

std::string seal(const Choice &c) {
  return stableHash({c.region, c.kernel, c.name, c.ops, c.target, c.sku, c.compiler, c.driver, c.config.str(),
                     text(c.timing),
                     fmt::format("{} {} {} {}", static_cast<int>(c.effort), c.candidates, c.failed, c.cut)});
}

std::string seal(const Measurement &m) {
  return stableHash({m.kernel, m.region, m.config.str(), m.driver, fmt::format("{}", m.estimateUs), text(m.timing),
                     m.failure ? toString(m.failure->kind) : "", m.failure ? m.failure->message : ""});
}

std::string seal(const std::string &kernel, const runtime::CompiledKernel &binary) {
  const runtime::ResourceFacts &f = binary.facts;
  return stableHash({kernel, binary.log,
                     fmt::format("{} {} {} {} {} {}", checksum(binary.image), f.registers, f.spillBytes, f.stackBytes,
                                 f.staticSharedBytes, binary.compileMs)});
}

constexpr std::array peakFields{&Peaks::readBytesPerUs, &Peaks::writeBytesPerUs, &Peaks::copyBytesPerUs,
                                &Peaks::f32Burst,       &Peaks::f32Sustained,    &Peaks::halfBurst,
                                &Peaks::halfSustained,  &Peaks::launchUs};

std::string seal(const std::string &sku, const Peaks &peaks) {
  std::string values;
  for (double Peaks::*field : peakFields)
    values += fmt::format("{} ", peaks.*field);
  return stableHash({sku, values});
}

/// Binds the values of one row in the order of its columns.
class Row {
public:
  Row(SQLite::Database &database, const char *sql) : statement(database, sql) {}

  Row &operator<<(const std::string &value) { return statement.bind(++column, value), *this; }
  Row &operator<<(double value) { return statement.bind(++column, value), *this; }
  Row &operator<<(int value) { return statement.bind(++column, value), *this; }
  Row &operator<<(const std::vector<std::byte> &value) {
    return statement.bindNoCopy(++column, value.data(), static_cast<int>(value.size())), *this;
  }
  Row &operator<<(const std::optional<Timing> &timing) {
    if (timing)
      return *this << timing->medianUs << timing->spread << timing->samples;
    column += 3; // Left NULL.
    return *this;
  }
  Row &operator<<(const std::optional<Failure> &failure) {
    if (failure)
      return *this << std::string(toString(failure->kind)) << failure->message;
    column += 2;
    return *this;
  }
  void write() { statement.exec(); }
  bool next() { return statement.executeStep(); }
  SQLite::Column operator[](const char *name) { return statement.getColumn(name); }

private:
  SQLite::Statement statement;
  int column = 0;
};

std::optional<Timing> timingOf(Row &row) {
  if (row["median_us"].isNull())
    return std::nullopt;
  return Timing{row["median_us"].getDouble(), row["spread"].getDouble(), row["samples"].getInt()};
}

} // namespace

struct Store::State {
  fs::path path;
  bool isOurs = false; ///< In the cache folder.
  Warn warn;
  std::recursive_mutex mutex;
  std::unique_ptr<SQLite::Database> database;
  Access access = Access::Memory;
  ino_t inode = 0;
  std::set<std::string> said;
  std::optional<Error> problem;

  void say(const std::string &message) {
    if (said.insert(message).second && warn)
      warn(message);
  }

  void degrade(const std::string &message) {
    say(message);
    if (!problem)
      problem = Error{ErrorCode::Io, message};
  }

  void giveUp(const SQLite::Exception &error) {
    degrade(fmt::format("store {}: {}; results are not kept", path.string(), reasonOf(error)));
    if (error.getErrorCode() == SQLITE_BUSY)
      database->setBusyTimeout(0); // Waited for once: hundreds of writes would take hours.
  }

  /// Opens `path` as `how`. An SQLite::Exception says that this way is barred.
  Result<void> connect(Access how);
  Result<void> identify(Access how);
  Result<void> open();
  void openInMemory(const std::string &reason);
  Result<void> renew(const std::string &reason);
  void reopenAfter(const std::string &reason);

  Error foreign() const {
    return {ErrorCode::Io,
            fmt::format("{} is not a kfuse store: name another file, or move this one away", path.string())};
  }

  /// Runs `work`; damage renews the file and runs it once more. False when it did not succeed.
  template <class Work> bool attempt(Work work) {
    for (bool again : {false, true}) {
      try {
        work(*database);
        return true;
      } catch (const SQLite::Exception &error) {
        if (!again && isDamage(error) && access == Access::ReadWrite)
          reopenAfter(error.what());
        else
          giveUp(error);
      }
    }
    return false;
  }

  template <class Work> void write(Work work) {
    std::scoped_lock lock(mutex);
    if (access != Access::ReadWrite && access != Access::Memory)
      return;
    attempt([&](SQLite::Database &db) {
      SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
      work(db);
      transaction.commit();
    });
  }

  /// `work` returns an optional; a failed read is a miss.
  template <class Work> auto read(Work work) -> decltype(work(*database)) {
    std::scoped_lock lock(mutex);
    decltype(work(*database)) found;
    return attempt([&](SQLite::Database &db) { found = work(db); }) ? found : std::nullopt;
  }
};

Result<void> Store::State::connect(Access how) {
  database.reset();
  int flags = how == Access::ReadWrite || how == Access::Memory ? SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE
                                                                : SQLite::OPEN_READONLY;
  std::string name = how == Access::Memory      ? ":memory:"
                     : how == Access::Immutable ? uri(fs::absolute(path), "immutable=1")
                                                : uri(fs::absolute(path), "");
  database = std::make_unique<SQLite::Database>(name, flags | SQLite::OPEN_URI, busyTimeoutMs);
  access = how;
  if (how == Access::ReadWrite && sqlite3_db_readonly(database->getHandle(), "main") == 1)
    throw SQLite::Exception("no permission to write", SQLITE_READONLY);
  if (Result<void> known = identify(how); !known)
    return known;
  if (how == Access::ReadWrite) {
    bool network = isNetworkFileSystem(folderOf(path));
    if (network)
      say(fmt::format("store {} is on a network file system: slower journal; set KFUSE_STORE to a local file",
                      path.string()));
    SQLite::Statement(*database, network ? "PRAGMA journal_mode=DELETE" : "PRAGMA journal_mode=WAL").executeStep();
    database->exec("PRAGMA synchronous=NORMAL");
  }
  inode = inodeOf(path);
  return {};
}

Result<void> Store::State::identify(Access how) {
  int application = database->execAndGet("PRAGMA application_id").getInt();
  int version = database->execAndGet("PRAGMA user_version").getInt();
  bool empty = database->execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0;
  if (empty && application == 0 && version == 0) {
    if (how == Access::ReadOnly || how == Access::Immutable)
      throw SQLite::Exception("empty and read-only", SQLITE_READONLY);
    SQLite::Transaction transaction(*database, SQLite::TransactionBehavior::IMMEDIATE);
    database->exec(schema);
    database->exec(fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", applicationId, schemaVersion));
    transaction.commit();
    return {};
  }
  if (application != applicationId)
    return foreign();
  if (version != schemaVersion)
    return Error{ErrorCode::Io, fmt::format("store {} has schema {} and this kfuse reads {}: use the kfuse that wrote "
                                            "it, or name another file",
                                            path.string(), version, schemaVersion)};
  return {};
}

void Store::State::openInMemory(const std::string &reason) {
  degrade(fmt::format("store {}: {}; results are kept in memory only", path.string(), reason));
  [[maybe_unused]] Result<void> opened = connect(Access::Memory); // Needs no file, so nothing of it can fail.
}

/// Moves the damaged file aside and begins a fresh one.
Result<void> Store::State::renew(const std::string &reason) {
  database.reset();
  Result<fs::path> aside = moveAside(path);
  if (!aside)
    return aside.error();
  say(fmt::format("store {} is damaged ({}): moved aside to {}, kernels will be tuned anew", path.string(), reason,
                  aside->filename().string()));
  return connect(Access::ReadWrite);
}

/// The ladder: read and write; after damage a fresh file; read only; in memory.
Result<void> Store::State::open() {
  std::error_code ignored; // A folder that cannot be made shows when the file is opened.
  fs::create_directories(folderOf(path), ignored);
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))
    return foreign();
  FolderLock lock(folderOf(path));
  std::string reason;
  for (Access how : {Access::ReadWrite, Access::ReadOnly, Access::Immutable}) {
    try {
      Result<void> connected = connect(how);
      if (connected && how != Access::ReadWrite)
        degrade(fmt::format("store {} cannot be written ({}): new results are not kept", path.string(), reason));
      return connected;
    } catch (const SQLite::Exception &error) {
      if (error.getErrorCode() == SQLITE_NOTADB && !isOurs && !bearsOurMark(path))
        return foreign();
      if (isDamage(error))
        return renew(error.what());
      if (reason.empty())
        reason = reasonOf(error);
      if (error.getErrorCode() == SQLITE_BUSY)
        break; // Reading would wait as long again.
    }
  }
  if (!isOurs && fs::exists(path, ignored) && ::access(path.c_str(), R_OK) != 0)
    return Error{ErrorCode::Io, fmt::format("store {} cannot be read ({}): mend its permissions or name another file",
                                            path.string(), reason)};
  openInMemory(reason);
  return {};
}

/// Damage met in the middle of the work. Another process may have renewed the file already.
void Store::State::reopenAfter(const std::string &reason) {
  try {
    FolderLock lock(folderOf(path));
    Result<void> reopened = inodeOf(path) == inode ? renew(reason) : connect(Access::ReadWrite);
    if (!reopened)
      openInMemory(reopened.error().message);
  } catch (const SQLite::Exception &error) {
    openInMemory(error.what());
  }
}

fs::path Store::defaultPath() {
  fs::path named = environment("KFUSE_STORE");
  return named.empty() ? cachePath() : named;
}

Store::Store(std::unique_ptr<State> state) : state(std::move(state)) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(const fs::path &path, Warn warn) {
  auto state = std::make_unique<State>();
  state->path = path.empty() ? defaultPath() : path;
  state->isOurs = state->path == cachePath();
  state->warn = std::move(warn);
  try {
    if (Result<void> opened = state->open(); !opened)
      return opened.error();
  } catch (const SQLite::Exception &error) {
    state->openInMemory(error.what());
  }
  return std::unique_ptr<Store>(new Store(std::move(state)));
}

std::optional<Error> Store::problem() const {
  std::scoped_lock lock(state->mutex);
  return state->problem;
}

std::optional<Choice> Store::findChoice(const std::string &region) {
  return state->read([&](SQLite::Database &db) -> std::optional<Choice> {
    Row row(db, "SELECT * FROM choices WHERE region = ?");
    row << region;
    if (!row.next())
      return std::nullopt;
    Choice choice;
    choice.region = region;
    choice.kernel = row["kernel"].getString();
    choice.name = row["name"].getString();
    choice.ops = row["ops"].getString();
    choice.target = row["target"].getString();
    choice.sku = row["sku"].getString();
    choice.compiler = row["compiler"].getString();
    choice.driver = row["driver"].getString();
    choice.config = codegen::TileConfig::parse(row["config"].getString()).value_or(codegen::TileConfig{});
    choice.effort = static_cast<Effort>(row["effort"].getInt());
    choice.timing = timingOf(row);
    choice.candidates = row["candidates"].getInt();
    choice.failed = row["failed"].getInt();
    choice.cut = row["cut"].getInt();
    return row["seal"].getString() == seal(choice) ? std::optional(choice) : std::nullopt;
  });
}

std::optional<Measurement> Store::findMeasurement(const std::string &kernel) {
  return state->read([&](SQLite::Database &db) -> std::optional<Measurement> {
    Row row(db, "SELECT * FROM measurements WHERE kernel = ?");
    row << kernel;
    if (!row.next())
      return std::nullopt;
    Measurement found;
    found.kernel = kernel;
    found.region = row["region"].getString();
    found.config = codegen::TileConfig::parse(row["config"].getString()).value_or(codegen::TileConfig{});
    found.driver = row["driver"].getString();
    found.estimateUs = row["estimate_us"].getDouble();
    found.timing = timingOf(row);
    if (std::optional<FailureKind> kind = parseFailureKind(row["failure"].getString()))
      found.failure = Failure{*kind, row["message"].getString()};
    bool finished = found.timing || found.failure;
    return finished && row["seal"].getString() == seal(found) ? std::optional(found) : std::nullopt;
  });
}

std::optional<runtime::CompiledKernel> Store::findBinary(const std::string &kernel) {
  return state->read([&](SQLite::Database &db) -> std::optional<runtime::CompiledKernel> {
    Row row(db, "SELECT * FROM binaries WHERE kernel = ?");
    row << kernel;
    if (!row.next())
      return std::nullopt;
    runtime::CompiledKernel binary;
    SQLite::Column image = row["image"];
    const auto *bytes = static_cast<const std::byte *>(image.getBlob());
    binary.image.assign(bytes, bytes + image.getBytes());
    binary.facts = {row["registers"].getInt(), row["spill_bytes"].getInt(), row["stack_bytes"].getInt(),
                    row["shared_bytes"].getInt()};
    binary.compileMs = row["compile_ms"].getDouble();
    binary.log = row["log"].getString();
    return row["seal"].getString() == seal(kernel, binary) ? std::optional(binary) : std::nullopt;
  });
}

std::optional<Peaks> Store::findPeaks(const std::string &sku) {
  return state->read([&](SQLite::Database &db) -> std::optional<Peaks> {
    SQLite::Statement row(db, "SELECT * FROM peaks WHERE sku = ?");
    row.bind(1, sku);
    if (!row.executeStep())
      return std::nullopt;
    Peaks peaks;
    int column = 1;
    for (double Peaks::*field : peakFields)
      peaks.*field = row.getColumn(column++).getDouble();
    peaks.measured = true;
    return row.getColumn(column).getString() == seal(sku, peaks) ? std::optional(peaks) : std::nullopt;
  });
}

bool Store::beginTrial(const Measurement &trial) {
  int starts = 1;
  state->write([&](SQLite::Database &db) {
    Row row(db, "INSERT INTO measurements(kernel, region, config, driver, estimate_us) VALUES(?, ?, ?, ?, ?) "
                "ON CONFLICT(kernel) DO UPDATE SET starts = 1 + (median_us IS NULL AND failure IS NULL AND "
                "driver = excluded.driver) * starts, driver = excluded.driver, median_us = NULL, failure = NULL "
                "RETURNING starts");
    row << trial.kernel << trial.region << trial.config.str() << trial.driver << trial.estimateUs;
    if (row.next())
      starts = row["starts"].getInt();
  });
  return starts <= 2;
}

void Store::put(const Measurement &m) {
  state->write([&](SQLite::Database &db) {
    Row row(db, "INSERT OR REPLACE INTO measurements(kernel, region, config, driver, estimate_us, median_us, spread, "
                "samples, failure, message, seal) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    row << m.kernel << m.region << m.config.str() << m.driver << m.estimateUs << m.timing << m.failure << seal(m);
    row.write();
  });
}

void Store::put(const Choice &c, const runtime::CompiledKernel &binary) {
  state->write([&](SQLite::Database &db) {
    Row choice(db, "INSERT OR REPLACE INTO choices VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    choice << c.region << c.kernel << c.name << c.ops << c.target << c.sku << c.compiler << c.driver << c.config.str()
           << static_cast<int>(c.effort) << c.timing << c.candidates << c.failed << c.cut << seal(c);
    choice.write();
    Row image(db, "INSERT OR REPLACE INTO binaries VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
    image << c.kernel << binary.facts.registers << binary.facts.spillBytes << binary.facts.stackBytes
          << binary.facts.staticSharedBytes << binary.compileMs << binary.log << binary.image << seal(c.kernel, binary);
    image.write();
    db.exec("DELETE FROM binaries WHERE kernel NOT IN (SELECT kernel FROM choices)");
  });
}

void Store::put(const std::string &sku, const Peaks &peaks) {
  state->write([&](SQLite::Database &db) {
    Row row(db, "INSERT OR REPLACE INTO peaks VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    row << sku;
    for (double Peaks::*field : peakFields)
      row << peaks.*field;
    row << seal(sku, peaks);
    row.write();
  });
}

} // namespace kfuse::tuner
