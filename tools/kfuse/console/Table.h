// Plain tables for people.
#pragma once

#include <string>
#include <vector>

namespace kfuse::tools {

/// Columns aligned by their widest cell, two spaces apart; a column whose header starts with '>' is
/// aligned right. Cells of the last column are wrapped so that lines stay within `width`.
class Table {
public:
  explicit Table(std::vector<std::string> headers) : headers(std::move(headers)) {}
  void add(std::vector<std::string> cells); ///< Cells are shown as ir::printable() gives them.
  std::string str(std::size_t width = 100) const;

private:
  std::vector<std::string> headers;
  std::vector<std::vector<std::string>> rows;
};

/// "0.98 us", "12.3 us", "4.56 ms": three digits.
std::string formatTime(double us);
/// "512 B", "1.5 KB", "33.6 MB": decimal units.
std::string formatBytes(double bytes);
/// "12.9 GFLOP".
std::string formatFlops(double flops);

} // namespace kfuse::tools
