#include "kfuse/compiler.h"

#include "tuner/api/Driver.h"
#include "tuner/api/Handles.h"
#include "tuner/api/NoThrow.h"

#include <algorithm>

namespace kfuse {
namespace {

/// Per result: its state's number among the states, or -1.
std::vector<int> updatedStates(const runtime::Program &main) {
  std::vector<int> updated;
  for (int argument : main.resultState)
    updated.push_back(
        argument < 0 ? -1
                     : static_cast<int>(std::count(main.roles.begin(), main.roles.begin() + argument, Role::State)));
  return updated;
}

/// The number of an input by name.
std::size_t inputIndex(const Edges &edges, const std::string &name) {
  return static_cast<std::size_t>(
      std::ranges::find_if(edges.inputs, [&](const TensorDesc &desc) { return desc.name == name; }) -
      edges.inputs.begin());
}

} // namespace

Result<Executable> detail::compileGuarded(const Model &model, const CompileOptions &options) {
  return withoutThrowing([&]() -> Result<Executable> {
    Result<tuner::TunedModel> tuned = tuner::tuneModel(model, options, {});
    if (!tuned)
      return tuned.error();
    auto impl = std::make_shared<Executable::Impl>();
    impl->device = std::move(tuned->device);
    impl->compiled = std::move(tuned->compiled);
    impl->ordinal = impl->compiled.main.target == "cpu" ? -1 : options.device;
    impl->edges = model.internals().edges;
    impl->updatedStates = updatedStates(impl->compiled.main);
    if (const std::optional<ir::PastLength> &past = model.internals().model.pastLength;
        past && impl->compiled.main.target == "cpu")
      impl->hostPastLength = {inputIndex(impl->edges, past->input), past->most};
    return Executable(std::move(impl));
  });
}

} // namespace kfuse
