#include "tools/kfuse/bench/GemmSweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace kfuse::tools {
namespace {

/// The layers of transformers that kfuse is judged on, N x K.
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 8> layers{{{1024, 1024},
                                                                       {4096, 4096},
                                                                       {6144, 4096},
                                                                       {28672, 4096},
                                                                       {4096, 14336},
                                                                       {8192, 8192},
                                                                       {28672, 8192},
                                                                       {8192, 28672}}};
constexpr std::array<std::int64_t, 12> allRows{1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 32768};
constexpr std::int64_t mostRows = std::int64_t(1)
                                  << 32; ///< These layers have a K under 2^16, so a matrix stays under 2^48.
/// The batches of squares that it is judged on.
constexpr std::array<Product, 4> squareBatches{
    {{{16, 1024, 1024, 1024}}, {{64, 1024, 1024, 1024}}, {{16, 2560, 2560, 2560}}, {{16, 4096, 4096, 4096}}}};

/// "MxNxK", or "BxMxNxK" for B of them, of positive sizes.
std::optional<Product> parseProduct(std::string_view text) {
  std::vector<std::int64_t> sizes;
  for (const char *at = text.data(), *const end = at + text.size();; ++at) {
    std::int64_t size = 0;
    const auto [behind, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size <= 0)
      return std::nullopt;
    sizes.push_back(size);
    at = behind;
    if (at == end)
      break;
    if (*at != 'x')
      return std::nullopt;
  }
  if (sizes.size() == 3)
    sizes.insert(sizes.begin(), 1);
  return sizes.size() == 4 ? std::optional(Product{{sizes[0], sizes[1], sizes[2], sizes[3]}}) : std::nullopt;
}

/// Whether each of its matrices has fewer elements than a graph takes (GraphBuilder.h).
bool fitsGraph(const Product &product) {
  const auto batches = static_cast<double>(product.batches), M = static_cast<double>(product.M),
             N = static_cast<double>(product.N), K = static_cast<double>(product.K);
  return batches * std::max({M * K, N * K, M * N}) < 0x1p48;
}

/// A replacement policy that is not LRU keeps some lines of twice the L2.
constexpr double rotatedPerL2 = 4;
/// Calls of a graph, each on a set of its own: recording 4096 takes some 20 ms. Sets of batches may be more: one by one
/// these are a launch each.
constexpr std::int64_t mostLaunches = 4096, mostSetsOfBatches = 128;

} // namespace

Rotation Rotation::of(double setBytes, std::int64_t batches, double l2Bytes) {
  const double room = rotatedPerL2 * l2Bytes;
  const auto most = std::max(mostLaunches / batches, mostSetsOfBatches);
  const auto sets = static_cast<std::int64_t>(std::min(room / setBytes + 1, static_cast<double>(most)));
  const double bytes = static_cast<double>(sets) * setBytes;
  return {static_cast<int>(sets), bytes, bytes >= room};
}

std::string Product::str() const {
  return (batches > 1 ? fmt::format("{}x", batches) : "") + fmt::format("{}x{}x{}", M, N, K);
}

Result<std::vector<Product>> sweptProducts(std::span<const std::string> texts, std::span<const std::int64_t> rows) {
  for (std::int64_t M : rows)
    if (M <= 0 || M > mostRows)
      return Error{ErrorCode::Usage, fmt::format("--rows {}: expected 1 to {}, as in --rows 1 16", M, mostRows)};
  std::vector<Product> all;
  for (const std::string &text : texts) {
    std::optional<Product> product = parseProduct(text);
    if (!product || !fitsGraph(*product))
      return Error{ErrorCode::Usage, "--shapes " + text +
                                         ": expected MxNxK or BxMxNxK with positive sizes and fewer "
                                         "than 2^48 elements a matrix, as in 4096x4096x4096"};
    all.push_back(*product);
  }
  if (!all.empty())
    return all;
  for (auto [N, K] : layers)
    for (std::int64_t M : rows.empty() ? std::span<const std::int64_t>(allRows) : rows)
      all.push_back({{1, M, N, K}});
  if (rows.empty())
    all.insert(all.end(), squareBatches.begin(), squareBatches.end());
  return all;
}

} // namespace kfuse::tools
