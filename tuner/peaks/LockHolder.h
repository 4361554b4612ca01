// Who holds a lock on a file, for people.
#pragma once

#include <fcntl.h>
#include <string>

namespace kfuse::tuner {

/// Who keeps `range` of the open file locked: "kfuse's process 4711", "another process, 4711 (python3)", or "another
/// process" where /proc does not tell, as of other users' processes.
std::string holderOf(int file, struct flock range);

} // namespace kfuse::tuner
