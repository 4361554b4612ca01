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

void finish(const Model &model, const CompileOptions &options, Executable::Impl &impl) {
  const runtime::Program &main = impl.compiled().main;
  impl.ordinal = main.target == "cpu" ? -1 : options.device;
  impl.edges = model.internals().edges;
  impl.updatedStates = updatedStates(main, impl.edges.states.size());
  if (const std::optional<ir::PastLength> &past = model.internals().model.pastLength; past && main.target == "cpu")
    impl.hostPastLength = {inputIndex(impl.edges, past->input), past->most};
}

Result<std::vector<Executable>> compileAll(std::span<const Model> models, const CompileOptions &options) {
  Result<tuner::TunedPrograms> tuned = tuner::tunePrograms(models, options, {});
  if (!tuned)
    return tuned.error();
  const std::shared_ptr<runtime::Device> device = std::move(tuned->device);
  std::vector<Executable> executables;
  for (std::size_t i = 0; i < models.size(); ++i) {
    auto impl = std::make_shared<Executable::Impl>();
    impl->device = device;
    impl->programs = std::move(tuned->models[i].programs);
    impl->table = std::move(tuned->models[i].table);
    impl->dims = models[i].dims();
    finish(models[i], options, *impl);
    executables.emplace_back(std::move(impl));
  }
  return executables;
}

} // namespace

Result<std::vector<Executable>> detail::compileGuarded(std::span<const Model> models, const CompileOptions &options) {
  return withoutThrowing([&] { return compileAll(models, options); });
}

} // namespace kfuse
