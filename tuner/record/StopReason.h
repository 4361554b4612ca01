// Why a search ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kfuse::tuner {

enum class StopReason : std::uint8_t {
  None,      ///< There was no search: the cost model chose.
  Roof,      ///< The best is at the roofline: looking further cannot pay.
  Exhausted, ///< Nothing is left that could win.
  Budget,    ///< Time ran out.
  Candidates ///< As many were tried as the effort allows.
};

/// "none", "roof", "exhausted", "budget", "candidates".
std::string_view toString(StopReason reason);
std::optional<StopReason> parseStopReason(std::string_view text);

} // namespace kfuse::tuner
