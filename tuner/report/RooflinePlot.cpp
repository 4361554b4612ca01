#include "tuner/report/RooflinePlot.h"

#include "tuner/report/Svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace kfuse::tuner {
namespace {

constexpr double leftMargin = 58, rightMargin = 18, topMargin = 22, bottomMargin = 46;
constexpr double leastRadius = 5, mostRadius = 16;

/// A kernel's place, FLOP per byte and FLOP per microsecond.
struct Dot {
  const KernelReport *kernel;
  std::size_t number;
  double intensity, rate, boundRate;
  double share; ///< The share of the run.
};

double bytesOf(const KernelReport &kernel) { return std::max(kernel.work.bytesRead + kernel.work.bytesWritten, 1.0); }

double decadeBelow(double value) { return std::pow(10, std::floor(std::log10(value))); }
double decadeAbove(double value) { return std::pow(10, std::ceil(std::log10(value))); }

struct Rate {
  const char *name;
  double burst, sustained;
};

/// The rates of f32 and 16-bit products, and those that the kernels use besides: multiples, as in roofline().
std::vector<Rate> ratesOf(const TuneReport &report) {
  const Peaks &peaks = report.peaks;
  std::vector<Rate> rates{{"f32", peaks.f32Burst, peaks.f32Sustained}};
  if (peaks.halfBurst > 1.05 * peaks.f32Burst)
    rates.push_back({"bf16, f16", peaks.halfBurst, peaks.halfSustained});
  auto uses = [&](auto predicate) { return std::any_of(report.kernels.begin(), report.kernels.end(), predicate); };
  if (uses([](const KernelReport &kernel) { return kernel.work.tf32; }))
    rates.push_back({"tf32", peaks.halfBurst / 2, peaks.halfSustained / 2});
  if (uses([](const KernelReport &kernel) { return isFloat8(kernel.work.mathType); }))
    rates.push_back({"f8", peaks.halfBurst * 2, peaks.halfSustained * 2});
  return rates;
}

double highestOf(const std::vector<Rate> &rates) {
  double highest = 0;
  for (const Rate &rate : rates)
    highest = std::max({highest, rate.burst, rate.sustained});
  return highest;
}

class RooflinePlot {
public:
  RooflinePlot(const TuneReport &report, const PlotSize &size);
  std::string draw();

private:
  void placeDots();
  void drawGrid();
  void drawBandwidths();
  void drawRates();
  void drawDot(const Dot &dot);
  void drawNumber(const Dot &dot);

  struct Box {
    double left, top, right, bottom;
    bool meets(const Box &other) const {
      return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
    }
  };
  double radiusOf(const Dot &dot) const { return leastRadius + (mostRadius - leastRadius) * std::sqrt(dot.share); }
  Box boxOf(const Dot &dot) const {
    double r = radiusOf(dot);
    return {x(dot.intensity) - r, y(dot.rate) - r, x(dot.intensity) + r, y(dot.rate) + r};
  }

  const TuneReport &report;
  const Peaks &peaks;
  PlotSize size;
  std::vector<Rate> rates;
  double topRate, bestBandwidth;
  std::vector<Dot> dots;
  LogScale x{}, y{};
  Svg svg;
  std::vector<Box> taken; ///< By dots and their numbers.
};

RooflinePlot::RooflinePlot(const TuneReport &report, const PlotSize &size)
    : report(report), peaks(report.peaks), size(size), rates(ratesOf(report)), topRate(highestOf(rates)),
      bestBandwidth(std::max({peaks.readBytesPerUs, peaks.writeBytesPerUs, peaks.copyBytesPerUs})),
      svg(size.width, size.height, size.styleClass,
          "Roofline: each kernel's FLOP per second over its FLOP per byte, under the ceilings of the device") {
  placeDots();
}

/// The axes hold every dot, its bound, and the ridges where bandwidth meets the rates.
void RooflinePlot::placeDots() {
  double ridge = topRate / bestBandwidth;
  double lowX = std::min(0.1, ridge / 10), highX = ridge * 10;
  for (const KernelReport &kernel : report.kernels)
    if (double intensity = kernel.work.flops / bytesOf(kernel); intensity > 0) {
      lowX = std::min(lowX, intensity / 1.5);
      highX = std::max(highX, intensity * 2);
    }
  lowX = std::max(decadeBelow(lowX), 1e-4);
  double total = report.totalUs().value_or(0), lowY = bestBandwidth * lowX;
  for (std::size_t i = 0; i < report.kernels.size(); ++i) {
    const KernelReport &kernel = report.kernels[i];
    double intensity = std::max(kernel.work.flops / bytesOf(kernel), lowX);
    double us = kernel.measuredUs.value_or(kernel.bound.boundUs);
    auto rateIn = [&](double microseconds) { return intensity * bytesOf(kernel) / microseconds; };
    dots.push_back({&kernel, i + 1, intensity, rateIn(us), rateIn(kernel.bound.boundUs),
                    total > 0 ? std::min(1.0, us * kernel.uses / total) : 0});
    lowY = std::min(lowY, dots.back().rate / 1.5);
  }
  std::sort(dots.begin(), dots.end(), [](const Dot &a, const Dot &b) { return a.share > b.share; }); // Small on top.
  x = {lowX, decadeAbove(highX), leftMargin, size.width - rightMargin};
  y = {lowY, topRate * 2, size.height - bottomMargin, topMargin};
}

std::string RooflinePlot::draw() {
  drawGrid();
  drawBandwidths();
  drawRates();
  for (const Dot &dot : dots)
    taken.push_back(boxOf(dot));
  for (const Dot &dot : dots)
    drawDot(dot);
  for (const Dot &dot : dots)
    drawNumber(dot);
  return svg.str();
}

void RooflinePlot::drawGrid() {
  double room = (size.width - leftMargin - rightMargin) / std::log10(x.high / x.low);
  int step = room < 34 ? 2 : 1; // Decades between two labels.
  const auto firstX = static_cast<int>(std::lround(std::log10(x.low))),
             lastX = static_cast<int>(std::lround(std::log10(x.high)));
  for (int decade = firstX; decade <= lastX; ++decade) {
    const double value = std::pow(10, decade);
    svg.line(x(value), y.to, x(value), y.from, "grid");
    if ((decade - firstX) % step == 0)
      svg.text(x(value), y.from + 17, fmt::format("{:g}", value), "middle", "tick");
  }
  const auto firstY = static_cast<int>(std::ceil(std::log10(y.low))),
             lastY = static_cast<int>(std::floor(std::log10(y.high)));
  for (int decade = firstY; decade <= lastY; ++decade) {
    const double value = std::pow(10, decade);
    svg.line(x.from, y(value), x.to, y(value), "grid");
    std::string text = formatRate(value, ""); // "1.00 T/s".
    svg.text(x.from - 7, y(value) + 4, fmt::format("{:g} {}", std::stod(text), text.substr(text.find(' ') + 1, 1)),
             "end", "tick");
  }
  svg.text((x.from + x.to) / 2, size.height - 8, "FLOP per byte", "middle", "axis");
  svg.text(6, 12, "FLOP/s", "start", "axis");
}

/// Read, write and copy lie close together: one label above them.
void RooflinePlot::drawBandwidths() {
  for (double bandwidth : {peaks.readBytesPerUs, peaks.writeBytesPerUs, peaks.copyBytesPerUs}) {
    double start = std::max(x.low, y.low / bandwidth), end = topRate / bandwidth;
    svg.line(x(start), y(start * bandwidth), x(end), y(end * bandwidth), "ceiling");
  }
  double start = std::max(x.low, y.low / bestBandwidth), end = topRate / bestBandwidth;
  double rise = y(start * bestBandwidth) - y(end * bestBandwidth), run = x(end) - x(start);
  double length = std::hypot(rise, run), middle = std::sqrt(start * end);
  std::string label = fmt::format("read {}, write {}, copy {}", formatRate(peaks.readBytesPerUs, "B"),
                                  formatRate(peaks.writeBytesPerUs, "B"), formatRate(peaks.copyBytesPerUs, "B"));
  if (length < 6.3 * static_cast<double>(label.size()))
    label = "memory " + formatRate(bestBandwidth, "B");
  svg.text(x(middle) - 8 * rise / length, y(middle * bestBandwidth) - 8 * run / length, label, "middle",
           "ceiling-label", -std::atan2(rise, run) * 180 / std::numbers::pi);
}

/// A sustained rate is dashed, and told in the label of its burst.
void RooflinePlot::drawRates() {
  for (const Rate &rate : rates) {
    auto level = [&](double value, const char *styleClass) {
      svg.line(x(std::min(value / bestBandwidth, x.high)), y(value), x.to, y(value), styleClass);
    };
    level(rate.burst, "ceiling");
    std::string label = fmt::format("{} {}", rate.name, formatRate(rate.burst, "FLOP"));
    if (rate.sustained < 0.99 * rate.burst) {
      level(rate.sustained, "ceiling sustained");
      label += fmt::format(", sustained {}", formatRate(rate.sustained, "FLOP"));
    }
    svg.text(x.to, y(rate.burst) - 6, label, "end", "ceiling-label");
  }
}

void RooflinePlot::drawDot(const Dot &dot) {
  const KernelReport &kernel = *dot.kernel;
  double px = x(dot.intensity), py = y(dot.rate), top = y(dot.boundRate);
  if (py - top > radiusOf(dot)) {
    svg.line(px, py, px, top, "to-bound");
    svg.line(px - 4, top, px + 4, top, "to-bound");
  }
  std::string time = kernel.measuredUs
                         ? fmt::format("{}, {:.0f} % of its bound {}", formatDuration(*kernel.measuredUs),
                                       kernel.bound.percent(*kernel.measuredUs), formatDuration(kernel.bound.boundUs))
                         : fmt::format("untimed, bound {}", formatDuration(kernel.bound.boundUs));
  svg.circle(px, py, radiusOf(dot),
             fmt::format("dot {}{}", toString(kernel.bound.regime), kernel.measuredUs ? "" : " untimed"),
             fmt::format("{} {}\n{}\n{}", dot.number, kernel.ops, time, kernel.config));
}

/// In the dot where it is large; else beside it, on the first side that is free.
void RooflinePlot::drawNumber(const Dot &dot) {
  std::string number = std::to_string(dot.number);
  double px = x(dot.intensity), py = y(dot.rate), r = radiusOf(dot), w = 4.0 + 7 * static_cast<double>(number.size());
  if (dot.kernel->measuredUs && 2 * r > w + 5) {
    svg.text(px, py + 4, number, "middle", "dot-number");
    return;
  }
  const std::array<Box, 4> sides{{{px + r, py - 7, px + r + w, py + 7},
                                  {px - r - w, py - 7, px - r, py + 7},
                                  {px - w / 2, py - r - 14, px + w / 2, py - r},
                                  {px - w / 2, py + r, px + w / 2, py + r + 14}}};
  const auto *free = std::find_if(sides.begin(), sides.end(), [&](const Box &side) {
    return std::none_of(taken.begin(), taken.end(), [&](const Box &other) { return side.meets(other); });
  });
  if (free == sides.end())
    return; // Its tip and the table tell it.
  taken.push_back(*free);
  svg.text((free->left + free->right) / 2, (free->top + free->bottom) / 2 + 4, number, "middle", "number");
}

} // namespace

std::string rooflinePlot(const TuneReport &report, const PlotSize &size) { return RooflinePlot(report, size).draw(); }

} // namespace kfuse::tuner
