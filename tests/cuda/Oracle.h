// The reference evaluator's word on a region, computed once for all configs.
#pragma once

#include "ir/reference/Policy.h"
#include "tests/cuda/TemplateCases.h"

#include <mutex>

namespace kfuse::test {

class Oracle {
public:
  Oracle(RegionCase &given, std::vector<reference::HostTensor> inputs)
      : given(given), inputs(std::move(inputs)), exact(evaluate(reference::Mode::Exact)) {}

  /// May be called from several threads.
  std::vector<reference::Verdict> judge(const std::vector<reference::HostTensor> &outputs) {
    std::vector<reference::Verdict> verdicts;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      auto rounding = [&, i]() -> Result<reference::Values> {
        std::scoped_lock lock(evaluating);
        if (rounded.empty())
          rounded = evaluate(reference::Mode::RoundEachOp);
        return rounded[i];
      };
      auto verdict = reference::judge(reference::toValues(outputs[i]), exact[i], rounding,
                                      reference::spreadOf(given.parsed.body(), inputs, i));
      REQUIRE_MESSAGE(verdict, verdict.error().message);
      verdicts.push_back(*verdict);
    }
    return verdicts;
  }

private:
  std::vector<reference::Values> evaluate(reference::Mode mode) {
    auto results = reference::evaluate(given.parsed.body(), inputs, mode);
    REQUIRE_MESSAGE(results, results.error().message);
    return std::move(*results);
  }

  RegionCase &given;
  std::vector<reference::HostTensor> inputs;
  std::mutex evaluating;
  std::vector<reference::Values> exact, rounded;
};

} // namespace kfuse::test
