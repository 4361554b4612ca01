// The schemas of the store, and how a store of an older one becomes one of today's.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <span>
#include <string_view>

namespace kfuse::tuner {

constexpr int storeSchema = 4;  ///< The file's user_version.
constexpr int oldestSchema = 2; ///< The oldest that can be brought to this one.
constexpr int sha256Schema = 4; ///< The first whose seals are SHA-256.

/// A schema only adds columns, so that a process of an older kfuse which has the file open can go on: what is sealed
/// otherwise than it knows is a miss to it.
struct AddedColumn {
  int schema; ///< The first that has it.
  std::string_view table;
  std::string_view name;
  std::string_view definition; ///< Its default is what rows from before have there.
};

/// Columns by the schema that added them.
std::span<const AddedColumn> addedColumns();

/// Adds what the tables lack and seals again every row whose seal was whole; a broken one stays broken. One
/// transaction: the file is of the old schema or of this one, whenever the process ends. Nothing is done where another
/// process was faster.
void upgradeTables(SQLite::Database &database);

} // namespace kfuse::tuner
