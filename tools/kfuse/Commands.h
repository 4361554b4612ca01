// The commands of kfuse; each adds itself to the command line and sets the exit status when it ran.
#pragma once

#include <CLI/App.hpp>

namespace kfuse::tools {

void addTune(CLI::App &app, int &status);
void addRun(CLI::App &app, int &status);
void addExplain(CLI::App &app, int &status);
void addTargets(CLI::App &app, int &status);
void addBench(CLI::App &app, int &status);
void addBenchBlock(CLI::App &bench, int &status);
void addBenchTimeline(CLI::App &bench, int &status);
void addBenchLengths(CLI::App &bench, int &status);
void addBenchGemm(CLI::App &bench, int &status);
void addPack(CLI::App &app, int &status);
void addDb(CLI::App &app, int &status);
void addQuantize(CLI::App &app, int &status);

} // namespace kfuse::tools
