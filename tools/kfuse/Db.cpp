#include "ir/Printable.h"
#include "tools/kfuse/Commands.h"
#include "tools/kfuse/console/Json.h"
#include "tools/kfuse/console/OutputFile.h"
#include "tools/kfuse/console/Table.h"
#include "tools/kfuse/console/Terminal.h"
#include "tools/kfuse/model/ModelOptions.h"
#include "tuner/store/StoreContents.h"
#include "tuner/store/StorePlace.h"
#include "tuner/store/StoreTrust.h"
#include "tuner/store/StoreUpkeep.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kfuse::tools {
namespace {

using tuner::Choice;
using tuner::Measurement;
using tuner::StoreFile;

constexpr std::size_t keyDigits = 8; ///< Digits of a region's key that are enough to name it.

struct DbOptions {
  std::string store;
  bool json = false;
  std::string name;               ///< What to show.
  std::string file;               ///< To export to or import from; "-" is stdout or stdin.
  std::vector<std::string> files; ///< To merge.
  bool trustStore = false;        ///< Whether the files to merge are trusted.
  tuner::PruneOptions prune;

  std::filesystem::path path() const {
    return store.empty() ? tuner::defaultStorePath() : std::filesystem::path(store);
  }
};

std::string localTime(double unixSeconds) {
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(static_cast<std::time_t>(unixSeconds)));
}

const char *nameOf(Effort effort) {
  return effort == Effort::Full ? "full" : effort == Effort::Quick ? "quick" : "none";
}

std::string timeOf(const std::optional<tuner::Timing> &timing) {
  return timing ? formatTime(timing->medianUs) : "untimed";
}

void print(const Json &json) { fmt::print("{}", textOf(json)); }

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
    fmt::print("{}\n{}\n", ir::printable(device), table.str());
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
                 ir::printable(choice.name), ir::printable(choice.ops), ir::printable(choice.sku),
                 choice.driver.empty() ? "" : "driver " + ir::printable(choice.driver) + ", ",
                 ir::printable(choice.compiler), nameOf(choice.effort), localTime(choice.at), choice.config.str(),
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
  const bool isToFile = options.file != "-";
  if (isToFile)
    if (Result<void> writable = checkOutput("export", options.file, filesOfStore(file.path())); !writable)
      return fail(writable.error());
  std::string text = tuner::toJson(tuner::readContents(file)) + "\n";
  if (isToFile) {
    Result<void> written = writeOutput("export", options.file, text);
    return written ? 0 : fail(written.error());
  }
  fmt::print("{}", text);
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

Result<std::string> readText(const std::string &path) {
  if (path == "-")
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
  std::ifstream in(path, std::ios::binary);
  std::error_code ignored;
  const bool isFolder = std::filesystem::is_directory(path, ignored); // It opens, and reading it throws.
  if (!in || isFolder)
    return Error{ErrorCode::Io, fmt::format("{} cannot be read: {}", path, std::strerror(isFolder ? EISDIR : errno))};
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Result<tuner::StoreContents> readResults(const std::string &path) {
  Result<std::string> text = readText(path);
  if (!text)
    return text.error();
  Result<tuner::StoreContents> contents = tuner::parseContents(*text);
  if (!contents)
    return Error{contents.error().code, fmt::format("{}: {}; nothing was imported", path, contents.error().message)};
  return contents;
}

using Sources = std::vector<std::unique_ptr<StoreFile>>;

Result<Sources> openSources(const std::vector<std::string> &paths) {
  Sources sources;
  for (const std::string &path : paths) {
    Result<std::unique_ptr<StoreFile>> source = StoreFile::openToRead(path, warn);
    if (!source)
      return source.error();
    sources.push_back(std::move(*source));
  }
  return sources;
}

/// Machine code from a store that others may write would pass for this store's own.
tuner::Binaries binariesOf(const StoreFile &source, const DbOptions &options) {
  const std::optional<std::string> why = options.trustStore ? std::nullopt : tuner::whyNotTrusted(source.path());
  if (why)
    warn(fmt::format("the machine code in store {} is not trusted, as {}, or pass --trust-store; its kernels will be "
                     "compiled anew",
                     source.path().string(), *why));
  return why ? tuner::Binaries::Left : tuner::Binaries::Taken;
}

int addAll(StoreFile &file, const Sources &sources, const DbOptions &options) {
  tuner::StoreChanges total;
  for (const std::unique_ptr<StoreFile> &source : sources) {
    Result<tuner::StoreChanges> changes = tuner::merge(file, *source, binariesOf(*source, options));
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
    fmt::print("{}", tuner::toJson(verdict));
  } else {
    fmt::print("{}: {} choices, {} measurements, {} more begun, {} peaks, {} binaries, {} leases\n",
               file.path().string(), verdict.choices, verdict.measurements, verdict.begun, verdict.peaks,
               verdict.binaries, verdict.leases);
    for (const std::string &line : verdict.damage)
      fmt::print("damaged: {}\n", ir::printable(line));
  }
  if (verdict.damage.empty())
    return 0;
  return fail({ErrorCode::Io, fmt::format("{} is damaged in {} places; `kfuse db prune` removes broken rows",
                                          file.path().string(), verdict.damage.size())});
}

enum class Access : std::uint8_t { Reading, Changing, Creating };
using Command = std::function<int(StoreFile &, const DbOptions &)>;

/// Opens the store as the command needs it and runs the command.
int onStore(const DbOptions &options, Access access, const Command &command) {
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

/// The same as a command on the store of its options.
std::function<int(const DbOptions &)> onStore(Access access, const Command &command) {
  return [=](const DbOptions &options) { return onStore(options, access, command); };
}

/// What there is to take over is read first: without it no store is made.
int importResults(const DbOptions &options) {
  Result<tuner::StoreContents> contents = readResults(options.file);
  if (!contents)
    return fail(contents.error());
  return onStore(options, Access::Creating, [&](StoreFile &file, const DbOptions &) {
    Result<tuner::StoreChanges> changes = tuner::addContents(file, *contents);
    return changes ? report(*changes, "imported", options) : failToChange(file, changes.error());
  });
}

int mergeStores(const DbOptions &options) {
  Result<Sources> sources = openSources(options.files);
  if (!sources)
    return fail(sources.error());
  return onStore(options, Access::Creating,
                 [&](StoreFile &file, const DbOptions &) { return addAll(file, *sources, options); });
}

} // namespace

void addDb(CLI::App &app, int &status) {
  CLI::App *db = app.add_subcommand("db", "Look at the tuning store, move results, keep it in order");
  db->require_subcommand(1);
  db->footer("Examples:\n  kfuse db list\n  kfuse db show matmul_add_gelu\n  kfuse db export results.json\n"
             "  kfuse db import results.json --store other.db\n  kfuse db merge node1.db node2.db\n"
             "  kfuse db prune --older-than 90\n  kfuse db verify --json");
  auto options = std::make_shared<DbOptions>();
  auto add = [&](const char *name, const char *what, const std::function<int(const DbOptions &)> &run) {
    CLI::App *command = db->add_subcommand(name, what);
    command->add_option("--store", options->store, "Tuning store; else $KFUSE_STORE, else the user's cache folder");
    command->add_flag("--json", options->json, "JSON on stdout and nothing else there");
    command->callback([=, &status] { status = run(*options); });
    return command;
  };
  add("list", "The kernels that were chosen, by device", onStore(Access::Reading, list))
      ->footer("Example:\n  kfuse db list --store store.db");
  CLI::App *shown =
      add("show", "Every measurement of a kernel, in order; * is the winner", onStore(Access::Reading, show));
  shown->add_option("KERNEL", options->name, "Its name, or the beginning of its key")->required();
  shown->footer("Examples:\n  kfuse db show matmul_add_gelu\n  kfuse db show 3b1c7e52 --json");
  CLI::App *exported =
      add("export", "Results as JSON, for machines of one kind; without binaries", onStore(Access::Reading, exportTo));
  exported->add_option("FILE", options->file, "Where to; - is stdout")->default_str("-")->default_val("-");
  exported->footer("Example:\n  kfuse db export results.json");
  CLI::App *imported = add("import", "Take over exported results that are new or better", importResults);
  imported->add_option("FILE", options->file, "An exported file; - is stdin")->required();
  imported->footer("Example:\n  kfuse db import results.json");
  CLI::App *merged = add("merge", "Take over what is new or better from other stores", mergeStores);
  merged->add_option("FILES", options->files, "Stores to read")->required();
  merged->add_flag("--trust-store", options->trustStore, "Take machine code though others may write those stores");
  merged->footer("Example:\n  kfuse db merge node1.db node2.db --store all.db");
  CLI::App *pruned =
      add("prune", "Remove broken rows, and what the options name", onStore(Access::Changing, pruneRows));
  pruned->add_option("--older-than", options->prune.olderThanDays, "Days: results from before")->check(aboveZero());
  pruned->add_option("--device", options->prune.sku, "All results of this device, as `list` names it");
  pruned->add_flag("--failures", options->prune.failures, "Failed candidates, which are then tried again");
  pruned->footer("Examples:\n  kfuse db prune --older-than 90\n  kfuse db prune --device 'NVIDIA H200'");
  add("verify", "Read every page, check every row; exit status 8 when something is damaged",
      onStore(Access::Reading, verifyAll))
      ->footer("Example:\n  kfuse db verify");
}

} // namespace kfuse::tools
