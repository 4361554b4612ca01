#include "kfuse/compiler.h"

#include "tuner/api/Driver.h"
#include "tuner/api/Handles.h"
#include "tuner/api/Lengths.h"
#include "tuner/api/NoThrow.h"

#include <algorithm>

namespace kfuse {

std::vector<int> updatedStates(const runtime::Program &main, std::size_t states) {
  std::vector<int> updated;
  for (int argument : main.resultState) {
    const auto state = argument < 0 ? std::ptrdiff_t(states)
                                    : std::count(main.roles.begin(), main.roles.begin() + argument, Role::State);
    updated.push_back(state < std::ptrdiff_t(states) ? static_cast<int>(state) : -1);
  }
  return updated;
}

namespace {

/// The number of an input by name.
std::size_t inputIndex(const Edges &edges, const std::string &name) {
  return static_cast<std::size_t>(
      std::ranges::find_if(edges.inputs, [&](const TensorDesc &desc) { return desc.name == name; }) -
      edges.inputs.begin());
}

Result<void> compileOne(const Model &model, const CompileOptions &options, Executable::Impl &impl) {
  Result<tuner::TunedModel> tuned = tuner::tuneModel(model, options, {});
  if (!tuned)
    return tuned.error();
  impl.device = std::move(tuned->device);
  impl.programs.push_back({std::move(tuned->compiled)});
  return {};
}

/// The buckets run on one device, and share the time for tuning.
Result<void> compileBuckets(const Model &model, const CompileOptions &options, Executable::Impl &impl) {
  Result<const ir::Target *> target = tuner::resolveTarget(options.target);
  if (!target)
    return target.error();
  Result<tuner::LengthBuckets> buckets = tuner::bucketsOf(model, **target, options.simplify, options.histogram);
  if (!buckets)
    return buckets.error();
  impl.table = buckets->table;
  impl.dims = model.dims();
  CompileOptions each = options;
  each.seconds = options.seconds / static_cast<double>(buckets->buckets.size());
  for (tuner::LengthBucket &bucket : buckets->buckets) {
    tuner::DriverOptions driver;
    driver.runsHere = !impl.device;
    Result<tuner::TunedModel> tuned = tuner::tuneModel(bucket.model, each, driver);
    if (!tuned)
      return tuned.error();
    if (!impl.device)
      impl.device = std::move(tuned->device);
    impl.programs.push_back({std::move(tuned->compiled), std::move(bucket.edges)});
  }
  return {};
}

} // namespace

Result<Executable> detail::compileGuarded(const Model &model, const CompileOptions &options) {
  return withoutThrowing([&]() -> Result<Executable> {
    auto impl = std::make_shared<Executable::Impl>();
    const bool hasLengths = model && !model.internals().dims.empty();
    if (Result<void> made = hasLengths ? compileBuckets(model, options, *impl) : compileOne(model, options, *impl);
        !made)
      return made.error();
    impl->ordinal = impl->compiled().main.target == "cpu" ? -1 : options.device;
    impl->edges = model.internals().edges;
    impl->updatedStates = updatedStates(impl->compiled().main, impl->edges.states.size());
    if (const std::optional<ir::PastLength> &past = model.internals().model.pastLength;
        past && impl->compiled().main.target == "cpu")
      impl->hostPastLength = {inputIndex(impl->edges, past->input), past->most};
    return Executable(std::move(impl));
  });
}

} // namespace kfuse
