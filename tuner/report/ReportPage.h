// `kfuse tune --report`: one HTML file that needs nothing else; and its roofline plot as a file of its own.
#pragma once

#include "tuner/record/Measurement.h"
#include "tuner/report/Report.h"

#include <span>
#include <string>
#include <vector>

namespace kfuse::tuner {

/// The roofline plot, the time line of a run, the search curves and the table. `trials` holds the measurements of each
/// kernel of the report, in the order in which they were begun.
std::string toHtml(const TuneReport &report, const std::string &model,
                   std::span<const std::vector<Measurement>> trials);

/// The roofline plot alone, as an SVG file with the page's style inside.
std::string rooflineFile(const TuneReport &report);

} // namespace kfuse::tuner
