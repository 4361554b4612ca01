#include "tuner/record/StopReason.h"

#include <algorithm>
#include <array>

namespace kfuse::tuner {
namespace {

constexpr std::array<std::string_view, 5> names{"none", "roof", "exhausted", "budget", "candidates"};

} // namespace

std::string_view toString(StopReason reason) { return names[static_cast<std::size_t>(reason)]; }

std::optional<StopReason> parseStopReason(std::string_view text) {
  const auto *found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    return std::nullopt;
  return static_cast<StopReason>(found - names.begin());
}

} // namespace kfuse::tuner
