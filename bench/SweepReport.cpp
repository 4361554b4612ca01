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
  rankings.push_back(swept.ranking);
  std::vector<const SweptConfig *> order;
  for (const SweptConfig &config : swept.configs) {
    compileMs.push_back(config.compileMs);
    order.push_back(&config);
  }
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
  if (rankings.empty())
    return;
  auto mean = [&](double Ranking::*share) {
    double logs = 0;
    for (const Ranking &one : rankings)
      logs += std::log(one.*share);
    return 100 * std::exp(logs / static_cast<double>(rankings.size()));
  };
  std::printf("%zu kernels: of the best of all configs the first reaches %.1f %%, the best of 8 %.1f %%, of 40 %.1f %% "
              "(geometric means); a compilation takes %.0f ms (median)\n",
              rankings.size(), mean(&Ranking::first), mean(&Ranking::eight), mean(&Ranking::forty), median(compileMs));
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
