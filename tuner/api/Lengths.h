// A model whose lengths a run gives, as models of buckets: each is imported for its largest lengths and reads those of
// the run.
#pragma once

#include "ir/Target.h"
#include "kfuse/compiler.h"
#include "passes/Lengths.h"
#include "tuner/api/Driver.h"
#include "tuner/api/Handles.h"
#include "tuner/model/Buckets.h"

#include <span>
#include <vector>

namespace kfuse::tuner {

struct LengthBucket {
  std::vector<Dim> lengths;
  Model model; ///< The model at its largest lengths; one graph serves all lengths.
  passes::LengthEdges edges;
};

struct LengthBuckets {
  runtime::BucketTable table;
  std::vector<LengthBucket> buckets; ///< In the table's order.
  std::vector<std::size_t> order;    ///< In which they are planned: the one of half of all runs first.
};

/// The bucket of these lengths. BadModel names the op that cannot be done for lengths that a run gives.
Result<LengthBucket> bucketOf(const Model &model, const std::vector<Dim> &lengths);

/// The buckets that the cost model chooses for a target and lengths that are as frequent as `histogram` says. Where the
/// graph cannot read its lengths and there are few of them, one for each.
Result<LengthBuckets> bucketsOf(const Model &model, const ir::Target &target, bool simplify,
                                std::span<const LengthCount> histogram);

/// For each bucket, or for the one where no run gives lengths.
struct ModelPrograms {
  runtime::BucketTable table;
  std::vector<LengthProgram> programs; ///< In the table's order.
  std::vector<std::size_t> order;      ///< In which they are planned and tuned.
};

/// The programs of several models, tuned.
struct TunedPrograms {
  Workbench bench;
  std::unique_ptr<runtime::Device> device; ///< As TunedModel's.
  std::vector<ModelPrograms> models;
};

/// tuneModels() of the buckets of all models.
Result<TunedPrograms> tunePrograms(std::span<const Model> models, const CompileOptions &options,
                                   const DriverOptions &driver);

} // namespace kfuse::tuner
