#include "tools/kfuse/console/Table.h"

#include "ir/Printable.h"

#include <fmt/format.h>

#include <algorithm>

namespace kfuse::tools {
namespace {

std::string scaled(double value, const char *const *units, int count) {
  int unit = 0;
  while (value >= 1000 && unit + 1 < count) {
    value /= 1000;
    ++unit;
  }
  int digits = value < 10 && unit > 0 ? 2 : value < 100 && unit > 0 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, units[unit]);
}

} // namespace

std::string formatTime(double us) {
  double value = us >= 1e6 ? us / 1e6 : us >= 1e3 ? us / 1e3 : us;
  const char *unit = us >= 1e6 ? "s" : us >= 1e3 ? "ms" : "us";
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, unit);
}

std::string formatBytes(double bytes) {
  static constexpr const char *units[] = {"B", "KB", "MB", "GB", "TB"};
  return scaled(bytes, units, 5);
}

std::string formatFlops(double flops) {
  static constexpr const char *units[] = {"FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP"};
  return scaled(flops, units, 5);
}

void Table::add(std::vector<std::string> cells) {
  for (std::string &cell : cells)
    cell = ir::printable(cell);
  rows.push_back(std::move(cells));
}

std::string Table::str(std::size_t width) const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < headers.size(); ++column) {
    std::size_t widest = headers[column].size() - (headers[column].front() == '>');
    for (const std::vector<std::string> &row : rows)
      widest = std::max(widest, row[column].size());
    widths.push_back(widest);
  }
  std::size_t before = 0;
  for (std::size_t column = 0; column + 1 < widths.size(); ++column)
    before += widths[column] + 2;
  std::size_t lastWidth = std::max<std::size_t>(width > before ? width - before : 0, 20);

  std::string text;
  auto line = [&](const std::vector<std::string> &cells) {
    std::string start;
    for (std::size_t column = 0; column + 1 < cells.size(); ++column) {
      bool right = headers[column].front() == '>';
      std::string cell =
          column < cells.size() && cells[column].starts_with(">") ? cells[column].substr(1) : cells[column];
      start += right ? fmt::format("{:>{}}  ", cell, widths[column]) : fmt::format("{:<{}}  ", cell, widths[column]);
    }
    std::string_view last = cells.back();
    do {
      std::size_t end = last.size();
      if (end > lastWidth) {
        const std::size_t gap = last.find_last_of(" ,_", lastWidth - 1);
        end = gap == std::string_view::npos ? lastWidth : gap + 1;
      }
      text += start + std::string(last.substr(0, end)) + "\n";
      last.remove_prefix(end);
      start.assign(before, ' ');
    } while (!last.empty());
  };
  line(headers);
  for (const std::vector<std::string> &row : rows)
    line(row);
  return text;
}

} // namespace kfuse::tools
