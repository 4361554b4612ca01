#include "Commands.h"
#include "ModelOptions.h"
#include "Table.h"
#include "tuner/StoreContents.h"
#include "tuner/StorePlace.h"
#include "tuner/StoreUpkeep.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>

namespace kfuse::tools {
namespace {

using Json = nlohmann::ordered_json;
using tuner::Choice;
using tuner::Measurement;
using tuner::StoreFile;

constexpr std::size_t keyDigits = 8; ///< Of a region's key: enough to name it.

struct DbOptions {
  std::string store;
  bool json = false;
  std::string name;               ///< What to show.
  std::string file;               ///< To export to or import from; "-" is stdout or stdin.
  std::vector<std::string> files; ///< To merge.
  tuner::PruneOptions prune;

  std::filesystem::path path() const {
    return store.empty() ? tuner::defaultStorePath() : std::filesystem::path(store);
  }
};

std::string localTime(double unixSeconds) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(static_cast<std::time_t>(unixSeconds)));
}

const char *nameOf(tuner::Effort effort) {
  return effort == tuner::Effort::Full ? "full" : effort == tuner::Effort::Quick ? "quick" : "none";
}

std::string timeOf(const std::optional<tuner::Timing> &timing) {
  return timing ? formatTime(timing->medianUs) : "untimed";
}

void print(const Json &json) { fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace)); }

/// What a damaged row holds may be no text: bytes that are not UTF-8 become U+FFFD.
std::string readable(const std::string &text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

int list(StoreFile &file, const DbOptions &options) {
  const std::vector<Choice> choices = tuner::readContents(file).choices;
  if (options.json) {
    Json rows = Json::array();
    for (const Choice &choice : choices)
      rows.push_back(Json::parse(tuner::toJson(choice)));
    print(rows);
    return 0;
  }
  std::map<std::string, Table> tables; // A table for each device, driver and compiler.
  for (const Choice &choice : choices) {
    std::string device = choice.sku.empty() ? choice.target + " (not present)" : choice.sku;
    std::string driver = choice.driver.empty() ? "" : ", driver " + choice.driver;
    auto [table, isNew] =
        tables.try_emplace(device + driver + ", " + choice.compiler,
                           Table({"key", ">measured", "effort", ">tried", ">bad", "tuned", "kernel"}));
    table->second.add({choice.region.substr(0, keyDigits), timeOf(choice.timing), nameOf(choice.effort),
                       std::to_string(choice.candidates), std::to_string(choice.failed), localTime(choice.at),
                       choice.ops});
  }
  for (const auto &[device, table] : tables)
    fmt::print("{}\n{}\n", device, table.str());
  fmt::print("{} kernels in {}\n", choices.size(), file.path().string());
  return 0;
}

Table measurementsOf(const Choice &choice, const std::vector<Measurement> &measurements) {
  Table table({"", ">after", ">measured", ">spread", ">runs", ">modelled", "config"});
  for (const Measurement &row : measurements) {
    std::string mark = row.kernel == choice.kernel ? "*" : "";
    std::string after = fmt::format("{:.2f} s", row.at - measurements.front().at);
    std::string modelled = formatTime(row.estimateUs);
    if (row.failure)
      table.add({mark, after, std::string(toString(row.failure->kind)), "-", "-", modelled,
                 row.config.str() + ": " + row.failure->message});
    else
      table.add({mark, after, timeOf(row.timing), fmt::format("{:.1f}%", 100 * row.timing->spread),
                 std::to_string(row.timing->samples), modelled, row.config.str()});
  }
  return table;
}

int show(StoreFile &file, const DbOptions &options) {
  Json shown = Json::array();
  for (const Choice &choice : tuner::readContents(file).choices) {
    if (!choice.region.starts_with(options.name) && choice.name != options.name)
      continue;
    const std::vector<Measurement> measurements = tuner::readMeasurements(file, choice.region);
    Json rows = Json::array();
    for (const Measurement &measurement : measurements)
      rows.push_back(Json::parse(tuner::toJson(measurement)));
    shown.push_back({{"choice", Json::parse(tuner::toJson(choice))}, {"measurements", rows}});
    if (!options.json)
      fmt::print("{} {}: {}\n{}\n{}{}, effort {}, {}\nchosen: {}, {}\n{}\n", choice.region.substr(0, keyDigits),
                 choice.name, choice.ops, choice.sku, choice.driver.empty() ? "" : "driver " + choice.driver + ", ",
                 choice.compiler, nameOf(choice.effort), localTime(choice.at), choice.config.str(),
                 timeOf(choice.timing), measurementsOf(choice, measurements).str());
  }
  if (shown.empty())
    return fail({ErrorCode::Usage, fmt::format("no kernel in {} has the name, or a key that begins with, '{}'; `kfuse "
                                               "db list` shows them",
                                               file.path().string(), options.name)});
  if (options.json)
    print(shown);
  return 0;
}

int exportTo(StoreFile &file, const DbOptions &options) {
  std::string text = tuner::toJson(tuner::readContents(file)) + "\n";
  if (options.file == "-") {
    fmt::print("{}", text);
    return 0;
  }
  std::ofstream out(options.file, std::ios::binary);
  if (!(out << text).flush())
    return fail({ErrorCode::Io, fmt::format("{} cannot be written: {}", options.file, std::strerror(errno))});
  return 0;
}

int report(const tuner::StoreChanges &changes, const char *verb, const DbOptions &options) {
  if (options.json)
    print({{"choices", changes.choices},
           {"measurements", changes.measurements},
           {"peaks", changes.peaks},
           {"binaries", changes.binaries}});
  else
    fmt::print("{}: {} choices, {} measurements, {} peaks, {} binaries\n", verb, changes.choices, changes.measurements,
               changes.peaks, changes.binaries);
  return 0;
}

/// What keeps the store from being written a warning has said.
int failToChange(const StoreFile &file, const Error &error) {
  return file.problem() ? static_cast<int>(error.code) : fail(error);
}

int importFrom(StoreFile &file, const DbOptions &options) {
  std::string text;
  if (options.file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream in(options.file, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(in), {});
    if (!in)
      return fail({ErrorCode::Io, fmt::format("{} cannot be read: {}", options.file, std::strerror(errno))});
  }
  Result<tuner::StoreContents> contents = tuner::parseContents(text);
  if (!contents)
    return fail(
        {contents.error().code, fmt::format("{}: {}; nothing was imported", options.file, contents.error().message)});
  Result<tuner::StoreChanges> changes = tuner::addContents(file, *contents);
  return changes ? report(*changes, "imported", options) : failToChange(file, changes.error());
}

int mergeInto(StoreFile &file, const DbOptions &options) {
  tuner::StoreChanges total;
  for (const std::string &name : options.files) {
    Result<std::unique_ptr<StoreFile>> from = StoreFile::openToRead(name, warn);
    if (!from)
      return fail(from.error());
    Result<tuner::StoreChanges> changes = tuner::merge(file, **from);
    if (!changes)
      return failToChange(file, changes.error());
    total.choices += changes->choices;
    total.measurements += changes->measurements;
    total.peaks += changes->peaks;
    total.binaries += changes->binaries;
  }
  return report(total, "merged", options);
}

int pruneRows(StoreFile &file, const DbOptions &options) {
  Result<tuner::StoreChanges> gone = tuner::prune(file, options.prune);
  return gone ? report(*gone, "removed", options) : failToChange(file, gone.error());
}

int verifyAll(StoreFile &file, const DbOptions &options) {
  const tuner::StoreVerdict verdict = tuner::verify(file);
  if (options.json) {
    print({{"whole", verdict.damage.empty()},
           {"damage", verdict.damage},
           {"choices", verdict.choices},
           {"measurements", verdict.measurements},
           {"begun", verdict.begun},
           {"peaks", verdict.peaks},
           {"binaries", verdict.binaries},
           {"leases", verdict.leases}});
  } else {
    fmt::print("{}: {} choices, {} measurements, {} more begun, {} peaks, {} binaries, {} leases\n",
               file.path().string(), verdict.choices, verdict.measurements, verdict.begun, verdict.peaks,
               verdict.binaries, verdict.leases);
    for (const std::string &line : verdict.damage)
      fmt::print("damaged: {}\n", readable(line));
  }
  if (verdict.damage.empty())
    return 0;
  return fail({ErrorCode::Io, fmt::format("{} is damaged in {} places; `kfuse db prune` removes broken rows",
                                          file.path().string(), verdict.damage.size())});
}

enum class Access : std::uint8_t { Reading, Changing, Creating };

/// Opens the store as the command needs it and runs the command.
int onStore(const DbOptions &options, Access access, int (*command)(StoreFile &, const DbOptions &)) {
  std::error_code ignored;
  const bool mustBeThere = access == Access::Changing && !std::filesystem::exists(options.path(), ignored);
  Result<std::unique_ptr<StoreFile>> file = access == Access::Reading || mustBeThere
                                                ? StoreFile::openToRead(options.path(), warn)
                                                : StoreFile::open(options.path(), warn);
  if (!file)
    return fail(file.error());
  const int status = command(**file, options);
  const std::optional<Error> problem = (*file)->problem(); // A warning has said it; what could not be read looks empty.
  return status == 0 && problem ? static_cast<int>(problem->code) : status;
}

} // namespace

void addDb(CLI::App &app, int &status) {
  CLI::App *db = app.add_subcommand("db", "Look at the tuning store, move results, keep it in order");
  db->require_subcommand(1);
  db->footer("Examples:\n  kfuse db list\n  kfuse db show matmul_add_gelu\n  kfuse db export results.json\n"
             "  kfuse db import results.json --store other.db\n  kfuse db merge node1.db node2.db\n"
             "  kfuse db prune --older-than 90\n  kfuse db verify --json");
  auto options = std::make_shared<DbOptions>();
  auto add = [&](const char *name, const char *what, Access access, int (*run)(StoreFile &, const DbOptions &)) {
    CLI::App *command = db->add_subcommand(name, what);
    command->add_option("--store", options->store, "Tuning store; else $KFUSE_STORE, else the user's cache folder");
    command->add_flag("--json", options->json, "JSON on stdout and nothing else there");
    command->callback([=, &status] { status = onStore(*options, access, run); });
    return command;
  };
  add("list", "The kernels that were chosen, by device", Access::Reading, list)
      ->footer("Example:\n  kfuse db list --store store.db");
  CLI::App *shown = add("show", "Every measurement of a kernel, in order; * is the winner", Access::Reading, show);
  shown->add_option("KERNEL", options->name, "Its name, or the beginning of its key")->required();
  shown->footer("Examples:\n  kfuse db show matmul_add_gelu\n  kfuse db show 3b1c7e52 --json");
  CLI::App *exported =
      add("export", "Results as JSON, for machines of one kind; without binaries", Access::Reading, exportTo);
  exported->add_option("FILE", options->file, "Where to; - is stdout")->default_str("-")->default_val("-");
  exported->footer("Example:\n  kfuse db export results.json");
  CLI::App *imported = add("import", "Take over exported results that are new or better", Access::Creating, importFrom);
  imported->add_option("FILE", options->file, "An exported file; - is stdin")->required();
  imported->footer("Example:\n  kfuse db import results.json");
  CLI::App *merged = add("merge", "Take over what is new or better from other stores", Access::Creating, mergeInto);
  merged->add_option("FILES", options->files, "Stores to read")->required();
  merged->footer("Example:\n  kfuse db merge node1.db node2.db --store all.db");
  CLI::App *pruned = add("prune", "Remove broken rows, and what the options name", Access::Changing, pruneRows);
  pruned->add_option("--older-than", options->prune.olderThanDays, "Days: results from before")->check(aboveZero());
  pruned->add_option("--device", options->prune.sku, "All results of this device, as `list` names it");
  pruned->add_flag("--failures", options->prune.failures, "Failed candidates, which are then tried again");
  pruned->footer("Examples:\n  kfuse db prune --older-than 90\n  kfuse db prune --device 'NVIDIA H200'");
  add("verify", "Read every page, check every row; exit status 8 when something is damaged", Access::Reading, verifyAll)
      ->footer("Example:\n  kfuse db verify");
}

} // namespace kfuse::tools
