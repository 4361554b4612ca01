#include "tuner/report/ReportPage.h"

#include "tuner/report/ReportAssets.h"
#include "tuner/report/RooflinePlot.h"
#include "tuner/report/SearchPlot.h"
#include "tuner/report/Svg.h"

#include <fmt/format.h>

#include <algorithm>

namespace kfuse::tuner {
namespace {

constexpr PlotSize widePlot{960, 470, "wide"};
constexpr PlotSize narrowPlot{380, 380, "narrow"};

std::string tile(const std::string &value, const std::string &what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escaped(value), escaped(what));
}

double boundOfRun(const TuneReport &report) {
  double total = 0;
  for (const KernelReport &kernel : report.kernels)
    total += kernel.bound.boundUs * kernel.uses;
  return total;
}

int launchesOf(const TuneReport &report) {
  int launches = 0;
  for (const KernelReport &kernel : report.kernels)
    launches += kernel.uses;
  return launches;
}

std::string formatBytes(std::uint64_t bytes) {
  double value = static_cast<double>(bytes);
  std::string_view unit = value >= 1e9 ? "GB" : value >= 1e6 ? "MB" : value >= 1e3 ? "KB" : "B";
  value /= value >= 1e9 ? 1e9 : value >= 1e6 ? 1e6 : value >= 1e3 ? 1e3 : 1;
  return fmt::format("{:.3g} {}", value, unit);
}

std::string header(const TuneReport &report, const std::string &model) {
  std::optional<double> total = report.totalUs();
  std::string tiles = tile(total ? formatDuration(*total) : "untimed", "a run, sum of its kernels");
  tiles += tile(formatDuration(boundOfRun(report)), "bound of the same");
  if (report.endToEnd)
    tiles += tile(formatDuration(report.endToEnd->us), "a whole run, weights cold");
  if (total && *total > 0)
    tiles += tile(fmt::format("{:.0f} %", 100 * boundOfRun(report) / *total), "of the roofline");
  tiles += tile(std::to_string(report.kernels.size()), fmt::format("kernels, {} launches", launchesOf(report)));
  tiles +=
      tile(formatBytes(report.arenaBytes), fmt::format("arena, at least {}", formatBytes(report.arenaLowerBoundBytes)));
  tiles += tile(fmt::format("{:.1f} s", report.seconds), "to tune");
  return fmt::format("<header>\n<h1>{}</h1>\n<p class=\"device\">{}</p>\n<div class=\"tiles\">\n{}</div>\n</header>\n",
                     escaped(model), escaped(report.device), tiles);
}

std::string legend() {
  std::string text = "<p class=\"legend\">";
  for (Regime regime : {Regime::Compute, Regime::Memory, Regime::Launch})
    text += fmt::format("<span><i class=\"{0}\"></i>{0}-bound</span> ", toString(regime));
  return text + "</p>\n";
}

std::string roofline(const TuneReport &report) {
  return fmt::format(
      "<section id=\"roofline\">\n<h2>Roofline</h2>\n<p>A dot is a kernel, its area its share of the run; "
      "the thin line ends at its bound. Ceilings are {}.</p>\n{}{}{}</section>\n",
      report.peaks.measured ? "as measured on this device" : "the datasheet's", legend(),
      rooflinePlot(report, widePlot), rooflinePlot(report, narrowPlot));
}

std::string timeline(const TuneReport &report) {
  std::optional<double> total = report.totalUs();
  if (!total || *total <= 0)
    return "";
  std::string bars;
  double start = 0;
  for (std::size_t index : report.launches) {
    const KernelReport &kernel = report.kernels[index];
    double us = *kernel.measuredUs, percent = std::min(100.0, kernel.bound.percent(us));
    bars += fmt::format(
        "<div class=\"launch {}\" style=\"flex-grow:{:.4f}\" title=\"{} {}&#10;{} after {}, {:.0f} % of its "
        "bound\"><i style=\"height:{:.0f}%\"></i>{}</div>\n",
        toString(kernel.bound.regime), us, index + 1, escaped(kernel.ops), formatDuration(us), formatDuration(start),
        percent, percent, us > 0.04 * *total ? fmt::format("<b>{}</b>", index + 1) : "");
    start += us;
  }
  return fmt::format(
      "<section id=\"timeline\">\n<h2>Time line</h2>\n<p>One run from left to right. Width is time; the filled "
      "part is the share that its bound needs.</p>\n<div class=\"launches\">\n{}</div>\n<p "
      "class=\"scale\"><span>0</span><span>{}</span><span>{}</span></p>\n</section>\n",
      bars, formatDuration(start / 2), formatDuration(start));
}

std::string searches(const TuneReport &report, std::span<const std::vector<Measurement>> trials) {
  std::string curves;
  for (std::size_t i = 0; i < report.kernels.size(); ++i) {
    const KernelReport &kernel = report.kernels[i];
    if (trials[i].empty())
      continue;
    curves +=
        fmt::format("<figure><figcaption><b>{}</b> {}{}</figcaption>\n{}</figure>\n", i + 1, escaped(kernel.name),
                    kernel.measuredUs ? ": " + formatDuration(*kernel.measuredUs) : "", searchPlot(kernel, trials[i]));
  }
  if (curves.empty())
    return "";
  return fmt::format(
      "<section id=\"searches\">\n<h2>Searches</h2>\n<p>Each dot is a candidate that was measured, each cross "
      "one that failed; the line is the best so far, the dashed one the bound. Scales are "
      "logarithmic.</p>\n<div class=\"curves\">\n{}</div>\n</section>\n",
      curves);
}

/// A cell, and what it sorts by.
std::string cell(const std::string &shown, const std::string &key, const char *styleClass = "number") {
  return fmt::format("<td class=\"{}\" data-key=\"{}\">{}</td>", styleClass, escaped(key), shown);
}
/// May be broken after commas.
std::string breakable(std::string_view config) {
  std::string text;
  for (char c : escaped(config))
    text += c == ',' ? ",<wbr>" : std::string(1, c);
  return text;
}

std::string number(double value) { return fmt::format("{:g}", value); }

std::string row(const KernelReport &kernel, std::size_t index, double total) {
  std::string text = cell(std::to_string(index + 1), std::to_string(index + 1));
  std::string advice = kernel.advice.empty() ? "" : fmt::format("<small>{} would help</small>", escaped(kernel.advice));
  text += cell(escaped(kernel.ops) + advice, kernel.ops, "ops");
  text += cell(fmt::format("<i class=\"{0}\"></i>{0}", toString(kernel.bound.regime)),
               std::string(toString(kernel.bound.regime)), "regime");
  text += cell(formatDuration(kernel.bound.boundUs), number(kernel.bound.boundUs));
  if (kernel.measuredUs) {
    double percent = kernel.bound.percent(*kernel.measuredUs);
    double share = total > 0 ? 100 * *kernel.measuredUs * kernel.uses / total : 0;
    text += cell(formatDuration(*kernel.measuredUs), number(*kernel.measuredUs));
    text += cell(fmt::format("<span class=\"bar {}\" style=\"--part:{:.0f}%\">{:.0f} %</span>",
                             toString(kernel.bound.regime), std::min(100.0, percent), percent),
                 number(percent));
    text += cell(total > 0 ? fmt::format("{:.1f} %", share) : "-", number(share));
  } else {
    text += cell("untimed", "-1") + cell("-", "-1") + cell("-", "-1");
  }
  text += cell(std::to_string(kernel.uses), std::to_string(kernel.uses));
  text += cell(kernel.fromCache ? "store" : std::to_string(kernel.candidates),
               std::to_string(kernel.fromCache ? 0 : kernel.candidates));
  text += cell(std::to_string(kernel.failed), std::to_string(kernel.failed));
  text += cell(std::string(toString(kernel.stop)), std::string(toString(kernel.stop)), "stop");
  text += cell(breakable(kernel.config), kernel.config, "config");
  return "<tr>" + text + "</tr>\n";
}

std::string table(const TuneReport &report) {
  std::string head;
  for (const char *name :
       {"#", "fused", "regime", "bound", "measured", "of roof", "of run", "uses", "tried", "bad", "stop", "config"})
    head += fmt::format("<th scope=\"col\"><button>{}</button></th>", name);
  std::string rows;
  for (std::size_t i = 0; i < report.kernels.size(); ++i)
    rows += row(report.kernels[i], i, report.totalUs().value_or(0));
  return fmt::format(
      "<section id=\"kernels\">\n<h2>Kernels</h2>\n<div class=\"scroll\"><table>\n<thead><tr>{}</tr></thead>\n"
      "<tbody>\n{}</tbody>\n</table></div>\n</section>\n",
      head, rows);
}

} // namespace

std::string toHtml(const TuneReport &report, const std::string &model,
                   std::span<const std::vector<Measurement>> trials) {
  std::string body =
      header(report, model) + roofline(report) + timeline(report) + searches(report, trials) + table(report);
  return fmt::format("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
                     "content=\"width=device-width, initial-scale=1\">\n<title>{}: kfuse</title>\n<style>\n{}</style>\n"
                     "</head>\n<body>\n<main>\n{}</main>\n<script>\n{}</script>\n</body>\n</html>\n",
                     escaped(model), reportStyle, body, reportScript);
}

std::string rooflineFile(const TuneReport &report) {
  std::string svg = rooflinePlot(report, widePlot);
  const std::size_t head = svg.find('>') + 1;
  svg.insert(head, fmt::format("<style>\n{}</style>\n", reportStyle));
  return svg.insert(svg.find(' '), " xmlns=\"http://www.w3.org/2000/svg\"");
}

} // namespace kfuse::tuner
