// A store and what tests of it do to its file.
#pragma once

#include "StoreRowsOf.h"

#include "tuner/store/Store.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sqlite3.h>
#include <sstream>

namespace kfuse::tuner::test {

namespace fs = std::filesystem;

inline bool same(const Choice &a, const Choice &b) {
  return a.region == b.region && a.kernel == b.kernel && a.name == b.name && a.ops == b.ops && a.target == b.target &&
         a.sku == b.sku && a.compiler == b.compiler && a.driver == b.driver && a.config == b.config &&
         a.effort == b.effort && a.timing == b.timing && a.candidates == b.candidates && a.failed == b.failed &&
         a.cut == b.cut;
}

inline bool same(const Measurement &a, const Measurement &b) {
  return a.kernel == b.kernel && a.region == b.region && a.config == b.config && a.driver == b.driver &&
         a.estimateUs == b.estimateUs && a.timing == b.timing && a.failure.has_value() == b.failure.has_value() &&
         (!a.failure || (a.failure->kind == b.failure->kind && a.failure->message == b.failure->message));
}

/// True when row `i` is there and right; a row that is there but wrong fails the test.
inline bool holdsRow(Store &store, int i) {
  std::optional<Choice> choice = store.findChoice(choiceNumber(i).region);
  CHECK((!choice || same(*choice, choiceNumber(i))));
  std::optional<runtime::CompiledKernel> binary = store.findBinary(choiceNumber(i).kernel);
  CHECK((!binary || (binary->image == binaryNumber(i).image && binary->facts == binaryNumber(i).facts)));
  std::optional<Measurement> measurement = store.findMeasurement(measurementNumber(i).kernel);
  CHECK((!measurement || same(*measurement, measurementNumber(i))));
  return choice && binary && measurement;
}

inline void putRow(Store &store, int i) {
  store.put(measurementNumber(i));
  store.put(choiceNumber(i), binaryNumber(i));
}

struct Warnings {
  std::string text;
  Store::Warn sink() {
    return [this](const std::string &line) { text += line + "\n"; };
  }
};

inline std::unique_ptr<Store> mustOpen(const fs::path &path, Store::Warn warn = {}) {
  Result<std::unique_ptr<Store>> store = Store::open(path, std::move(warn));
  REQUIRE(store);
  return std::move(*store);
}

inline constexpr int rows = 12; ///< What writeStore() writes.
inline void writeStore(const fs::path &path) {
  std::unique_ptr<Store> store = mustOpen(path);
  for (int i = 0; i < rows; ++i)
    putRow(*store, i);
}

inline std::unique_ptr<Store> mustOpenToRead(const fs::path &path, Store::Warn warn = {}) {
  Result<std::unique_ptr<Store>> store = Store::openToRead(path, std::move(warn));
  REQUIRE(store);
  return std::move(*store);
}

inline std::vector<std::string> filesIn(const fs::path &folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry &file : fs::directory_iterator(folder))
    names.push_back(file.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string readFile(const fs::path &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void writeFile(const fs::path &path, const std::string &text) { std::ofstream(path, std::ios::binary) << text; }

inline void execute(const fs::path &path, const char *sql) {
  sqlite3 *database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

} // namespace kfuse::tuner::test
