// What a case does that cannot run here.
#pragma once

#include <string>

namespace kfuse::testing {

/// Says that the running case, or a part of it, is skipped, and why. Where that is all that a program ran, its status
/// is 77 (Main.cpp): ctest counts the case as skipped, not as passed.
void skip(const std::string &why);

} // namespace kfuse::testing
