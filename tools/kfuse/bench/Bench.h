// The commands of `kfuse bench`.
#pragma once

#include <CLI/App.hpp>

namespace kfuse::tools {

void addBench(CLI::App &app, int &status);
void addBenchBlock(CLI::App &bench, int &status);
void addBenchTimeline(CLI::App &bench, int &status);
void addBenchLengths(CLI::App &bench, int &status);
void addBenchGemm(CLI::App &bench, int &status);

} // namespace kfuse::tools
