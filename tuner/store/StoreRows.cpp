#include "tuner/store/StoreRows.h"

#include "tuner/record/Key.h"
#include "tuner/store/StoreColumns.h"
#include "tuner/store/StoreSchema.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace kfuse::tuner {
namespace {

template <class Record> constexpr const char *tableOf = nullptr;
template <> constexpr const char *tableOf<Choice> = "choices";
template <> constexpr const char *tableOf<Measurement> = "measurements";
template <> constexpr const char *tableOf<StoredPeaks> = "peaks";
template <> constexpr const char *tableOf<StoredBinary> = "binaries";

constexpr std::array timingColumns{"median_us", "spread", "samples"};
constexpr std::array failureColumns{"failure", "message"};

struct ColumnNames {
  std::vector<std::string> names;

  void operator()(const char *name, const auto &) { names.emplace_back(name); }
  void operator()(const char *, const std::optional<Timing> &) {
    names.insert(names.end(), timingColumns.begin(), timingColumns.end());
  }
  void operator()(const char *, const std::optional<Failure> &) {
    names.insert(names.end(), failureColumns.begin(), failureColumns.end());
  }
};

template <class Record> std::vector<std::string> columnsOf() {
  ColumnNames columns;
  const Record record;
  visitColumns(columns, record);
  columns.names.emplace_back("seal");
  return columns.names;
}

/// Whether a store of this schema has the column already.
bool isIn(int schema, std::string_view table, std::string_view column) {
  return std::ranges::none_of(addedColumns(), [&](const AddedColumn &added) {
    return added.schema > schema && added.table == table && added.name == column;
  });
}

/// Lengths go in too, so that no two rows have one text.
struct SealText {
  std::string_view table;
  int schema;
  std::string text = {};

  void add(const char *name, std::string_view value) {
    if (schema == storeSchema || isIn(schema, table, name))
      text += fmt::format("{}={}:{};", name, value.size(), value);
  }
  void operator()(const char *name, const std::string &value) { add(name, value); }
  void operator()(const char *name, double value) { add(name, fmt::format("{}", value)); }
  void operator()(const char *name, int value) { add(name, fmt::format("{}", value)); }
  void operator()(const char *name, StopReason value) { add(name, toString(value)); }
  void operator()(const char *name, Effort value) { add(name, fmt::format("{}", static_cast<int>(value))); }
  void operator()(const char *name, const codegen::TileConfig &value) { add(name, value.str()); }
  void operator()(const char *name, const std::vector<std::byte> &value) { add(name, sha256(value)); }
  void operator()(const char *name, const std::optional<Timing> &value) {
    if (value)
      add(name, fmt::format("{} {} {}", value->medianUs, value->spread, value->samples));
  }
  void operator()(const char *name, const std::optional<Failure> &value) {
    if (value)
      add(name, fmt::format("{}: {}", toString(value->kind), value->message));
  }
};

template <class Record> std::string sealOf(const Record &record, int schema = storeSchema) {
  SealText seal{tableOf<Record>, schema};
  visitColumns(seal, record);
  return schema < sha256Schema ? stableHash({seal.text}) : sha256(seal.text);
}

struct Binder {
  SQLite::Statement &statement;
  int column = 0;

  void operator()(const char *, const std::string &value) { statement.bind(++column, value); }
  void operator()(const char *, double value) { statement.bind(++column, value); }
  void operator()(const char *, int value) { statement.bind(++column, value); }
  void operator()(const char *, StopReason value) { statement.bind(++column, std::string(toString(value))); }
  void operator()(const char *, Effort value) { statement.bind(++column, static_cast<int>(value)); }
  void operator()(const char *, const codegen::TileConfig &value) { statement.bind(++column, value.str()); }
  void operator()(const char *, const std::vector<std::byte> &value) {
    statement.bindNoCopy(++column, value.data(), static_cast<int>(value.size()));
  }
  void operator()(const char *name, const std::optional<Timing> &value) {
    if (value) {
      (*this)(name, value->medianUs);
      (*this)(name, value->spread);
      (*this)(name, value->samples);
    } else {
      column += timingColumns.size(); // Left NULL.
    }
  }
  void operator()(const char *name, const std::optional<Failure> &value) {
    if (value) {
      (*this)(name, std::string(toString(value->kind)));
      (*this)(name, value->message);
    } else {
      column += failureColumns.size();
    }
  }
};

struct Reader {
  SQLite::Statement &statement;

  SQLite::Column at(const char *name) { return statement.getColumn(name); }
  void operator()(const char *name, std::string &value) { value = at(name).getString(); }
  void operator()(const char *name, double &value) { value = at(name).getDouble(); }
  void operator()(const char *name, int &value) { value = at(name).getInt(); }
  void operator()(const char *name, StopReason &value) {
    value = parseStopReason(at(name).getString()).value_or(StopReason::None);
  }
  void operator()(const char *name, Effort &value) { value = static_cast<Effort>(at(name).getInt()); }
  void operator()(const char *name, codegen::TileConfig &value) {
    value = codegen::TileConfig::parse(at(name).getString()).value_or(codegen::TileConfig{});
  }
  void operator()(const char *name, std::vector<std::byte> &value) {
    SQLite::Column blob = at(name);
    const auto *bytes = static_cast<const std::byte *>(blob.getBlob());
    value.assign(bytes, bytes + blob.getBytes());
  }
  void operator()(const char *, std::optional<Timing> &value) {
    if (!at("median_us").isNull())
      value = Timing{at("median_us").getDouble(), at("spread").getDouble(), at("samples").getInt()};
  }
  void operator()(const char *, std::optional<Failure> &value) {
    if (std::optional<FailureKind> kind = parseFailureKind(at("failure").getString()))
      value = Failure{*kind, at("message").getString()};
  }
};

template <class Record> std::string createTable(std::string_view more = "") {
  std::vector<std::string> columns = columnsOf<Record>();
  columns.front() += " TEXT PRIMARY KEY NOT NULL";
  return fmt::format("CREATE TABLE {}({}{});\n", tableOf<Record>, fmt::join(columns, ", "), more);
}

template <class Record> void reseal(SQLite::Database &db, int schema) {
  std::vector<std::pair<std::string, std::string>> seals; // By key.
  SQLite::Statement row(db, fmt::format("SELECT * FROM {} WHERE seal IS NOT NULL", tableOf<Record>));
  const std::string key = columnsOf<Record>().front();
  while (row.executeStep()) {
    Record record;
    visitColumns(Reader{row}, record);
    if (row.getColumn("seal").getString() == sealOf(record, schema))
      seals.emplace_back(row.getColumn(key.c_str()).getString(), sealOf(record));
  }
  SQLite::Statement update(db, fmt::format("UPDATE {} SET seal = ? WHERE {} = ?", tableOf<Record>, key));
  for (const auto &[name, seal] : seals) {
    update.bind(1, seal);
    update.bind(2, name);
    update.exec();
    update.reset();
  }
}

} // namespace

void resealRows(SQLite::Database &db, int schema) {
  reseal<Choice>(db, schema);
  reseal<Measurement>(db, schema);
  reseal<StoredPeaks>(db, schema);
  if (schema < sha256Schema)
    db.exec("DELETE FROM binaries"); // Their seals hold a CRC-32 of the code, for which anything can be made to fit.
  else
    reseal<StoredBinary>(db, schema);
}

std::string createTables() {
  // A trial under way has no seal; `boot` is the one in which it began, and `lost_boots` counts those that ended with
  // it.
  return createTable<Choice>() + createTable<Measurement>(", boot TEXT, lost_boots INT NOT NULL DEFAULT 0") +
         createTable<StoredPeaks>() + createTable<StoredBinary>() +
         "CREATE INDEX choices_by_kernel ON choices(kernel);\n"
         "CREATE TABLE leases(region TEXT PRIMARY KEY NOT NULL, owner TEXT NOT NULL, beat INT NOT NULL);\n"
         "CREATE INDEX measurements_by_region ON measurements(region);\n";
}

template <class Record> void insertRow(SQLite::Database &database, const Record &record) {
  static const std::vector<std::string> columns = columnsOf<Record>();
  static const std::string sql =
      fmt::format("INSERT OR REPLACE INTO {}({}) VALUES({})", tableOf<Record>, fmt::join(columns, ", "),
                  fmt::join(std::vector(columns.size(), '?'), ","));
  SQLite::Statement statement(database, sql);
  Binder binder{statement};
  visitColumns(binder, record);
  binder("seal", sealOf(record));
  statement.exec();
}

template <class Record> std::optional<Record> rowOf(SQLite::Statement &statement) {
  Record record;
  visitColumns(Reader{statement}, record);
  return statement.getColumn("seal").getString() == sealOf(record) ? std::optional(std::move(record)) : std::nullopt;
}

template <class Record> std::optional<Record> findRow(SQLite::Database &database, const std::string &key) {
  static const std::string sql =
      fmt::format("SELECT * FROM {} WHERE {} = ?", tableOf<Record>, columnsOf<Record>().front());
  SQLite::Statement statement(database, sql);
  statement.bind(1, key);
  return statement.executeStep() ? rowOf<Record>(statement) : std::nullopt;
}

#define KFUSE_RECORD(Record)                                                                                           \
  template void insertRow(SQLite::Database &, const Record &);                                                         \
  template std::optional<Record> rowOf(SQLite::Statement &);                                                           \
  template std::optional<Record> findRow(SQLite::Database &, const std::string &);
KFUSE_RECORD(Choice)
KFUSE_RECORD(Measurement)
KFUSE_RECORD(StoredPeaks)
KFUSE_RECORD(StoredBinary)
#undef KFUSE_RECORD

} // namespace kfuse::tuner
