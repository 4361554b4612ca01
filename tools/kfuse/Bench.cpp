#include "Commands.h"

namespace kfuse::tools {

void addBench(CLI::App &app, int &status) {
  CLI::App *bench = app.add_subcommand("bench", "Measure as others are measured, and beside them");
  bench->require_subcommand(1);
  addBenchBlock(*bench, status);
  addBenchGemm(*bench, status);
  addBenchTimeline(*bench, status);
}

} // namespace kfuse::tools
