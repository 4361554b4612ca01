// Work on several programs at once.
#pragma once

#include <cstddef>
#include <functional>

namespace kfuse::tuner {

/// Calls `body` with 0 to count - 1, each once, on as many threads as the machine has. Once all have ended, the caller
/// gets what one of them has thrown.
void onAllCores(std::size_t count, const std::function<void(std::size_t)> &body);

} // namespace kfuse::tuner
