// Options that every command on a model has.
#pragma once

#include "kfuse/compiler.h"
#include "runtime/Safetensors.h"

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

namespace kfuse::tools {

struct ModelOptions {
  std::string model;
  std::string target = "auto";
  std::vector<std::string> shapes;     ///< "name=1x128x4096".
  std::vector<std::string> parameters; ///< Globs.
  std::vector<std::string> states;     ///< "past*=present*:4096".
  std::vector<std::string> dims;       ///< "tokens=1..8192".
  std::string histogram;               ///< A file of lengths and how often they come.
  std::string checkpoint;              ///< A folder of config.json and safetensors.
  std::string checkpointPrefix;        ///< In front of the model's names there.
  std::string weights;                 ///< A safetensors file of the parameters.
  std::string store;
  std::string effort = "quick";
  bool noBenchmark = false;
  double budgetSeconds = 0; ///< For all kernels together; 0: no limit.
  int threads = 0;
  bool requireTuned = false;
  bool trustStore = false;
  bool tf32 = false;
  bool noSimplify = false;
  bool json = false;
  std::stop_token stop{}; ///< Ends whatever compiles or measures.

  void addTo(CLI::App &command);
  void addTuningTo(CLI::App &command);
  bool showsProgress() const; ///< On a terminal, where it disturbs no program.
  bool isPack() const;        ///< Whether the model's file begins as packs do.
  Result<Model> load() const;
  /// The file of --weights, which holds every parameter that the model's own file does not; none where none is given.
  /// Usage names the first that is missing, or of another type or shape.
  Result<std::optional<runtime::Safetensors>> openWeights(const Model &model) const;
  /// The histogram of --histogram, for the model's dims(); none where no file is given.
  Result<std::vector<LengthCount>> lengthCounts(const Model &model) const;
  CompileOptions compilation() const;
  Effort tuningEffort() const;
};

/// Takes a number that is not infinity; CLI::PositiveNumber tells the 309 digits of the greatest.
CLI::Validator aboveZero();

/// The words that give `command` the options it was given, but for those `leftOut`, for a process that does the same.
std::vector<std::string> wordsOf(const CLI::App &command, const std::set<std::string> &leftOut);

} // namespace kfuse::tools
