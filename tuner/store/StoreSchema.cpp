#include "tuner/store/StoreSchema.h"

#include "tuner/store/StoreRows.h"

#include <fmt/format.h>

#include <array>

namespace kfuse::tuner {
namespace {

constexpr std::array columns{
    // The first stores of schema 2 counted starts instead.
    AddedColumn{3, "measurements", "boot", "TEXT DEFAULT ''"},
    AddedColumn{3, "measurements", "lost_boots", "INT NOT NULL DEFAULT 0"},
    AddedColumn{3, "choices", "ruled_out", "DEFAULT 0"},
    AddedColumn{3, "choices", "stop", "DEFAULT 'none'"},
    AddedColumn{3, "choices", "sm_mhz", "DEFAULT 0.0"},
    AddedColumn{3, "choices", "memory_mhz", "DEFAULT 0.0"},
    AddedColumn{3, "choices", "watts", "DEFAULT 0.0"},
    AddedColumn{3, "choices", "celsius", "DEFAULT 0.0"},
    AddedColumn{3, "peaks", "remark", "DEFAULT ''"},
};

bool hasColumn(SQLite::Database &db, const AddedColumn &column) {
  SQLite::Statement found(
      db, fmt::format("SELECT 1 FROM pragma_table_info('{}') WHERE name = '{}'", column.table, column.name));
  return found.executeStep();
}

} // namespace

std::span<const AddedColumn> addedColumns() { return columns; }

void upgradeTables(SQLite::Database &db) {
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  const int from = db.execAndGet("PRAGMA user_version").getInt();
  if (from >= storeSchema)
    return;
  for (const AddedColumn &column : columns)
    if (column.schema > from && !hasColumn(db, column))
      db.exec(fmt::format("ALTER TABLE {} ADD COLUMN {} {}", column.table, column.name, column.definition));
  resealRows(db, from);
  db.exec(fmt::format("PRAGMA user_version={}", storeSchema));
  transaction.commit();
}

} // namespace kfuse::tuner
