#include "tools/kfuse/bench/GemmReport.h"

#include "tools/kfuse/console/Table.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace kfuse::tools {
namespace {

using Json = nlohmann::ordered_json;

/// What a geometric mean is taken over.
struct Group {
  const char *name;
  bool (*holds)(const Product &);
};
double weightBytes(const Product &product) { return 2.0 * static_cast<double>(product.N * product.K); }
/// The rows of a product that is alone; 0 in a batch.
std::int64_t rowsAlone(const Product &product) { return product.batches > 1 ? 0 : product.M; }
constexpr std::array<Group, 6> groups{{
    {"M >= 2048", [](const Product &p) { return rowsAlone(p) >= 2048; }},
    {"128 <= M <= 1024", [](const Product &p) { return rowsAlone(p) >= 128 && rowsAlone(p) <= 1024; }},
    {"M = 1", [](const Product &p) { return rowsAlone(p) == 1; }},
    {"1 < M <= 64, weights up to 60 MB",
     [](const Product &p) { return rowsAlone(p) > 1 && rowsAlone(p) <= 64 && weightBytes(p) <= 60e6; }},
    {"1 < M <= 64, larger weights",
     [](const Product &p) { return rowsAlone(p) > 1 && rowsAlone(p) <= 64 && weightBytes(p) > 60e6; }},
    {"batches", [](const Product &p) { return p.batches > 1; }},
}};

/// The geometric mean of the ratios of those of a group's rows that have one, and their number.
std::pair<double, int> geometricMean(const std::vector<GemmRow> &rows, const Group &group) {
  double logs = 0;
  int count = 0;
  for (const GemmRow &row : rows)
    if (row.peer && group.holds(row.product))
      logs += std::log(row.peer->ratio), ++count;
  return {count > 0 ? std::exp(logs / count) : 0, count};
}

/// Its time, that of its first choice, the ratio and its spread.
std::array<std::string, 4> peerCells(const std::optional<PeerTimes> &peer) {
  if (!peer)
    return {"-", "-", "-", "-"};
  return {formatTime(peer->us), formatTime(peer->firstUs), fmt::format("{:.3f}", peer->ratio),
          fmt::format("{:.2f}..{:.2f}", peer->low, peer->high)};
}

} // namespace

GemmReport GemmReport::of(std::span<const Product> products,
                          const std::function<Result<GemmRow>(const Product &)> &compare,
                          const std::function<bool(const Error &)> &endsAll) {
  GemmReport report;
  for (const Product &product : products) {
    Result<GemmRow> row = compare(product);
    if (row) {
      report.rows.push_back(std::move(*row));
      continue;
    }
    report.missing.push_back({product, row.error()});
    if (endsAll(row.error()))
      break;
  }
  return report;
}

std::string GemmReport::table() const {
  Table text({"[B x] M x N x K", ">kfuse", ">overlapped", ">cuBLASLt", ">its first", ">ratio", ">p10..p90", ">TFLOP/s",
              ">TB/s", ">roof", "config"});
  for (const GemmRow &row : rows) {
    const auto [peer, first, ratio, spread] = peerCells(row.peer);
    text.add({row.product.str(), formatTime(row.kfuseUs), formatTime(row.overlappedUs), peer, first, ratio, spread,
              fmt::format("{:.0f}", row.product.flops() / row.kfuseUs / 1e6),
              fmt::format("{:.2f}", row.bytes / row.kfuseUs / 1e6),
              fmt::format("{:.0f}%", row.report.bound.percent(row.kfuseUs)), row.report.config});
  }
  std::string all = text.str();
  for (const GemmRow &row : rows)
    if (!row.peer)
      all += row.product.str() + ": cuBLASLt has no algorithm for it that runs; kfuse's times alone\n";
  for (const GemmRow &row : rows)
    if (!row.rotation.isPastL2)
      all += fmt::format("{}: its operands rotate in {} alone, calls may find some of them in the L2\n",
                         row.product.str(), formatBytes(row.rotation.bytes));
  for (const Group &group : groups)
    if (auto [mean, count] = geometricMean(rows, group); count > 0)
      all += fmt::format("{}: cuBLASLt's time over kfuse's {:.3f}, geometric mean of {}\n", group.name, mean, count);
  return all;
}

std::string GemmReport::json(const std::string &sku, const std::string &driver, const std::string &type) const {
  Json all{{"device", sku}, {"driver", driver}, {"type", type}};
  for (const char *list : {"products", "not_measured", "geometric_means"})
    all[list] = Json::array();
  for (const GemmRow &row : rows) {
    auto ofPeer = [&](double PeerTimes::*figure) { return row.peer ? Json(*row.peer.*figure) : Json(); };
    all["products"].push_back({{"batches", row.product.batches},
                               {"m", row.product.M},
                               {"n", row.product.N},
                               {"k", row.product.K},
                               {"kfuse_us", row.kfuseUs},
                               {"kfuse_overlapped_us", row.overlappedUs},
                               {"cublaslt_us", ofPeer(&PeerTimes::us)},
                               {"cublaslt_first_us", ofPeer(&PeerTimes::firstUs)},
                               {"cublaslt_algorithms", row.peer ? row.peer->algorithms : 0},
                               {"ratio", ofPeer(&PeerTimes::ratio)},
                               {"ratio_p10", ofPeer(&PeerTimes::low)},
                               {"ratio_p90", ofPeer(&PeerTimes::high)},
                               {"tflops", row.product.flops() / row.kfuseUs / 1e6},
                               {"tbps", row.bytes / row.kfuseUs / 1e6},
                               {"rotated_bytes", row.rotation.bytes},
                               {"rotates_past_l2", row.rotation.isPastL2},
                               {"bound_us", row.boundUs},
                               {"roofline_percent", row.report.bound.percent(row.kfuseUs)},
                               {"config", row.report.config},
                               {"candidates", row.report.candidates}});
  }
  for (const auto &[product, error] : missing)
    all["not_measured"].push_back(
        {{"batches", product.batches}, {"m", product.M}, {"n", product.N}, {"k", product.K}, {"error", error.message}});
  for (const Group &group : groups)
    if (auto [mean, count] = geometricMean(rows, group); count > 0)
      all["geometric_means"].push_back({{"group", group.name}, {"ratio", mean}, {"products", count}});
  return all.dump(2) + "\n";
}

int GemmReport::status() const {
  if (missing.empty())
    return 0;
  const auto wrong = std::find_if(missing.begin(), missing.end(),
                                  [](const MissingGemm &one) { return one.error.code == ErrorCode::WrongResult; });
  return static_cast<int>((wrong != missing.end() ? *wrong : missing.front()).error.code);
}

} // namespace kfuse::tools
