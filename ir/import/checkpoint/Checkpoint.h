// A folder as transformers saves a model: config.json and files of weights.
#pragma once

#include "ir/import/checkpoint/Scheme.h"

#include <mutex>
#include <tuple>

namespace kfuse::ir {

class Checkpoint {
public:
  /// Opens the files of `folder`: those of model.safetensors.index.json, else model.safetensors, else all of them.
  /// Io, or BadModel for what is broken in them or quantised in a way that kfuse does not read.
  static Result<std::shared_ptr<const Checkpoint>> open(const std::string &folder, const checkpoint::ReadTensors &read);
  /// The same of a config's text and the tensors of one file; `name` is what errors call it.
  static Result<std::shared_ptr<const Checkpoint>> parse(std::string_view config, checkpoint::StoredTensors tensors,
                                                         std::string name);

  const std::string &name() const { return title; }
  /// Names of its tensors.
  std::vector<std::string> tensors() const;
  bool holds(std::string_view tensor) const { return stored.contains(tensor); }
  /// A tensor as it is stored. BadModel for one of a type that kfuse has not.
  Result<ParameterData> tensor(std::string_view name) const;

  /// Whether the layer's weight is stored as something else than `layer`.weight.
  bool quantises(std::string_view layer) const;
  /// The weight [n, k] of a layer that it quantises. Read once, and kept.
  Result<std::shared_ptr<const checkpoint::QuantisedMatrix>> matrix(const std::string &layer, std::int64_t n,
                                                                    std::int64_t k) const;

private:
  explicit Checkpoint(std::string title) : title(std::move(title)) {}
  checkpoint::Layer layer(std::string_view name) const;
  void add(checkpoint::StoredTensors tensors);
  void openFiles(const checkpoint::ReadTensors &read);

  std::string title;
  checkpoint::Scheme scheme;
  checkpoint::StoredTensors stored;
  mutable std::mutex reading;
  mutable std::map<std::tuple<std::string, std::int64_t, std::int64_t>,
                   std::shared_ptr<const checkpoint::QuantisedMatrix>>
      matrices;
};

} // namespace kfuse::ir
