// Weights quantised in the order of their columns' importance (g_idx, "act order").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kfuse::ir {

/// The order of columns in which those of a block follow each other, where blocks[i] is column i's; empty where they do
/// as they are. None where a block has not `size` columns, but for the last, which has what is left.
std::optional<std::vector<std::int64_t>> columnOrder(std::span<const std::int64_t> blocks, std::int64_t size);

} // namespace kfuse::ir
