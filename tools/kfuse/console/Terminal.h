// What kfuse says on the terminal it writes to: progress, warnings, errors.
#pragma once

#include "kfuse/compiler.h"

#include <string>

namespace kfuse::tools {

/// True when `descriptor` (1: stdout, 2: stderr) is a terminal.
bool isTerminal(int descriptor);

/// Colour on stdout: a terminal, and NO_COLOR unset or empty (no-color.org).
bool wantsColour();

/// Rewrites one line of the terminal as the search goes on; clearProgress() follows before anything else is written.
void showProgress(const Progress &at);
void clearProgress();

/// Prints the error on one line of stderr and returns its code, which is the exit status. What cancelled a command has
/// had its line (Interruption.h).
int fail(const Error &error);

/// A warning on one line of stderr.
void warn(const std::string &line);

} // namespace kfuse::tools
