// What trying one candidate told: its time, or how it failed.
#pragma once

#include "codegen/TileConfig.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kfuse::tuner {

/// How a candidate failed. A failure is a row in the store, never the end of a search.
enum class FailureKind : std::uint8_t {
  Compile,     ///< The compiler refused the source.
  Spill,       ///< It compiled, but registers spill to memory.
  Launch,      ///< Loading or launching it failed.
  Timeout,     ///< One run took far longer than the best candidate's, or did not end.
  Overrun,     ///< It wrote outside its outputs or workspace, or left its semaphores set.
  WrongResult, ///< Its output did not pass the check.
  Crash        ///< It took the worker process or the device down, or twice the machine.
};

/// "compile", "spill", "launch", "timeout", "overrun", "wrong result", "crash".
std::string_view toString(FailureKind kind);
std::optional<FailureKind> parseFailureKind(std::string_view text);

struct Failure {
  FailureKind kind = FailureKind::Compile;
  std::string message; ///< One line.
};

/// Samples of the first look at a candidate; whoever met others in finals has more.
inline constexpr int firstLookSamples = 3;

/// Summary of timed runs.
struct Timing {
  double medianUs = 0;
  double spread = 0; ///< Median absolute deviation over the median: 0.01 is 1 %.
  int samples = 0;
  friend bool operator==(const Timing &, const Timing &) = default;
};

/// An even number of values has the mean of the two in the middle. `values` must not be empty.
double median(std::vector<double> values);

/// `samplesUs` must not be empty.
Timing summarise(std::vector<double> samplesUs);

/// One candidate of one region on one device. Neither timing nor failure: started, not yet back.
struct Measurement {
  std::string kernel; ///< tuningKey.
  std::string region; ///< regionKey it was first tried for.
  codegen::TileConfig config;
  std::string driver; ///< Driver version it ran under.
  double estimateUs = 0;
  std::optional<Timing> timing;
  std::optional<Failure> failure;
  double at = 0; ///< Unix seconds at which its trial began; 0 until it is stored.
};

} // namespace kfuse::tuner
