// What EmulatorApi asks for, by the grid that runs.
#pragma once

#include "tests/emulation/EmulatorApi.h"

namespace kfuse::test {

const EmulatorApi &emulatorApi();

} // namespace kfuse::test
