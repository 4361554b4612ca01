// A pack: a model compiled for several kinds of devices, in one file.
#pragma once

#include "runtime/Program.h"
#include "runtime/pack/Manifest.h"
#include "runtime/pack/PackFile.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kfuse::runtime {

/// The programs of a variant. A variant's own `main` and `prepare` say where they lie in a file.
struct VariantPrograms {
  Program main;
  std::optional<Program> prepare;
};

/// What a pack is made of: each variant with its programs.
struct PackContents {
  Manifest manifest; ///< Without variants and weights.
  /// Per parameter: its bytes, or none where the caller of a run gives them. Empty where he gives all.
  std::vector<std::span<const std::byte>> weights{};
  std::vector<std::pair<PackVariant, VariantPrograms>> variants;
};

/// The bytes of a pack. Kernels of several programs that are the same lie in it once, and without their sources.
std::vector<std::byte> writePack(PackContents contents);

/// A pack that is open to be read. Immutable; threads may share it.
class Pack {
public:
  /// Io for what cannot be read, BadModel for what is no whole pack.
  static Result<Pack> open(const std::string &path);
  /// `bytes` must outlive the pack; `name` is what errors call them.
  static Result<Pack> parse(std::span<const std::byte> bytes, std::string name);

  const Manifest &manifest() const { return contents; }
  const PackFile &file() const { return sections; }
  /// The programs of a variant; BadModel for damage, or where they do not fit the manifest.
  Result<VariantPrograms> load(std::size_t variant) const;
  /// Whether it holds the bytes of every parameter that is not empty.
  bool holdsWeights() const;
  /// The bytes of a parameter in the pack, none where the caller gives them; BadModel for another size. Their seal is
  /// for verify(): it takes 3 s a GB.
  Result<std::span<const std::byte>> weights(std::size_t parameter) const;
  /// Whether the whole file is right, each variant included.
  Result<void> verify() const;

private:
  Pack(PackFile sections, Manifest contents) : sections(std::move(sections)), contents(std::move(contents)) {}
  static Result<Pack> read(Result<PackFile> sections);
  Result<Program> loadProgram(const PackedProgram &packed, const PackVariant &variant) const;
  Result<void> checkEdges(const VariantPrograms &programs) const;

  PackFile sections;
  Manifest contents;
};

} // namespace kfuse::runtime
