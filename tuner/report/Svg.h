// The little of SVG and HTML that the report draws with.
#pragma once

#include <string>
#include <string_view>

namespace kfuse::tuner {

/// `text` with what HTML would take for markup replaced, and what has no shape written out (ir::printable).
std::string escaped(std::string_view text);

/// "0.98 us", "12.3 us", "4.56 ms": three significant digits.
std::string formatDuration(double us);
/// "892 TFLOP/s", "61.8 GB/s": three significant digits; `perUs` of `unit` a microsecond.
std::string formatRate(double perUs, std::string_view unit);

/// A logarithmic axis: `low` is drawn at `from`, `high` at `to`.
struct LogScale {
  double low, high, from, to;
  double operator()(double value) const;
};

/// An inline picture, drawn back to front. Colours come from the classes of the page's style.
class Svg {
public:
  Svg(double width, double height, std::string_view styleClass, std::string_view label);

  void line(double x1, double y1, double x2, double y2, std::string_view styleClass);
  /// "x,y x,y ...".
  void path(std::string_view points, std::string_view styleClass);
  void circle(double x, double y, double radius, std::string_view styleClass, std::string_view tip);
  void cross(double x, double y, double radius, std::string_view styleClass, std::string_view tip);
  /// `anchor` is start, middle or end; `degrees` turn it around its point.
  void text(double x, double y, std::string_view content, std::string_view anchor, std::string_view styleClass = "",
            double degrees = 0);
  std::string str() const { return body + "</svg>\n"; }

private:
  std::string body;
};

} // namespace kfuse::tuner
