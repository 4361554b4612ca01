// The commands of kfuse, beside those of bench/Bench.h. Each adds itself to the command line and sets the exit status
// when it ran.
#pragma once

#include <CLI/App.hpp>

namespace kfuse::tools {

void addTune(CLI::App &app, int &status);
void addRun(CLI::App &app, int &status);
void addExplain(CLI::App &app, int &status);
void addTargets(CLI::App &app, int &status);
void addPack(CLI::App &app, int &status);
void addDb(CLI::App &app, int &status);
void addQuantize(CLI::App &app, int &status);

} // namespace kfuse::tools
