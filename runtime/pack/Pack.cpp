#include "runtime/pack/Pack.h"

#include <algorithm>
#include <ranges>

namespace kfuse::runtime {
namespace {

bool sameKind(const TensorDesc &a, const TensorDesc &b) { return a.type == b.type && a.shape == b.shape; }

bool holds(const std::vector<TensorDesc> &tensors, const TensorDesc &wanted) {
  return std::ranges::any_of(
      tensors, [&](const TensorDesc &tensor) { return tensor.name == wanted.name && sameKind(tensor, wanted); });
}

/// Whether a program's state is the caller's, or as many of its first rows as the program's longest run has.
bool liesIn(const TensorDesc &state, const TensorDesc &callers) {
  return state.type == callers.type && state.shape.size() == callers.shape.size() &&
         (state.shape == callers.shape ||
          (state.shape[0] <= callers.shape[0] &&
           std::ranges::equal(state.shape | std::views::drop(1), callers.shape | std::views::drop(1))));
}

/// Those of main's arguments that have `role`, in order.
std::vector<TensorDesc> argumentsOf(const Program &main, Role role) {
  std::vector<TensorDesc> found;
  for (std::size_t i = 0; i < main.arguments.size(); ++i)
    if (main.roles[i] == role)
      found.push_back(main.arguments[i]);
  return found;
}

/// Per result of main: the number, among the states, of the one that it is, or -1.
std::vector<std::int32_t> updatedStatesOf(const Program &main) {
  std::vector<std::int32_t> updated;
  for (int argument : main.resultState) // validate() saw that it is a state.
    updated.push_back(argument < 0 ? -1
                                   : static_cast<std::int32_t>(
                                         std::count(main.roles.begin(), main.roles.begin() + argument, Role::State)));
  return updated;
}

bool areSameKinds(const std::vector<TensorDesc> &a, const std::vector<TensorDesc> &b) {
  return std::ranges::equal(a, b, sameKind);
}

} // namespace

std::vector<const Program *> mainsOf(std::span<const VariantPrograms> programs) {
  std::vector<const Program *> mains;
  for (const VariantPrograms &bucket : programs)
    mains.push_back(&bucket.main);
  return mains;
}

Result<Pack> Pack::open(const std::string &path) { return read(PackFile::open(path)); }

Result<Pack> Pack::parse(std::span<const std::byte> bytes, std::string name) {
  return read(PackFile::parse(bytes, std::move(name)));
}

Result<Pack> Pack::read(Result<PackFile> sections) {
  if (!sections)
    return sections.error();
  Result<std::vector<std::byte>> bytes = sections->read(0, SectionKind::Manifest);
  if (!bytes)
    return bytes.error();
  Result<Manifest> manifest = Manifest::deserialise(*bytes);
  if (!manifest)
    return sections->damaged(manifest.error().message);
  return Pack(std::move(*sections), std::move(*manifest));
}

Result<BucketTable> Pack::table(std::size_t variant) const {
  const PackVariant &described = contents.variants[variant];
  Result<BucketTable> made = BucketTable::make(contents.dims, described.rungs);
  if (!made || (!contents.dims.empty() && made->size() != described.buckets.size()))
    return sections.damaged(described.title() + " leaves lengths out");
  return made;
}

Result<VariantPrograms> Pack::load(std::size_t index, std::size_t bucket) const {
  const PackVariant &variant = contents.variants[index];
  const bool hasLengths = !contents.dims.empty();
  const PackedBucket packed =
      hasLengths ? variant.buckets[bucket] : PackedBucket{variant.main, variant.prepare, {}, {}};
  VariantPrograms programs;
  programs.edges = packed.edges;
  programs.preparedKeys = packed.preparedKeys;
  Result<Program> main = loadProgram(packed.main, variant);
  if (!main)
    return main.error();
  programs.main = std::move(*main);
  for (const PackedProgram &one : packed.prepare) {
    Result<Program> prepare = loadProgram(one, variant);
    if (!prepare)
      return prepare.error();
    programs.prepare = std::move(*prepare);
  }
  if (programs.prepare && !hasLengths)
    for (const TensorDesc &result : programs.prepare->results)
      programs.preparedKeys.push_back(result.name);
  Result<void> fits = checkParameters(programs);
  if (fits && hasLengths) {
    Result<BucketTable> buckets = table(index);
    fits = buckets ? checkLengthEdges(programs, buckets->lengths(bucket)) : buckets.error();
  } else if (fits) {
    fits = checkEdges(programs);
  }
  return fits ? Result(std::move(programs)) : fits.error();
}

Result<std::vector<VariantPrograms>> Pack::loadAll(std::size_t variant) const {
  std::vector<VariantPrograms> all;
  Result<BucketTable> buckets = table(variant);
  if (!buckets)
    return buckets.error();
  for (std::size_t bucket = 0; bucket < buckets->size(); ++bucket) {
    Result<VariantPrograms> programs = load(variant, bucket);
    if (!programs)
      return programs.error();
    all.push_back(std::move(*programs));
  }
  return all;
}

Result<Program> Pack::loadProgram(const PackedProgram &packed, const PackVariant &variant) const {
  Result<std::vector<std::byte>> bytes = sections.read(packed.section, SectionKind::Program);
  if (!bytes)
    return bytes.error();
  Result<Program> program = Program::deserialise(*bytes);
  if (!program)
    return sections.damaged(program.error().message);
  if (program->target != variant.target)
    return sections.damaged("a program is for " + program->target + ", its variant for " + variant.target);
  if (program->kernels.size() != packed.code.size())
    return sections.damaged("a program has " + std::to_string(program->kernels.size()) + " kernels, and code of " +
                            std::to_string(packed.code.size()));
  for (std::size_t i = 0; i < packed.code.size(); ++i) {
    Result<std::vector<std::byte>> code = sections.read(packed.code[i], SectionKind::Code);
    if (!code)
      return code.error();
    program->kernels[i].binary.image = std::move(*code);
  }
  return program;
}

/// Who binds tensors relies on it.
Result<void> Pack::checkEdges(const VariantPrograms &programs) const {
  const Program &main = programs.main;
  if (!areSameKinds(argumentsOf(main, Role::Input), contents.inputs) ||
      !areSameKinds(argumentsOf(main, Role::State), contents.states) || !areSameKinds(main.results, contents.outputs))
    return sections.damaged("a program takes other tensors than the manifest says");
  if (updatedStatesOf(main) != contents.updatedStates)
    return sections.damaged("a program updates other states than the manifest says");
  return {};
}

/// The same of a program whose tensors follow lengths: behind its inputs come the lengths, behind its states the
/// outputs that are stored in place.
Result<void> Pack::checkLengthEdges(const VariantPrograms &programs, const std::vector<Dim> &lengths) const {
  const auto &[main, prepare, edges, keys] = programs;
  std::vector<std::int64_t> lowest, highest;
  for (const Dim &dim : lengths) {
    lowest.push_back(dim.low);
    highest.push_back(dim.high);
  }
  std::vector<TensorDesc> inputs = argumentsOf(main, Role::Input), states = argumentsOf(main, Role::State);
  std::vector<std::int32_t> updated = updatedStatesOf(main);
  const TensorDesc asRead{"", DType::I64, {std::int64_t(lengths.size())}};
  bool fits = !edges.readsLengths || (!inputs.empty() && sameKind(inputs.back(), asRead));
  if (fits && edges.readsLengths)
    inputs.pop_back();
  fits = fits && inputs.size() == contents.inputs.size() && states.size() >= contents.states.size() &&
         main.results.size() == contents.outputs.size();
  auto follows = [&](const LengthAxes &axes, const TensorDesc &tensor) {
    return !std::ranges::any_of(shapeAt(axes, lowest), [](std::int64_t size) { return size < 0; }) &&
           elementCount(shapeAt(axes, highest)) == elementCount(tensor.shape);
  };
  for (std::size_t i = 0; fits && i < inputs.size(); ++i)
    fits = inputs[i].type == contents.inputs[i].type && follows(edges.inputs[i], inputs[i]) &&
           edges.inputs[i].size() == contents.inputs[i].shape.size();
  for (std::size_t i = 0; fits && i < contents.states.size(); ++i)
    fits = liesIn(states[i], contents.states[i]);
  auto stored = static_cast<std::int32_t>(contents.states.size());
  for (std::size_t i = 0; fits && i < main.results.size(); ++i)
    fits = main.results[i].type == contents.outputs[i].type && follows(edges.results[i], main.results[i]) &&
           edges.results[i].size() == contents.outputs[i].shape.size() &&
           updated[i] == (edges.storedInPlace[i] ? stored++ : contents.updatedStates[i]);
  if (!fits || static_cast<std::size_t>(stored) != states.size())
    return sections.damaged("a program for " + rangesOf(lengths) + " takes other tensors than the manifest says");
  return {};
}

/// Parameters of main are the manifest's, or prepared from them.
Result<void> Pack::checkParameters(const VariantPrograms &programs) const {
  for (const TensorDesc &fixed : argumentsOf(programs.main, Role::Parameter))
    if (!holds(contents.parameters, fixed) && !(programs.prepare && holds(programs.prepare->results, fixed)))
      return sections.damaged("a program takes '" + fixed.name + "', which is no parameter and is not prepared");
  if (!programs.prepare)
    return {};
  for (const TensorDesc &result : programs.prepare->results)
    if (std::ranges::find(contents.parameters, result.name, &TensorDesc::name) != contents.parameters.end())
      return sections.damaged("a program prepares '" + result.name + "', which is a parameter's name");
  for (const TensorDesc &argument : programs.prepare->arguments)
    if (!holds(contents.parameters, argument))
      return sections.damaged("a program prepares '" + argument.name + "', which is no parameter");
  if (!contents.dims.empty() && programs.preparedKeys.size() != programs.prepare->results.size())
    return sections.damaged("a program prepares values that are not told apart");
  return {};
}

bool Pack::holdsWeights() const {
  for (std::size_t i = 0; i < contents.parameters.size(); ++i)
    if (contents.parameters[i].bytes() > 0 && !comesWith(i))
      return false;
  return true;
}

bool Pack::comesWith(std::size_t parameter) const {
  return (!contents.weights.empty() && contents.weights[parameter] != 0) || !contents.sealOf(parameter).empty();
}

Result<std::span<const std::byte>> Pack::weights(std::size_t parameter) const {
  const std::uint32_t section = contents.weights.empty() ? 0 : contents.weights[parameter];
  if (section == 0)
    return std::span<const std::byte>();
  Result<std::span<const std::byte>> bytes = sections.peek(section, SectionKind::Weights);
  const TensorDesc &desc = contents.parameters[parameter];
  if (bytes && bytes->size() != desc.bytes())
    return sections.damaged("the bytes of '" + desc.name + "' are " + std::to_string(bytes->size()) + ", expected " +
                            std::to_string(desc.bytes()));
  return bytes;
}

Result<void> Pack::verify() const {
  if (Result<void> sealed = sections.verify(); !sealed)
    return sealed;
  for (std::size_t i = 0; i < contents.parameters.size(); ++i)
    if (Result<std::span<const std::byte>> bytes = weights(i); !bytes)
      return bytes.error();
  for (std::size_t i = 0; i < contents.variants.size(); ++i)
    if (Result<std::vector<VariantPrograms>> loaded = loadAll(i); !loaded)
      return loaded.error();
  return {};
}

} // namespace kfuse::runtime
