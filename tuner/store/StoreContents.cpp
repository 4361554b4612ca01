#include "tuner/store/StoreContents.h"

#include "tuner/record/Json.h"
#include "tuner/store/StoreColumns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace kfuse::tuner {
namespace {

constexpr const char *format = "kfuse-results";
constexpr int schema = 1;
constexpr int deepest = 8;                 ///< Arrays and objects in each other; results have four.
constexpr double endOfTime = 253402300800; ///< Unix seconds: the year 10000.
constexpr std::array effortNames{"none", "quick", "full"};

struct Writer {
  Json object = Json::object();

  void operator()(const char *name, const std::string &value) { object[name] = value; }
  void operator()(const char *name, double value) { object[name] = value; }
  void operator()(const char *name, int value) { object[name] = value; }
  void operator()(const char *name, StopReason value) { object[name] = toString(value); }
  void operator()(const char *name, Effort value) { object[name] = effortNames[static_cast<std::size_t>(value)]; }
  void operator()(const char *name, const codegen::TileConfig &value) { object[name] = value.str(); }
  void operator()(const char *name, const std::optional<Timing> &value) {
    object[name] = value ? Json{{"median_us", value->medianUs}, {"spread", value->spread}, {"samples", value->samples}}
                         : Json(nullptr);
  }
  void operator()(const char *name, const std::optional<Failure> &value) {
    object[name] = value ? Json{{"kind", toString(value->kind)}, {"message", value->message}} : Json(nullptr);
  }
};

int wholeNumber(const char *name, const Json &json) {
  const auto value = json.get<double>();
  if (!(std::abs(value) <= std::numeric_limits<int>::max()) || value != std::trunc(value))
    throw std::invalid_argument(fmt::format("{} is a whole number of 32 bits, not {}", name, value));
  return static_cast<int>(value);
}

/// Throws what nlohmann throws, or std::invalid_argument.
struct Reader {
  const Json &object;

  void operator()(const char *name, std::string &value) { value = object.at(name).get<std::string>(); }
  void operator()(const char *name, double &value) { value = object.at(name).get<double>(); }
  void operator()(const char *name, int &value) { value = wholeNumber(name, object.at(name)); }
  void operator()(const char *name, Effort &value) {
    auto text = object.at(name).get<std::string>();
    const auto *found = std::find(effortNames.begin(), effortNames.end(), text);
    if (found == effortNames.end())
      throw std::invalid_argument(fmt::format("{} is none, quick or full, not '{}'", name, text));
    value = static_cast<Effort>(found - effortNames.begin());
  }
  void operator()(const char *name, StopReason &value) {
    auto text = object.at(name).get<std::string>();
    std::optional<StopReason> stop = parseStopReason(text);
    if (!stop)
      throw std::invalid_argument(
          fmt::format("{} is none, roof, exhausted, budget or candidates, not '{}'", name, text));
    value = *stop;
  }
  void operator()(const char *name, codegen::TileConfig &value) {
    auto text = object.at(name).get<std::string>();
    std::optional<codegen::TileConfig> config = codegen::TileConfig::parse(text);
    if (!config)
      throw std::invalid_argument(fmt::format("'{}' is no config of the form m=128,n=64", text));
    value = *config;
  }
  void operator()(const char *name, std::optional<Timing> &value) {
    if (const Json &timing = object.at(name); !timing.is_null())
      value = Timing{timing.at("median_us").get<double>(), timing.at("spread").get<double>(),
                     wholeNumber("samples", timing.at("samples"))};
  }
  void operator()(const char *name, std::optional<Failure> &value) {
    const Json &failure = object.at(name);
    if (failure.is_null())
      return;
    std::optional<FailureKind> kind = parseFailureKind(failure.at("kind").get<std::string>());
    if (!kind)
      throw std::invalid_argument(fmt::format("unknown failure '{}'", failure.at("kind").get<std::string>()));
    value = Failure{*kind, failure.at("message").get<std::string>()};
  }
};

template <class Record> Json jsonOf(const Record &record) {
  Writer writer;
  visitColumns(writer, record);
  return std::move(writer.object);
}

template <class Record> Json jsonOf(const std::vector<Record> &records) {
  Json list = Json::array();
  for (const Record &record : records)
    list.push_back(jsonOf(record));
  return list;
}

/// What nlohmann says, without "[json.exception.out_of_range.403] ".
std::string reasonOf(const std::exception &error) {
  std::string text = error.what();
  std::size_t bracket = text.starts_with("[json.") ? text.find("] ") : std::string::npos;
  return bracket == std::string::npos ? text : text.substr(bracket + 2);
}

/// The error's line names the row.
/// Throws where a row says what no search could have found.
void requireSense(const std::optional<Timing> &timing) {
  if (timing && !(std::isfinite(timing->medianUs) && timing->medianUs > 0 && timing->samples > 0))
    throw std::invalid_argument("a timing has a finite median_us above 0 and samples");
  if (timing && !(std::isfinite(timing->spread) && timing->spread >= 0))
    throw std::invalid_argument("the spread of a timing is finite and not below 0");
}
void requireTime(double at) {
  if (!(at >= 0 && at < endOfTime))
    throw std::invalid_argument(fmt::format("at is in Unix seconds, before the year 10000, not {}", at));
}
void requireSense(const Choice &choice) {
  requireSense(choice.timing);
  requireTime(choice.at);
  if (std::min({choice.candidates, choice.failed, choice.cut, choice.ruledOut}) < 0)
    throw std::invalid_argument("candidates, failed, cut and ruled_out are not below 0");
}
void requireSense(const Measurement &measurement) {
  requireSense(measurement.timing);
  requireTime(measurement.at);
  if (measurement.timing.has_value() == measurement.failure.has_value())
    throw std::invalid_argument("a measurement has either a timing or a failure");
}
/// No part of a byte or an operation a microsecond, nor a million times what a GPU does; a launch takes longer than a
/// nanosecond.
struct PeakCheck {
  void operator()(const char *name, double value) const {
    constexpr double least = 1e-3, most = 1e15;
    if (!(value >= least && value <= most))
      throw std::invalid_argument(fmt::format("{} is between {} and {}, not {}", name, least, most, value));
  }
  void operator()(const char *, const std::string &) const {}
};
void requireSense(const StoredPeaks &peaks) { visitColumns(PeakCheck(), peaks); }

template <class Record>
std::optional<Error> readRows(const Json &json, const char *list, std::vector<Record> &records) {
  std::size_t row = 0;
  try {
    for (const Json &object : json.at(list)) {
      visitColumns(Reader{object}, records.emplace_back());
      requireSense(records.back());
      ++row;
    }
  } catch (const std::exception &error) {
    return Error{ErrorCode::BadModel, fmt::format("{}[{}]: {}", list, row, reasonOf(error))};
  }
  return std::nullopt;
}

} // namespace

std::string toJson(const Choice &choice) { return linesOf(jsonOf(choice)); }
std::string toJson(const Measurement &measurement) { return linesOf(jsonOf(measurement)); }

std::string toJson(const StoreContents &contents) {
  return linesOf({{"format", format},
                  {"schema", schema},
                  {"choices", jsonOf(contents.choices)},
                  {"measurements", jsonOf(contents.measurements)},
                  {"peaks", jsonOf(contents.peaks)}});
}

Result<StoreContents> parseContents(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text, [](int depth, Json::parse_event_t, const Json &) {
      if (depth > deepest) // What reads it on would go as deep on the stack.
        throw std::invalid_argument(fmt::format("nested deeper than {}, which results are not", deepest));
      return true;
    });
  } catch (const Json::parse_error &error) {
    return Error{ErrorCode::BadModel, "no JSON: " + reasonOf(error)};
  } catch (const std::invalid_argument &error) {
    return Error{ErrorCode::BadModel, std::string("no results of kfuse: ") + error.what()};
  }
  if (!json.is_object() || json.value("format", Json()) != format)
    return Error{ErrorCode::BadModel, "no results of kfuse: \"format\" is not \"kfuse-results\""};
  if (json.value("schema", Json()) != schema)
    return Error{ErrorCode::BadModel,
                 fmt::format("results of schema {}, this kfuse reads {}", json.value("schema", Json()).dump(), schema)};
  StoreContents contents;
  std::optional<Error> fault = readRows(json, "choices", contents.choices);
  if (!fault)
    fault = readRows(json, "measurements", contents.measurements);
  if (!fault)
    fault = readRows(json, "peaks", contents.peaks);
  return fault ? Result<StoreContents>(*fault) : std::move(contents);
}

} // namespace kfuse::tuner
