#include "runtime/pack/Pack.h"

#include <algorithm>
#include <map>

namespace kfuse::runtime {
namespace {

/// Gathers sections, each content once. The manifest comes first.
class Sections {
public:
  PackedProgram add(Program program) {
    PackedProgram packed;
    for (ProgramKernel &kernel : program.kernels) {
      packed.code.push_back(add(SectionKind::Code, std::move(kernel.binary.image)));
      kernel.binary = {};
      kernel.plan.source.clear();
      kernel.plan.options.clear();
    }
    packed.section = add(SectionKind::Program, program.serialise());
    return packed;
  }

  /// The section of a parameter's bytes, 0 of none. They stay where they are.
  std::uint32_t addWeights(std::span<const std::byte> bytes) {
    if (bytes.empty())
      return 0;
    sections.push_back({SectionKind::Weights, bytes});
    return static_cast<std::uint32_t>(sections.size() - 1);
  }

  std::vector<std::byte> write(const std::vector<std::byte> &manifest) {
    sections.front().bytes = manifest;
    return writePackFile(sections);
  }

private:
  std::uint32_t add(SectionKind kind, std::vector<std::byte> bytes) {
    const auto next = static_cast<std::uint32_t>(sections.size());
    const auto [found, isNew] = known.try_emplace({kind, std::move(bytes)}, next);
    if (isNew)
      sections.push_back({kind, found->first.second});
    return found->second;
  }

  std::map<std::pair<SectionKind, std::vector<std::byte>>, std::uint32_t> known; ///< Content to its number.
  std::vector<Section> sections{1};
};

bool sameKind(const TensorDesc &a, const TensorDesc &b) { return a.type == b.type && a.shape == b.shape; }

bool holds(const std::vector<TensorDesc> &tensors, const TensorDesc &wanted) {
  return std::ranges::any_of(
      tensors, [&](const TensorDesc &tensor) { return tensor.name == wanted.name && sameKind(tensor, wanted); });
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

std::vector<std::byte> writePack(PackContents contents) {
  Sections sections;
  for (auto &[variant, programs] : contents.variants) {
    variant.main = sections.add(std::move(programs.main));
    variant.prepare.clear();
    if (programs.prepare)
      variant.prepare.push_back(sections.add(std::move(*programs.prepare)));
    contents.manifest.variants.push_back(std::move(variant));
  }
  for (std::span<const std::byte> bytes : contents.weights)
    contents.manifest.weights.push_back(sections.addWeights(bytes));
  return sections.write(contents.manifest.serialise());
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

Result<VariantPrograms> Pack::load(std::size_t index) const {
  const PackVariant &variant = contents.variants[index];
  VariantPrograms programs;
  Result<Program> main = loadProgram(variant.main, variant);
  if (!main)
    return main.error();
  programs.main = std::move(*main);
  for (const PackedProgram &packed : variant.prepare) {
    Result<Program> prepare = loadProgram(packed, variant);
    if (!prepare)
      return prepare.error();
    programs.prepare = std::move(*prepare);
  }
  if (Result<void> fits = checkEdges(programs); !fits)
    return fits.error();
  return programs;
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
  for (const TensorDesc &fixed : argumentsOf(main, Role::Parameter))
    if (!holds(contents.parameters, fixed) && !(programs.prepare && holds(programs.prepare->results, fixed)))
      return sections.damaged("a program takes '" + fixed.name + "', which is no parameter and is not prepared");
  if (programs.prepare)
    for (const TensorDesc &result : programs.prepare->results)
      if (std::ranges::find(contents.parameters, result.name, &TensorDesc::name) != contents.parameters.end())
        return sections.damaged("a program prepares '" + result.name + "', which is a parameter's name");
  if (updatedStatesOf(main) != contents.updatedStates)
    return sections.damaged("a program updates other states than the manifest says");
  if (programs.prepare)
    for (const TensorDesc &argument : programs.prepare->arguments)
      if (!holds(contents.parameters, argument))
        return sections.damaged("a program prepares '" + argument.name + "', which is no parameter");
  return {};
}

bool Pack::holdsWeights() const {
  for (std::size_t i = 0; i < contents.parameters.size(); ++i)
    if (contents.parameters[i].bytes() > 0 && (contents.weights.empty() || contents.weights[i] == 0))
      return false;
  return true;
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
    if (Result<VariantPrograms> loaded = load(i); !loaded)
      return loaded.error();
  return {};
}

} // namespace kfuse::runtime
