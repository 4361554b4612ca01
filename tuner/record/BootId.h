// Which start of the machine this is.
#pragma once

#include <string>

namespace kfuse::tuner {

/// The running kernel's: another one after each start of the machine.
std::string bootId();

} // namespace kfuse::tuner
