#include "bench/SweepReport.h"

#include "bench/Bench.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace kfuse::bench {
namespace {

constexpr std::size_t mostShown = 12;

/// For people who fit cost models.
void appendCsv(const char *path, const Case &given, const Swept &swept) {
  std::FILE *file = std::fopen(path, "a");
  if (!file)
    return;
  for (const SweptConfig &config : swept.configs)
    std::fprintf(file, "%s;%s;%.3f;%.3f;%.3f\n", given.name.c_str(), config.config.str().c_str(), config.us,
                 config.modelled, config.chainedUs);
  std::fclose(file);
}

void print(const std::vector<const SweptConfig *> &configs, bool isChained) {
  for (std::size_t i = 0; i < std::min(configs.size(), mostShown); ++i) {
    std::printf("    %8.2f us (modelled %8.2f)", configs[i]->us, configs[i]->modelled);
    if (isChained)
      std::printf(", %8.2f us in a chain", configs[i]->chainedUs);
    std::printf("  %s\n", configs[i]->config.str().c_str());
  }
}

} // namespace

void SweepReport::add(const Case &given, const Swept &swept, const SweepOptions &options) {
  if (const char *path = std::getenv("KFUSE_BENCH_CSV"))
    appendCsv(path, given, swept);
  std::vector<const SweptConfig *> order;
  std::vector<double> ms;
  for (const SweptConfig &config : swept.configs) {
    ms.push_back(config.compileMs);
    order.push_back(&config);
  }
  compileMs.insert(compileMs.end(), ms.begin(), ms.end());
  kernels.push_back({given.name, order.size(), order.front()->us, swept.ranking, median(std::move(ms))});
  std::printf("%s: %zu configs; the tuner's first reaches %.1f %% of the best, its first 8 %.1f %%, 40 %.1f %%\n",
              given.name.c_str(), order.size(), 100 * swept.ranking.first, 100 * swept.ranking.eight,
              100 * swept.ranking.forty);
  print(order, options.chained > 0);
  if (options.chained == 0)
    return;
  std::sort(order.begin(), order.end(),
            [](const SweptConfig *a, const SweptConfig *b) { return a->chainedUs < b->chainedUs; });
  std::printf("  the fastest in a chain of %d:\n", options.chained);
  print(order, true);
}

void SweepReport::summarise() const {
  if (kernels.empty())
    return;
  std::printf("\n%-32s %8s %10s %8s %8s %8s %8s\n", "", "configs", "best us", "first %", "of 8 %", "of 40 %",
              "NVRTC ms");
  for (const Kernel &one : kernels)
    std::printf("%-32s %8zu %10.2f %8.1f %8.1f %8.1f %8.0f\n", one.name.c_str(), one.configs, one.bestUs,
                100 * one.ranking.first, 100 * one.ranking.eight, 100 * one.ranking.forty, one.compileMs);
  auto mean = [&](double Ranking::*share) {
    double logs = 0;
    for (const Kernel &one : kernels)
      logs += std::log(one.ranking.*share);
    return 100 * std::exp(logs / static_cast<double>(kernels.size()));
  };
  std::printf("%zu kernels: of the best of all configs the first reaches %.1f %%, the best of 8 %.1f %%, of 40 %.1f %% "
              "(geometric means); a compilation takes %.0f ms (median)\n",
              kernels.size(), mean(&Ranking::first), mean(&Ranking::eight), mean(&Ranking::forty), median(compileMs));
}

void SweepReport::writeJson(const std::string &path, const runtime::Device &device) {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  if (error)
    succeed(Error{ErrorCode::Usage, "cannot write " + path + ": " + error.message()});
  file << llvm::formatv("{0:2}\n",
                        llvm::json::Value(llvm::json::Object{
                            {"device", device.sku()}, {"driver", device.driver()}, {"memory_bound", std::move(rows)}}));
}

} // namespace kfuse::bench
