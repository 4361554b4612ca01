// All that a store knows but for machine code: what travels between machines of one kind.
#pragma once

#include "kfuse/error.h"
#include "tuner/record/Choice.h"
#include "tuner/record/Measurement.h"

#include <string>
#include <string_view>
#include <vector>

namespace kfuse::tuner {

struct StoreContents {
  std::vector<Choice> choices;
  std::vector<Measurement> measurements;
  std::vector<StoredPeaks> peaks;
};

/// {format: "kfuse-results", schema, choices: [...], measurements: [...], peaks: [...]}, indented; the keys of a row
/// are the columns of the store.
std::string toJson(const StoreContents &contents);

/// BadModel with one line that says what is wrong and where. Nothing of a file that has one fault is taken.
Result<StoreContents> parseContents(std::string_view json);

/// One row as a JSON object.
std::string toJson(const Choice &choice);
std::string toJson(const Measurement &measurement);

} // namespace kfuse::tuner
