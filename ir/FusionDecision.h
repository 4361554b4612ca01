// Yes, or the reason why not.
#pragma once

#include <string>
#include <utility>

namespace kfuse::ir {

/// The answer to "may these ops be one kernel?" or "does this template take the region?". A refusal
/// carries its reason, which `kfuse explain` prints.
class FusionDecision {
public:
  static FusionDecision yes() { return {}; }
  static FusionDecision no(std::string reason) {
    FusionDecision decision;
    decision.why = std::move(reason);
    return decision;
  }
  explicit operator bool() const { return why.empty(); }
  const std::string &reason() const { return why; }

private:
  std::string why;
};

} // namespace kfuse::ir
