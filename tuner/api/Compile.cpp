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

} // namespace

Result<Executable> detail::compileGuarded(const Model &model, const CompileOptions &options) {
  return withoutThrowing([&]() -> Result<Executable> {
    Result<tuner::TunedPrograms> tuned = tuner::tunePrograms(model, options, {});
    if (!tuned)
      return tuned.error();
    auto impl = std::make_shared<Executable::Impl>();
    impl->device = std::move(tuned->device);
    impl->programs = std::move(tuned->programs);
    impl->table = std::move(tuned->table);
    impl->dims = model.internals().dims;
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
