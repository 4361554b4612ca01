// What kfuse may do on the terminal it writes to.
#pragma once

namespace kfuse::tools {

/// True when `descriptor` (1: stdout, 2: stderr) is a terminal.
bool isTerminal(int descriptor);

/// Colour on stdout: a terminal, and NO_COLOR unset or empty (no-color.org).
bool wantsColour();

} // namespace kfuse::tools
