#include "tuner/report/Report.h"

#include "ir/Printable.h"
#include "tuner/record/Json.h"
#include "tuner/report/Svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace kfuse::tuner {
namespace {

Json orNull(const std::optional<double> &value) { return value ? Json(*value) : Json(nullptr); }

std::optional<double> rooflinePercent(const KernelReport &kernel) {
  return kernel.measuredUs ? std::optional(kernel.bound.percent(*kernel.measuredUs)) : std::nullopt;
}

Json toJson(const KernelReport &kernel) {
  return {{"name", kernel.name},
          {"ops", kernel.ops},
          {"template", kernel.templateName},
          {"config", kernel.config},
          {"regime", toString(kernel.bound.regime)},
          {"bound_us", kernel.bound.boundUs},
          {"measured_us", orNull(kernel.measuredUs)},
          {"roofline_percent", orNull(rooflinePercent(kernel))},
          {"candidates", kernel.candidates},
          {"failed", kernel.failed},
          {"ruled_out", kernel.ruledOut},
          {"stop", toString(kernel.stop)},
          {"advice", kernel.advice},
          {"from_cache", kernel.fromCache}};
}

Json toJson(const EndToEndReport &run) {
  return {{"us", run.us}, {"alone_us", run.aloneUs}, {"tried", run.tried}, {"taken", run.taken}};
}

constexpr std::size_t opsWidth = 26;
constexpr std::size_t configWidth = 19;

/// Breaks `text` into lines of at most `width`, after `separator` where it can.
std::vector<std::string> wrap(std::string_view text, std::size_t width, char separator) {
  std::vector<std::string> lines;
  while (text.size() > width) {
    std::size_t end = text.find_last_of(separator, width - 1);
    end = end == std::string_view::npos ? width : end + 1;
    lines.emplace_back(text.substr(0, text[end - 1] == ' ' ? end - 1 : end));
    text.remove_prefix(end);
  }
  lines.emplace_back(text);
  return lines;
}

struct Palette {
  std::string_view bold, good, middling, poor, plain;
};
constexpr Palette colours{"\033[1m", "\033[32m", "\033[33m", "\033[31m", "\033[0m"};
constexpr Palette monochrome{"", "", "", "", ""};

std::string percentCell(const std::optional<double> &percent, const Palette &palette) {
  if (!percent)
    return fmt::format("{:>5}", "-");
  std::string_view colour = *percent >= 80 ? palette.good : *percent >= 50 ? palette.middling : palette.poor;
  return fmt::format("{}{:>4.0f}%{}", colour, *percent, palette.plain);
}

/// Columns: what was fused, regime, bound, measured, % of roofline, config, tried, failed, why the search ended.
std::string row(const KernelReport &kernel, const Palette &palette) {
  std::string uses = kernel.uses > 1 ? fmt::format(" x{}", kernel.uses) : "";
  std::vector<std::string> ops = wrap(ir::printable(kernel.ops) + uses, opsWidth, ' ');
  std::vector<std::string> config = wrap(kernel.config, configWidth, ',');
  std::string text = fmt::format(
      "{:<26} {:<7} {:>8} {:>8} {} {:<19} {:>5} {:>4} {}\n", ops[0], toString(kernel.bound.regime),
      formatDuration(kernel.bound.boundUs), kernel.measuredUs ? formatDuration(*kernel.measuredUs) : "untimed",
      percentCell(rooflinePercent(kernel), palette), config[0],
      kernel.fromCache ? "store" : std::to_string(kernel.candidates), kernel.failed, toString(kernel.stop));
  for (std::size_t i = 1; i < std::max(ops.size(), config.size()); ++i) {
    std::string left = i < ops.size() ? ops[i] : "";
    text += i < config.size() ? fmt::format("{:<58} {}\n", left, config[i]) : fmt::format("{}\n", left);
  }
  return text;
}

std::string plural(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string notes(const TuneReport &report) {
  auto countIf = [&](auto predicate) {
    return static_cast<std::size_t>(std::count_if(report.kernels.begin(), report.kernels.end(), predicate));
  };
  std::string text;
  const std::size_t recompiled = countIf([](const KernelReport &k) { return k.recompiled; });
  if (std::size_t found = countIf([](const KernelReport &k) { return k.fromCache; }))
    text += found == report.kernels.size()
                ? fmt::format("all {} from the store: {} compiled, nothing benchmarked\n", plural(found, "kernel"),
                              recompiled ? plural(recompiled, "winner") : "nothing")
                : fmt::format("{} from the store\n", plural(found, "kernel"));
  if (std::size_t untimed = countIf([](const KernelReport &k) { return !k.measuredUs; }))
    text += fmt::format("{} untimed: {}, the cost model chose\n", plural(untimed, "kernel"),
                        report.isDeviceHere ? "--no-benchmark" : "the device is not here");
  if (const std::optional<EndToEndReport> &whole = report.endToEnd)
    text += fmt::format("a whole run, cold: {}, {:.1f} % less than with those fastest alone; {} of {} others chosen\n",
                        formatDuration(whole->us), 100 * (1 - whole->us / whole->aloneUs), whole->taken, whole->tried);
  for (const KernelReport &kernel : report.kernels)
    if (kernel.cut > 0)
      text += fmt::format("{}: {} cut for lack of time\n", ir::printable(kernel.name),
                          plural(static_cast<std::size_t>(kernel.cut), "candidate"));
  std::map<std::string, std::size_t> advice;
  for (const KernelReport &kernel : report.kernels)
    if (!kernel.advice.empty())
      ++advice[fmt::format("bound by {}: {} would help", toString(kernel.bound.regime), kernel.advice)];
  for (const auto &[line, count] : advice)
    text += fmt::format("{} {}\n", plural(count, "kernel"), line);
  return text;
}

} // namespace

std::optional<double> TuneReport::totalUs() const {
  double total = 0;
  for (const KernelReport &kernel : kernels) {
    if (!kernel.measuredUs)
      return std::nullopt;
    total += *kernel.measuredUs * kernel.uses;
  }
  return total;
}

std::string toJson(const TuneReport &report) {
  Json kernels = Json::array();
  for (const KernelReport &kernel : report.kernels)
    kernels.push_back(toJson(kernel));
  Json json{{"device", report.device},
            {"kernels", std::move(kernels)},
            {"end_to_end", report.endToEnd ? toJson(*report.endToEnd) : Json(nullptr)},
            {"arena_bytes", report.arenaBytes},
            {"arena_lower_bound_bytes", report.arenaLowerBoundBytes},
            {"total_us", orNull(report.totalUs())},
            {"seconds", report.seconds}};
  return linesOf(json);
}

std::string toTable(const TuneReport &report, bool colour) {
  const Palette &palette = colour ? colours : monochrome;
  std::string text =
      fmt::format("{}{:<26} {:<7} {:>8} {:>8} {:>5} {:<19} {:>5} {:>4} {}{}\n", palette.bold, "fused", "regime",
                  "bound", "measured", "roof", "config", "tried", "bad", "ended by", palette.plain);
  for (const KernelReport &kernel : report.kernels)
    text += row(kernel, palette);
  text += notes(report);
  std::optional<double> total = report.totalUs();
  text += fmt::format("{}:\n{}; arena {} bytes, lower bound {}; took {:.1f} s\n", report.device,
                      total ? formatDuration(*total) + " a run" : "untimed", report.arenaBytes,
                      report.arenaLowerBoundBytes, report.seconds);
  return text;
}

} // namespace kfuse::tuner
