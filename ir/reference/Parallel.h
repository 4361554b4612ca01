// Loops over all cores.
#pragma once

#include <cstdint>
#include <functional>

namespace kfuse::reference {

/// Calls `body(begin, end)` for pieces of [0, count) of at most `grain`, on as many threads as the
/// machine has; on this thread alone when there is one piece. `body` must not throw.
void parallelFor(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)> &body);

} // namespace kfuse::reference
