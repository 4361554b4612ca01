#include "tuner/report/Svg.h"

#include "ir/Printable.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace kfuse::tuner {

std::string escaped(std::string_view text) {
  std::string safe;
  if (std::size_t end = text.find('\n'); end != std::string_view::npos) // Tips have several lines.
    return escaped(text.substr(0, end)) + "\n" + escaped(text.substr(end + 1));
  for (char c : ir::printable(text)) {
    switch (c) {
    case '&':
      safe += "&amp;";
      break;
    case '<':
      safe += "&lt;";
      break;
    case '>':
      safe += "&gt;";
      break;
    case '"':
      safe += "&quot;";
      break;
    default:
      safe += c;
    }
  }
  return safe;
}

std::string formatDuration(double us) {
  double value = us >= 1e6 ? us / 1e6 : us >= 1e3 ? us / 1e3 : us;
  const char *unit = us >= 1e6 ? "s" : us >= 1e3 ? "ms" : "us";
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, unit);
}

std::string formatRate(double perUs, std::string_view unit) {
  constexpr std::array prefixes{"M", "G", "T", "P"};
  std::size_t prefix = 0;
  for (; perUs >= 1000 && prefix + 1 < prefixes.size(); ++prefix)
    perUs /= 1000;
  return fmt::format("{:.{}f} {}{}/s", perUs, perUs < 10 ? 2 : perUs < 100 ? 1 : 0, prefixes[prefix], unit);
}

double LogScale::operator()(double value) const {
  return from + (to - from) * std::log(value / low) / std::log(high / low);
}

Svg::Svg(double width, double height, std::string_view styleClass, std::string_view label)
    : body(fmt::format("<svg class=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", styleClass, width,
                       height, escaped(label))) {}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view styleClass) {
  body += fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", styleClass, x1,
                      y1, x2, y2);
}

void Svg::path(std::string_view points, std::string_view styleClass) {
  body += fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", styleClass, points);
}

void Svg::circle(double x, double y, double radius, std::string_view styleClass, std::string_view tip) {
  body += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>{}</title></circle>\n",
                      styleClass, x, y, radius, escaped(tip));
}

void Svg::cross(double x, double y, double radius, std::string_view styleClass, std::string_view tip) {
  body +=
      fmt::format("<path class=\"{0}\" d=\"M{1:.1f} {2:.1f}l{3:.1f} {3:.1f}m0 -{3:.1f}l-{3:.1f} {3:.1f}\"><title>{4}"
                  "</title></path>\n",
                  styleClass, x - radius, y - radius, 2 * radius, escaped(tip));
}

void Svg::text(double x, double y, std::string_view content, std::string_view anchor, std::string_view styleClass,
               double degrees) {
  std::string turn = degrees != 0 ? fmt::format(" transform=\"rotate({:.1f} {:.1f} {:.1f})\"", degrees, x, y) : "";
  body += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", styleClass, x, y,
                      anchor, turn, escaped(content));
}

} // namespace kfuse::tuner
