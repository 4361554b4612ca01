// Commands that take their time, and end when a signal asks them to.
#pragma once

#include <functional>
#include <stop_token>

namespace kfuse::tools {

/// Runs `command` and returns its status. SIGINT, SIGTERM and SIGHUP (unless under nohup) are answered by one line on
/// stderr and a request to stop; then the status is that of Cancelled. A command that goes on for 0.8 s after that, or
/// a second signal, is ended where it is: workers end with their parent, and the store bears it.
int interruptible(const std::function<int(const std::stop_token &)> &command);

} // namespace kfuse::tools
