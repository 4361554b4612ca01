#include "tuner/search/Candidates.h"

#include "codegen/KernelLimits.h"
#include "tuner/record/Key.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>

namespace kfuse::tuner {
namespace {

constexpr std::uint32_t maxThreads = 1024;
constexpr std::uint32_t maxCluster = 16; // The most that any GPU offers, as a non-portable size.
constexpr std::uint32_t maxGridYZ = 65535;
// A group whose best estimate is this much above another's will not win: in 900 searches the winner's group was at most
// 1.25 times another's, and 1.47 times for products of 2 us.
constexpr double estimateError = 1.2, startErrorUs = 1.1;
constexpr double duplicatePenalty = 0.04; // A share of the estimate, for each config of its kind before it.
constexpr int registerUnit = 8;

std::uint32_t volume(const std::array<std::uint32_t, 3> &extents) { return extents[0] * extents[1] * extents[2]; }

std::optional<std::string> whyNotFit(const codegen::Launch &launch, int staticShared, const ir::Target &target) {
  int shared = static_cast<int>(launch.sharedBytes) + staticShared;
  if (shared > target.sharedBytesPerBlock)
    return fmt::format("{} bytes of shared memory, {} has {}", shared, target.name, target.sharedBytesPerBlock);
  if (staticShared > codegen::cuda::mostStaticShared)
    return fmt::format("{} bytes of static shared memory, at most {}", staticShared, codegen::cuda::mostStaticShared);
  if (volume(launch.block) > maxThreads)
    return fmt::format("{} threads a block, at most {}", volume(launch.block), maxThreads);
  if (volume(launch.cluster) > maxCluster)
    return fmt::format("a cluster of {} blocks, at most {}", volume(launch.cluster), maxCluster);
  if (volume(launch.cluster) > 1 && target.capability < 90)
    return fmt::format("clusters, which {} does not have", target.name);
  if (launch.grid[1] > maxGridYZ || launch.grid[2] > maxGridYZ)
    return fmt::format("a grid of {} by {} in y and z, at most {}", launch.grid[1], launch.grid[2], maxGridYZ);
  return std::nullopt;
}

} // namespace

Result<codegen::KernelPlan> emitStored(const TuningTask &task, const codegen::TileConfig &config) {
  try {
    return task.space->emit(config);
  } catch (const std::out_of_range &missing) {
    return Error{ErrorCode::Compile, missing.what()};
  }
}

std::optional<std::string> whyNotFit(const codegen::KernelPlan &plan, const ir::Target &target) {
  return whyNotFit(plan, runtime::ResourceFacts{}, target);
}

std::optional<std::string> whyNotFit(const codegen::KernelPlan &plan, const runtime::ResourceFacts &facts,
                                     const ir::Target &target) {
  if (target.isCpu())
    return std::nullopt;
  for (const codegen::Launch &launch : plan.launches) {
    if (std::optional<std::string> reason = whyNotFit(launch, facts.staticSharedBytes, target))
      return reason;
    const int registers = registersGiven(facts);
    if (static_cast<std::uint64_t>(registers) * volume(launch.block) > static_cast<unsigned>(target.registersPerSm))
      return fmt::format("{} registers for each of {} threads, {} has {}", registers, volume(launch.block), target.name,
                         target.registersPerSm);
  }
  return std::nullopt;
}

int registersGiven(const runtime::ResourceFacts &facts) {
  return (facts.registers + registerUnit - 1) / registerUnit * registerUnit;
}

CandidateQueue::CandidateQueue(const TuningTask &task, const ir::Target &target, const Peaks &peaks,
                               std::string compilerVersion, std::string sku,
                               const std::optional<codegen::TileConfig> &seed)
    : task(task), target(target), peaks(peaks), compilerVersion(std::move(compilerVersion)), sku(std::move(sku)) {
  for (const auto &[estimateUs, config] : task.space->candidates()) {
    const codegen::TileWork tiles = task.space->leastWork(config).value_or(codegen::TileWork{task.work.flops, 0});
    ranked.push_back({config, std::isnan(estimateUs) ? INFINITY : estimateUs, configBoundUs(task.work, tiles, peaks)});
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked &a, const Ranked &b) {
    return std::tie(a.estimateUs, a.config) < std::tie(b.estimateUs, b.config);
  });
  if (seed)
    moveFirst(*seed); // So that its near-duplicates come after it.
  spreadKinds();
  promoteBestOfEachGroup();
  if (seed)
    moveFirst(*seed);
}

void CandidateQueue::moveFirst(const codegen::TileConfig &seed) {
  auto found = std::find_if(ranked.begin(), ranked.end(), [&](const Ranked &entry) { return entry.config == seed; });
  if (found == ranked.end())
    return;
  std::rotate(ranked.begin(), found, found + 1);
}

/// The first stays first, for nobody is better than its estimate.
void CandidateQueue::spreadKinds() {
  std::map<codegen::TileConfig, int> kin;
  std::vector<std::pair<double, const Ranked *>> penalised;
  for (const Ranked &entry : ranked)
    if (const std::optional<codegen::TileConfig> kind = task.space->kindOf(entry.config))
      penalised.emplace_back(entry.estimateUs * (1 + duplicatePenalty * kin[*kind]++), &entry);
    else
      penalised.emplace_back(entry.estimateUs, &entry);
  std::sort(penalised.begin(), penalised.end()); // Equal ones by their places.
  std::vector<Ranked> ordered;
  for (const auto &[us, entry] : penalised)
    ordered.push_back(*entry);
  ranked = std::move(ordered);
}

void CandidateQueue::promoteBestOfEachGroup() {
  if (ranked.empty())
    return;
  const double most = estimateError * ranked.front().estimateUs + startErrorUs;
  std::set<std::int64_t> met;
  std::set<const Ranked *> first;
  for (const Ranked &entry : ranked)
    if (entry.estimateUs <= most && met.insert(task.space->estimateGroup(entry.config)).second)
      first.insert(&entry);
  std::vector<Ranked> ordered;
  for (bool isFirst : {true, false})
    for (const Ranked &entry : ranked)
      if (first.count(&entry) == (isFirst ? 1U : 0U))
        ordered.push_back(entry);
  ranked = std::move(ordered);
}

std::optional<Candidate> CandidateQueue::next() {
  while (position < ranked.size()) {
    const Ranked &entry = ranked[position++];
    Result<codegen::KernelPlan> plan = task.space->emit(entry.config);
    std::optional<std::string> misfit = plan ? whyNotFit(*plan, target) : plan.error().message;
    if (misfit) {
      const bool isBug = !plan && plan.error().code == ErrorCode::Internal;
      refusal = {isBug ? ErrorCode::Internal : ErrorCode::Compile, entry.config.str() + ": " + *misfit};
      continue;
    }
    std::string key = tuningKey(*plan, compilerVersion, sku);
    if (seen.insert(key).second) {
      const double boundUs = std::max(entry.boundUs, gridBound(*plan));
      return Candidate{entry.config, entry.estimateUs, boundUs, std::move(*plan), std::move(key)};
    }
  }
  return std::nullopt;
}

/// Looks at the launch that has the most blocks, which may do all the work.
double CandidateQueue::gridBound(const codegen::KernelPlan &plan) const {
  if (target.isCpu())
    return 0;
  std::uint64_t blocks = 1;
  for (const codegen::Launch &launch : plan.launches)
    blocks = std::max<std::uint64_t>(blocks, std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2]);
  return gridBoundUs(task.work, blocks, target.multiprocessors, peaks);
}

double CandidateQueue::leastBoundUs() const {
  double least = INFINITY;
  for (std::size_t i = position; i < ranked.size(); ++i)
    least = std::min(least, ranked[i].boundUs);
  return least;
}

} // namespace kfuse::tuner
