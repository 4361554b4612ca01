#include "tuner/api/Lengths.h"

#include "tuner/api/Handles.h"
#include "tuner/model/AllCores.h"
#include "tuner/model/PlannedModel.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>

namespace kfuse::tuner {
namespace {

constexpr std::int64_t fewLengths = 8; ///< So many may each have a program of their own.
/// What estimates do not see of kernels that were chosen for more rows: 3001 tokens of a Llama block took 10 % longer
/// by a program for 8192 than by their own, where they saw 2 %; 1481 took 21 % longer by one for 1792.
constexpr double unseenLoss = 0.06;
constexpr double worthKeeping = 0.001; ///< The share of all runs' time that a program has to save, of one dimension.

std::vector<std::int64_t> highest(const std::vector<Dim> &lengths) {
  std::vector<std::int64_t> sizes;
  for (const Dim &dim : lengths)
    sizes.push_back(dim.high);
  return sizes;
}

mlir::func::FuncOp mainOf(ir::Model &model) { return model.module->lookupSymbol<mlir::func::FuncOp>("main"); }

/// The buckets of these lengths, each imported by a thread.
Result<std::vector<LengthBucket>> importBuckets(const Model &model, const std::vector<std::vector<Dim>> &lengths) {
  std::vector<std::optional<Result<LengthBucket>>> made(lengths.size());
  onAllCores(lengths.size(), [&](std::size_t i) { made[i] = bucketOf(model, lengths[i]); });
  std::vector<LengthBucket> buckets;
  for (std::optional<Result<LengthBucket>> &one : made) {
    if (!*one)
      return one->error();
    buckets.push_back(std::move(**one));
  }
  return buckets;
}

/// What the cost model says of a program for some lengths.
class EstimatedProgram {
public:
  EstimatedProgram() = default;
  explicit EstimatedProgram(const PlannedModel &planned) {
    us = passes::fusionSavings(mlir::func::FuncOp(planned.main.function)).fused.us;
    for (const PlannedKernel &kernel : planned.kernels) {
      if (kernel.uses == 0)
        continue;
      std::vector<codegen::EstimatedConfig> configs = kernel.kernelTemplate->estimated(kernel.region, *planned.target);
      std::ranges::sort(configs);
      const bool ends = kernel.kernelTemplate->endsWithRun(kernel.region, configs.front().config);
      kernels.push_back({kernel.region.ops, kernel.kernelTemplate, kernel.uses, ends, std::move(configs)});
    }
  }

  /// A run of its largest lengths.
  double ownUs() const { return us; }
  /// The same by the program of longer ones. Its kernels keep their configs and compute no more than they have to, as
  /// far as they can end with the run; which kernels are the same is told by their ops.
  double usBy(const EstimatedProgram &longer) const {
    double own = 0, there = 0;
    std::map<std::string, std::size_t> seen; // How many kernels have these ops.
    for (const Kernel &kernel : kernels) {
      std::size_t number = seen[kernel.ops]++;
      auto same = std::ranges::find_if(longer.kernels,
                                       [&](const Kernel &other) { return other.ops == kernel.ops && number-- == 0; });
      if (same == longer.kernels.end())
        continue;
      own += kernel.uses * kernel.configs.front().us;
      there += kernel.uses * std::max(kernel.configs.front().us, kernel.usBy(*same));
    }
    return own > 0 ? us * there / own : longer.us;
  }

private:
  struct Kernel {
    std::string ops;
    const codegen::KernelTemplate *kernelTemplate;
    int uses;
    bool endsWithRun;                              ///< By its fastest config.
    std::vector<codegen::EstimatedConfig> configs; ///< The fastest first.

    double usBy(const Kernel &longer) const {
      const codegen::EstimatedConfig &chosen = longer.configs.front();
      auto same = std::ranges::find_if(configs, [&](const codegen::EstimatedConfig &one) {
        return kernelTemplate->kind(one.config) == kernelTemplate->kind(chosen.config);
      });
      const bool ends = longer.endsWithRun && longer.kernelTemplate == kernelTemplate && same != configs.end();
      return ends ? same->us : chosen.us;
    }
  };

  double us = 0;
  std::vector<Kernel> kernels;
};

/// The rungs of one dimension, all others at their largest.
Result<std::vector<std::int64_t>> rungsOf(const Model &model, std::size_t dim, const ir::Target &target, bool simplify,
                                          std::span<const LengthCount> histogram) {
  const std::vector<Dim> &lengths = model.dims();
  const std::int64_t low = lengths[dim].low;
  const std::vector<std::int64_t> rungs = ladder(low, lengths[dim].high);
  if (rungs.size() == 1)
    return rungs;
  std::vector<std::vector<Dim>> each(rungs.size(), lengths);
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    each[i][dim].low = i == 0 ? low : rungs[i - 1] + 1;
    each[i][dim].high = rungs[i];
  }
  Result<std::vector<LengthBucket>> buckets = importBuckets(model, each);
  if (!buckets)
    return buckets.error();
  const std::vector<double> weights = weightsOf(rungs, low, dim, histogram);
  const std::vector<std::size_t> order = planningOrder(rungs.size(), medianOf(weights));
  std::vector<mlir::ModuleOp> modules;
  for (std::size_t i : order)
    modules.push_back(*(*buckets)[i].model.internals().model.module);
  Result<std::vector<PlannedModel>> planned = planModels(modules, target, simplify);
  if (!planned)
    return planned.error();
  std::vector<EstimatedProgram> programs(rungs.size());
  onAllCores(rungs.size(), [&](std::size_t i) { programs[order[i]] = EstimatedProgram((*planned)[i]); });
  // Programs are as many as all dimensions' rungs multiply to.
  const double worth = worthKeeping * std::pow(10, static_cast<double>(lengths.size() - 1));
  return mergeRungs(rungs, weights, worth, [&](std::size_t rung, std::size_t top) {
    const double share = static_cast<double>(rungs[rung]) / static_cast<double>(rungs[top]);
    return rung == top ? programs[rung].ownUs() : programs[rung].usBy(programs[top]) * (1 + unseenLoss * (1 - share));
  });
}

std::int64_t countOf(const std::vector<Dim> &dims) {
  std::int64_t count = 1;
  for (const Dim &dim : dims)
    count *= std::min(dim.high - dim.low, fewLengths) + 1;
  return count;
}

Result<std::vector<std::vector<std::int64_t>>> chooseRungs(const Model &model, const ir::Target &target, bool simplify,
                                                           std::span<const LengthCount> histogram) {
  std::vector<std::vector<std::int64_t>> rungs;
  Result<LengthBucket> whole = bucketOf(model, model.dims());
  if (!whole && (whole.error().code != ErrorCode::BadModel || countOf(model.dims()) > fewLengths))
    return whole.error();
  for (std::size_t dim = 0; dim < model.dims().size(); ++dim) {
    if (!whole) {
      std::vector<std::int64_t> &all = rungs.emplace_back(model.dims()[dim].high - model.dims()[dim].low + 1);
      std::iota(all.begin(), all.end(), model.dims()[dim].low);
      continue;
    }
    Result<std::vector<std::int64_t>> chosen = rungsOf(model, dim, target, simplify, histogram);
    if (!chosen)
      return chosen.error();
    rungs.push_back(std::move(*chosen));
  }
  return rungs;
}

/// The bucket of lengths that half of all runs exceed.
std::size_t middleOf(const runtime::BucketTable &table, const std::vector<Dim> &dims,
                     std::span<const LengthCount> histogram) {
  std::vector<std::int64_t> lengths;
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    const std::vector<std::int64_t> &rungs = table.all()[dim];
    lengths.push_back(rungs[medianOf(weightsOf(rungs, dims[dim].low, dim, histogram))]);
  }
  return table.find(lengths).value();
}

runtime::LengthAxes plain(const passes::Axes &axes) {
  runtime::LengthAxes made;
  for (const passes::Axis &axis : axes) {
    std::vector<runtime::LengthFactor> &factors = made.emplace_back();
    for (const passes::Factor &factor : axis.factors())
      factors.push_back({factor.size, factor.dim, factor.times, factor.plus});
  }
  return made;
}

runtime::LengthEdges plain(const passes::LengthEdges &edges) {
  runtime::LengthEdges made{edges.readsLengths, edges.storedInPlace, {}, {}};
  std::ranges::transform(edges.inputs, std::back_inserter(made.inputs), [](const passes::Axes &a) { return plain(a); });
  std::ranges::transform(edges.results, std::back_inserter(made.results),
                         [](const passes::Axes &a) { return plain(a); });
  return made;
}

Result<void> checkHistogram(const std::vector<Dim> &dims, std::span<const LengthCount> histogram) {
  for (const LengthCount &one : histogram) {
    if (Result<void> inside = runtime::checkLengths(dims, one.lengths); !inside)
      return Error{inside.error().code, "the histogram: " + inside.error().message};
    if (!(one.count >= 0))
      return Error{ErrorCode::Usage, "the histogram has a count of " + std::to_string(one.count) + "; give 0 or more"};
  }
  return {};
}

} // namespace

Result<LengthBucket> bucketOf(const Model &model, const std::vector<Dim> &lengths) {
  const Model::Impl &impl = model.internals();
  std::shared_ptr<mlir::MLIRContext> context = newContext();
  Result<ir::Model> base = impl.importAt(highest(lengths), *context);
  if (!base)
    return base.error();
  std::vector<passes::Length> named;
  std::vector<passes::LengthProbe> probes;
  std::vector<ir::Model> others; // Whose functions the probes are.
  for (std::size_t dim = 0; dim < lengths.size(); ++dim) {
    named.push_back({lengths[dim].name, lengths[dim].low, lengths[dim].high});
    if (named.back().isFixed())
      continue;
    const auto [first, second] = passes::probeSizes(lengths[dim].high);
    for (std::int64_t size : {first, second}) {
      std::vector<std::int64_t> sizes = highest(lengths);
      sizes[dim] = size;
      Result<ir::Model> other = impl.importAt(sizes, *context);
      if (!other)
        return other.error();
      probes.push_back({static_cast<unsigned>(dim), size, mainOf(*other)});
      others.push_back(std::move(*other));
    }
  }
  Result<passes::LengthEdges> edges = passes::readLengths(mainOf(*base), named, probes);
  if (!edges)
    return edges.error();
  others.clear();
  return LengthBucket{lengths, wrap(std::move(context), std::move(*base)), std::move(*edges)};
}

Result<LengthBuckets> bucketsOf(const Model &model, const ir::Target &target, bool simplify,
                                std::span<const LengthCount> histogram) {
  if (Result<void> valid = checkHistogram(model.dims(), histogram); !valid)
    return valid.error();
  Result<std::vector<std::vector<std::int64_t>>> rungs = chooseRungs(model, target, simplify, histogram);
  if (!rungs)
    return rungs.error();
  Result<runtime::BucketTable> table = runtime::BucketTable::make(model.dims(), std::move(*rungs));
  if (!table)
    return table.error();
  std::vector<std::vector<Dim>> lengths;
  for (std::size_t i = 0; i < table->size(); ++i)
    lengths.push_back(table->lengths(i));
  Result<std::vector<LengthBucket>> buckets = importBuckets(model, lengths);
  if (!buckets)
    return buckets.error();
  std::vector<std::size_t> order = planningOrder(table->size(), middleOf(*table, model.dims(), histogram));
  return LengthBuckets{std::move(*table), std::move(*buckets), std::move(order)};
}

namespace {

/// The places of a model's programs, with what is known of them before they are compiled, and their models behind those
/// of `all`, in the order in which they are planned.
Result<ModelPrograms> addPrograms(const Model &model, const CompileOptions &options, std::vector<Model> &all) {
  ModelPrograms made;
  if (!model || model.dims().empty()) {
    all.push_back(model);
    made.programs.emplace_back();
    made.order = {0};
    return made;
  }
  Result<const ir::Target *> target = resolveTarget(options.target);
  if (!target)
    return target.error();
  Result<LengthBuckets> buckets = bucketsOf(model, **target, options.simplify, options.histogram);
  if (!buckets)
    return buckets.error();
  made.table = std::move(buckets->table);
  for (const LengthBucket &bucket : buckets->buckets)
    made.programs.push_back({{}, plain(bucket.edges)});
  made.order = std::move(buckets->order);
  for (std::size_t i : made.order)
    all.push_back(buckets->buckets[i].model);
  return made;
}

} // namespace

Result<TunedPrograms> tunePrograms(std::span<const Model> models, const CompileOptions &options,
                                   const DriverOptions &driver) {
  TunedPrograms made;
  std::vector<Model> all;
  for (const Model &model : models) {
    Result<ModelPrograms> programs = addPrograms(model, options, all);
    if (!programs)
      return programs.error();
    made.models.push_back(std::move(*programs));
  }
  Result<TunedModels> tuned = tuneModels(all, options, driver);
  if (!tuned)
    return tuned.error();
  made.bench = std::move(tuned->bench);
  made.device = std::move(tuned->device);
  auto next = tuned->compiled.begin();
  for (ModelPrograms &programs : made.models)
    for (std::size_t i : programs.order)
      programs.programs[i].compiled = std::move(*next++);
  return made;
}

} // namespace kfuse::tuner
