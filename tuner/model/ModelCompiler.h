// From a planned model to programs: tunes each distinct kernel, then builds @main and @prepare.
#pragma once

#include "runtime/Program.h"
#include "tuner/model/PlannedModel.h"
#include "tuner/search/Tuner.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::tuner {

struct CompiledModel {
  runtime::Program main;
  std::optional<runtime::Program> prepare; ///< Parameters in, prepared values out.
  std::vector<std::string> preparedKeys{}; ///< A key for each prepared value; programs share values of equal keys.
  TuneReport report;
  std::string compiler{}; ///< KernelCompiler::version().
};

/// The model must have been planned for the context's target.
Result<CompiledModel> compileModel(const PlannedModel &model, const TuningContext &context);
/// Several programs, whose kernels are tuned as if they were one's. Where a program has a kernel of the same ops as one
/// before it, a few candidates beside that one's winner do. The seconds of each report are those of all.
Result<std::vector<CompiledModel>> compileModels(std::span<const PlannedModel> models, const TuningContext &context);

/// The work of a region, for its roofline.
Work workOf(const codegen::Region &region);

} // namespace kfuse::tuner
