// The candidates of a task, best estimate first, emitted as they are asked for.
#pragma once

#include "ir/Target.h"
#include "runtime/Device.h"
#include "tuner/search/TuningTask.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kfuse::tuner {

struct Candidate {
  codegen::TileConfig config;
  double estimateUs = 0;
  double boundUs = 0; ///< configBoundUs: it cannot be faster.
  codegen::KernelPlan plan;
  std::string key; ///< tuningKey.
};

/// The plan of a config that the store has a binary or a time of, or that the template lists: no other is sure to be
/// emitted. An earlier version's may lack a field, which is an error.
Result<codegen::KernelPlan> emitStored(const TuningTask &task, const codegen::TileConfig &config);

/// Why the plan cannot run on the target whatever its registers, or nothing.
std::optional<std::string> whyNotFit(const codegen::KernelPlan &plan, const ir::Target &target);

/// The same once the compiler has told its registers and static shared memory.
std::optional<std::string> whyNotFit(const codegen::KernelPlan &plan, const runtime::ResourceFacts &facts,
                                     const ir::Target &target);

/// Registers of a thread as a multiprocessor gives them out, in eights.
int registersGiven(const runtime::ResourceFacts &facts);

/// Hands out candidates that fit, in rising order of estimate (equal ones in the order of configs), but
/// - the best of each group (ConfigSpace::estimateGroup) that may still win before the second of any, and
/// - each of one kind (ConfigSpace::kindOf) as if its estimate were 4 % higher for every one of them before it: of near
///   duplicates, which also make it a matter of chance who wins, only one is among the first where there is any choice.
///   This is maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998).
/// Configs that fail to emit, do not fit or emit what another config did are passed over.
class CandidateQueue {
public:
  /// Bounds come from `peaks`. `seed`, when legal, comes first: a config that won here before. The references must
  /// outlive the queue.
  CandidateQueue(const TuningTask &task, const ir::Target &target, const Peaks &peaks, std::string compilerVersion,
                 std::string sku, const std::optional<codegen::TileConfig> &seed = std::nullopt);

  std::optional<Candidate> next();
  std::size_t remaining() const { return ranked.size() - position; }
  /// The least bound of those that remain; infinity when none do.
  double leastBoundUs() const;
  /// Why the last config was passed over; for the message when none is left. Internal where a template has a bug, else
  /// Compile.
  const Error &lastRefusal() const { return refusal; }

private:
  struct Ranked {
    codegen::TileConfig config;
    double estimateUs, boundUs;
  };
  void spreadKinds();
  void promoteBestOfEachGroup();
  void moveFirst(const codegen::TileConfig &seed);
  double gridBound(const codegen::KernelPlan &plan) const;

  const TuningTask &task;
  const ir::Target &target;
  const Peaks peaks;
  std::string compilerVersion, sku;
  std::vector<Ranked> ranked;
  std::size_t position = 0;
  std::set<std::string> seen; ///< Keys handed out.
  Error refusal{ErrorCode::Compile, ""};
};

} // namespace kfuse::tuner
