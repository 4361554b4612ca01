// What `kfuse tune` tells: a table for people, one JSON object for programs.
#pragma once

#include "tuner/record/Roofline.h"
#include "tuner/record/StopReason.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kfuse::tuner {

struct KernelReport {
  std::string name;
  std::string ops;
  std::string templateName;
  std::string config;
  std::string region; ///< Its key in the store.
  Work work;
  Roofline bound;
  std::optional<double> measuredUs; ///< Empty: untimed, chosen by the cost model.
  int candidates = 0;               ///< Tried.
  int failed = 0;                   ///< Candidates that failed.
  int cut = 0;                      ///< Within the effort, but left out for lack of time.
  int ruledOut = 0;                 ///< Never compiled: they could not have won.
  StopReason stop = StopReason::None;
  std::string advice;      ///< What would move the bound.
  int uses = 1;            ///< Times a run of the model launches it.
  bool fromCache = false;  ///< The config was chosen by an earlier run.
  bool recompiled = false; ///< The config was in the store, but its machine code was not.
};

/// What chooseEndToEnd() did.
struct EndToEndReport {
  double us = 0;      ///< A run with the kernels that were chosen, its weights cold.
  double aloneUs = 0; ///< A run with the kernels that are fastest alone.
  int tried = 0;      ///< Other kernels that were tried in the run.
  int taken = 0;      ///< Kernels of those tried that were chosen.
};

struct TuneReport {
  std::string device;
  bool isDeviceHere = true; ///< Nothing is timed where it is not.
  Peaks peaks;
  std::vector<KernelReport> kernels;
  std::vector<std::size_t> launches;      ///< Indices of kernels in the order of one run.
  std::optional<EndToEndReport> endToEnd; ///< Empty: nobody was tried in the whole run.
  std::uint64_t arenaBytes = 0;
  std::uint64_t arenaLowerBoundBytes = 0;
  double seconds = 0;

  /// Sum over every launch of the model; nothing when a kernel is untimed.
  std::optional<double> totalUs() const;
};

/// {device, kernels: [{name, ops, template, config, regime, bound_us, measured_us, roofline_percent,
/// candidates, failed, ruled_out, stop, advice, from_cache}], end_to_end: {us, alone_us, tried, taken}, arena_bytes,
/// arena_lower_bound_bytes, total_us, seconds}, indented; measured_us, roofline_percent, end_to_end and total_us are
/// null where nothing was timed.
std::string toJson(const TuneReport &report);

/// A table at most 100 columns wide, a row per kernel, with notes below on what was cut, untimed or
/// found in the store. `colour` adds ANSI colours (the caller honours NO_COLOR and a missing terminal).
std::string toTable(const TuneReport &report, bool colour);

} // namespace kfuse::tuner
