// A pack: a model compiled for several kinds of devices, in one file.
#pragma once

#include "runtime/Program.h"
#include "runtime/pack/Manifest.h"
#include "runtime/pack/PackFile.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kfuse::runtime {

/// What runs all of a model, or the lengths of one bucket. A variant says where it lies in a file.
struct VariantPrograms {
  Program main;
  std::optional<Program> prepare;
  LengthEdges edges{};                     ///< Where runs give lengths.
  std::vector<std::string> preparedKeys{}; ///< As PackedBucket's; those of a model without lengths are not kept.
};

/// The main of each.
std::vector<const Program *> mainsOf(std::span<const VariantPrograms> programs);

/// A pack that is open to be read. Immutable; threads may share it.
class Pack {
public:
  /// Io for what cannot be read, BadModel for what is no whole pack.
  static Result<Pack> open(const std::string &path);
  /// `bytes` must outlive the pack; `name` is what errors call them.
  static Result<Pack> parse(std::span<const std::byte> bytes, std::string name);

  const Manifest &manifest() const { return contents; }
  const PackFile &file() const { return sections; }
  /// Which of a variant's buckets takes the lengths of a run. BadModel where its rungs leave some out.
  Result<BucketTable> table(std::size_t variant) const;
  /// The programs of a variant, of a bucket where runs give lengths; BadModel for damage, or where they do not fit the
  /// manifest.
  Result<VariantPrograms> load(std::size_t variant, std::size_t bucket = 0) const;
  /// Those of all its buckets.
  Result<std::vector<VariantPrograms>> loadAll(std::size_t variant) const;
  /// Whether the bytes of a parameter are in it, or in the file that it names.
  bool comesWith(std::size_t parameter) const;
  /// Whether those of every parameter are that is not empty.
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
  Result<void> checkLengthEdges(const VariantPrograms &programs, const std::vector<Dim> &lengths) const;
  Result<void> checkParameters(const VariantPrograms &programs) const;

  PackFile sections;
  Manifest contents;
};

} // namespace kfuse::runtime
