// The winner of a search, as it is kept.
#pragma once

#include "codegen/TileConfig.h"
#include "kfuse/tuning.h"
#include "runtime/Device.h"
#include "tuner/record/Measurement.h"
#include "tuner/record/Roofline.h"
#include "tuner/record/StopReason.h"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

namespace kfuse::tuner {

/// The winner for one region on one device.
struct Choice {
  std::string region;   ///< regionKey.
  std::string kernel;   ///< tuningKey of the winner: another one means that the template has changed.
  std::string name;     ///< The kernel's, for people.
  std::string ops;      ///< The fused ops: findChoices() looks for them.
  std::string target;   ///< The target's name.
  std::string sku;      ///< The device: lookups and prune ask for it; "" when none was there.
  std::string compiler; ///< The compiler's version, for people.
  std::string driver;   ///< Driver version it was timed under.
  codegen::TileConfig config;
  Effort effort = Effort::Quick;
  std::optional<Timing> timing; ///< Empty: chosen by the cost model alone.
  int candidates = 0;           ///< Tried.
  int failed = 0;               ///< Candidates that failed.
  int cut = 0;                  ///< Within the effort, but left out for lack of time.
  int ruledOut = 0;             ///< Never compiled: they could not have won.
  StopReason stop = StopReason::None;
  runtime::Conditions conditions; ///< What the device ran under right after the last measurement.
  double at = 0;                  ///< Unix seconds: when its search began, and once it is stored, when it was.
};

/// The greater of two choices for one region is the better: timed before untimed, more effort before less.
inline auto rank(const Choice &choice) { return std::tuple(choice.timing.has_value(), choice.effort); }

/// The ceilings of one device.
struct StoredPeaks {
  std::string sku;
  Peaks peaks;
};

} // namespace kfuse::tuner
