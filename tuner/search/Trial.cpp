#include "tuner/search/Trial.h"

#include <tuple>

namespace kfuse::tuner {
namespace {

/// Where a target's kernels tell no registers, as a CPU's, the model's.
auto tieRank(const Trial &trial) {
  std::uint64_t shared = 0;
  for (const codegen::Launch &launch : trial.candidate.plan.launches)
    shared += launch.sharedBytes;
  const runtime::ResourceFacts &facts = trial.binary.facts;
  const auto registers = registersGiven(facts);
  return std::tuple(facts.spillBytes, registers > 0 ? 0 : trial.candidate.estimateUs, registers,
                    shared + facts.staticSharedBytes, trial.candidate.config.str());
}

} // namespace

bool isPreferred(const Trial &a, const Trial &b) { return tieRank(a) < tieRank(b); }

} // namespace kfuse::tuner
