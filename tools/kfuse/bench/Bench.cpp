#include "tools/kfuse/bench/Bench.h"

namespace kfuse::tools {

void addBench(CLI::App &app, int &status) {
  CLI::App *bench = app.add_subcommand("bench", "Benchmark against other libraries");
  bench->require_subcommand(1);
  addBenchBlock(*bench, status);
  addBenchGemm(*bench, status);
  addBenchLengths(*bench, status);
  addBenchTimeline(*bench, status);
}

} // namespace kfuse::tools
