// The rows of the store. The columns of each record are listed once, in StoreColumns.h; SQL, the seal and JSON follow.
#pragma once

#include "runtime/Device.h"
#include "tuner/record/Choice.h"
#include "tuner/record/Measurement.h"
#include "tuner/record/Roofline.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <optional>
#include <string>

namespace kfuse::tuner {

struct StoredBinary {
  std::string kernel; ///< tuningKey.
  runtime::CompiledKernel binary;
};

/// SQL that makes every table. Each row of a record ends with a seal: SHA-256 of its other columns, for SQLite does
/// not notice a flipped bit in a value. It shows damage, and is no signature (tuner/store/StoreTrust.h).
std::string createTables();

/// Seals the rows again that a store of an older schema sealed otherwise, or without the columns added since. Machine
/// code whose seal was no hash of it goes. Tables have all columns.
void resealRows(SQLite::Database &database, int schema);

/// Record is Choice, Measurement, StoredPeaks or StoredBinary. An existing row of the same key is replaced.
template <class Record> void insertRow(SQLite::Database &database, const Record &record);

/// The record in the statement's current row, of which every column of the table was selected. Nothing when its seal
/// is broken.
template <class Record> std::optional<Record> rowOf(SQLite::Statement &statement);

/// The row with this key; nothing when there is none, or its seal is broken.
template <class Record> std::optional<Record> findRow(SQLite::Database &database, const std::string &key);

} // namespace kfuse::tuner
