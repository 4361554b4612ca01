// The roofline plot: each kernel a dot under the ceilings of its device.
#pragma once

#include "tuner/report/Report.h"

#include <string>

namespace kfuse::tuner {

/// Width and height of a picture, in CSS pixels at its natural size; `styleClass` shows it where it fits.
struct PlotSize {
  double width, height;
  const char *styleClass;
};

/// Log-log: FLOP per byte to the right, FLOP per second up. A dot's area is its kernel's share of the run, its colour
/// the regime; a thin line goes up from it to its bound. Kernels that compute nothing stand at the left edge, at the
/// height their bandwidth has there. Untimed kernels are hollow, at their bound.
std::string rooflinePlot(const TuneReport &report, const PlotSize &size);

} // namespace kfuse::tuner
