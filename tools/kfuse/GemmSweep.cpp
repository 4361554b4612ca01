#include "GemmSweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
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
/// The batches of squares that it is judged on.
constexpr std::array<Product, 4> squareBatches{
    {{{16, 1024, 1024, 1024}}, {{64, 1024, 1024, 1024}}, {{16, 2560, 2560, 2560}}, {{16, 4096, 4096, 4096}}}};

/// "MxNxK", or "BxMxNxK" for B of them.
std::optional<Product> parseProduct(const std::string &text) {
  std::array<std::int64_t, 4> sizes{};
  int used = 0, count = std::sscanf(text.c_str(), "%ldx%ldx%ldx%ld", &sizes[0], &sizes[1], &sizes[2], &sizes[3]);
  std::sscanf(text.c_str(), count == 4 ? "%*ldx%*ldx%*ldx%*ld%n" : "%*ldx%*ldx%*ld%n", &used);
  if (count == 3)
    sizes = {1, sizes[0], sizes[1], sizes[2]};
  const bool arePositive = std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size > 0; });
  if (count < 3 || used != static_cast<int>(text.size()) || !arePositive)
    return std::nullopt;
  return Product{{sizes[0], sizes[1], sizes[2], sizes[3]}};
}

} // namespace

std::string Product::str() const {
  return (batches > 1 ? fmt::format("{}x", batches) : "") + fmt::format("{}x{}x{}", M, N, K);
}

Result<std::vector<Product>> sweptProducts(std::span<const std::string> texts, std::span<const std::int64_t> rows) {
  std::vector<Product> all;
  for (const std::string &text : texts) {
    std::optional<Product> product = parseProduct(text);
    if (!product)
      return Error{ErrorCode::Usage, "--shapes " + text + " is not of the form MxNxK or BxMxNxK with positive sizes"};
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
