#include "tests/golden/CompileHarness.h"

#include "codegen/cuda/Templates.h"
#include "codegen/cuda/text/DeviceLibrary.h"
#include "tests/Skip.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <queue>
#include <sstream>
#include <thread>
#include <utility>

namespace kfuse::test {

std::unique_ptr<runtime::KernelCompiler> compilerHere() {
  auto compiler = runtime::makeCudaCompiler(codegen::cuda::deviceHeaders());
  if (compiler)
    return std::move(*compiler);
  kfuse::testing::skip(compiler.error().message);
  return nullptr;
}

codegen::KernelPlan planOf(const codegen::KernelTemplate &source, const codegen::Region &region,
                           const codegen::TileConfig &config, const ir::Target &target, const std::string &name) {
  Result<codegen::KernelPlan> plan = source.emit(region, config, target);
  REQUIRE_MESSAGE(plan, plan.error().message);
  plan->name = name + " " + config.str();
  return std::move(*plan);
}

std::size_t compileAll(const std::vector<codegen::KernelPlan> &all, runtime::KernelCompiler &compiler, Spills spills) {
  std::vector<Result<runtime::CompiledKernel>> kernels(all.size(), Error{});
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < all.size(); i = next++)
        kernels[i] = compiler.compile(all[i]);
    });
  for (std::thread &thread : threads)
    thread.join();
  std::size_t spilled = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO(all[i].name << " on " << all[i].target);
    REQUIRE_MESSAGE(kernels[i], kernels[i].error().message);
    INFO(kernels[i]->log);
    CHECK((spills == Spills::Allowed || kernels[i]->facts.spillBytes == 0));
    spilled += kernels[i]->facts.spillBytes > 0 ? 1 : 0;
    CHECK(kernels[i]->log.find("serialized") ==
          std::string::npos); // Products that wait for each other: half the speed.
    CHECK(kernels[i]->assembly.find("%globaltimer") == std::string::npos); // Nothing is marked unless asked for.
    CHECK(kernels[i]->facts.staticSharedBytes <= 48 * 1024);               // More has to be asked for at the launch.
    CHECK(kernels[i]->facts.registers * static_cast<int>(all[i].launches[0].block[0]) <= 65536);
  }
  return spilled;
}

bool isExhaustive() { return std::getenv("KFUSE_ALL_CONFIGS") != nullptr; }

std::vector<std::string> knownGpus() {
  std::vector<std::string> names;
  for (const ir::Target &target : ir::knownTargets())
    if (!target.isCpu())
      names.push_back(target.name);
  return names;
}

std::vector<codegen::KernelPlan> spread(const codegen::KernelTemplate &source, const codegen::Region &region,
                                        const ir::Target &target, std::size_t count) {
  const std::vector<codegen::TileConfig> configs = source.candidates(region, target);
  REQUIRE(!configs.empty());
  count = isExhaustive() ? configs.size() : std::min(count, configs.size());
  std::vector<codegen::KernelPlan> plans;
  for (std::size_t i = 0; i < count; ++i)
    plans.push_back(planOf(source, region, configs[i * (configs.size() - 1) / std::max<std::size_t>(1, count - 1)],
                           target, region.name));
  return plans;
}

std::vector<codegen::KernelPlan> plans(const codegen::Region &region, const ir::Target &target, std::size_t count) {
  for (const codegen::KernelTemplate *source : codegen::cuda::templates())
    if (source->match(region, target))
      return spread(*source, region, target, count);
  FAIL("no template takes the region");
  return {};
}

/// Each two fields of a config with their values: "k=64,m=128".
static std::vector<std::string> pairsOf(const codegen::TileConfig &config) {
  std::vector<std::string> fields, pairs;
  std::istringstream text(config.str());
  for (std::string field; std::getline(text, field, ',');)
    fields.push_back(field);
  for (std::size_t i = 0; i < fields.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      pairs.push_back(fields[j] + "," + fields[i]);
  return pairs;
}

std::vector<codegen::TileConfig> pairwise(std::vector<codegen::TileConfig> all) {
  if (isExhaustive())
    return all;
  std::map<std::string, std::size_t> numbers;              // Each pair's.
  std::vector<std::vector<std::size_t>> pairs(all.size()); // The numbers of each config's pairs.
  // The first config of most open pairs comes out first. What is counted here only falls, so that one whose count still
  // holds when it comes out is it: no other has to be counted anew.
  using Entry = std::pair<std::size_t, std::ptrdiff_t>; // Open pairs when counted, and -1 times the place in `all`.
  std::priority_queue<Entry> entries;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const std::string &pair : pairsOf(all[i]))
      pairs[i].push_back(numbers.emplace(pair, numbers.size()).first->second);
    entries.emplace(pairs[i].size(), -static_cast<std::ptrdiff_t>(i));
  }
  std::vector<bool> isCovered(numbers.size());
  std::vector<codegen::TileConfig> chosen;
  while (!entries.empty()) {
    const auto [counted, place] = entries.top();
    entries.pop();
    const std::vector<std::size_t> &own = pairs[-place];
    const auto open =
        static_cast<std::size_t>(std::ranges::count_if(own, [&](std::size_t pair) { return !isCovered[pair]; }));
    if (open < counted && open > 0)
      entries.emplace(open, place);
    if (open < counted || open == 0)
      continue;
    chosen.push_back(all[-place]);
    for (std::size_t pair : own)
      isCovered[pair] = true;
  }
  return chosen;
}

std::vector<codegen::KernelPlan> everyPair(const codegen::KernelTemplate &source, const TemplateCase &given) {
  const ir::Target &target = *ir::findTarget("sm_90a");
  RegionCase region(given);
  std::vector<codegen::KernelPlan> plans;
  for (const codegen::TileConfig &config : pairwise(source.candidates(region.region, target)))
    plans.push_back(planOf(source, region.region, config, target, given.name));
  return plans;
}

} // namespace kfuse::test
