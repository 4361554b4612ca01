#include "runtime/pack/PackWriter.h"

#include "runtime/pack/PackFile.h"

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

} // namespace

std::vector<std::byte> writePack(PackContents contents) {
  Sections sections;
  for (auto &[variant, programs] : contents.variants) {
    variant.buckets.clear();
    for (VariantPrograms &bucket : programs) {
      variant.main = sections.add(std::move(bucket.main));
      variant.prepare.clear();
      if (bucket.prepare)
        variant.prepare.push_back(sections.add(std::move(*bucket.prepare)));
      if (!contents.manifest.dims.empty())
        variant.buckets.push_back(
            {variant.main, variant.prepare, std::move(bucket.edges), std::move(bucket.preparedKeys)});
    }
    contents.manifest.variants.push_back(std::move(variant));
  }
  for (std::span<const std::byte> bytes : contents.weights)
    contents.manifest.weights.push_back(sections.addWeights(bytes));
  return sections.write(contents.manifest.serialise());
}

} // namespace kfuse::runtime
