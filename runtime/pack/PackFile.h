// The container of a pack: sealed sections behind a table.
//
//   0   "KFUSEPAK"
//   8   u16 major version, u16 minor version, u32 number of sections
//   16  u64 bytes of the file
//   24  SHA-256 of bytes 0 to 24 and the table
//   64  the table: {u32 kind, u32 0, u64 offset, u64 bytes, SHA-256} of each section
//   ... the sections in this order, each at the next multiple of 256, with zeros in between
//
// Numbers are little-endian. There is one way to write given sections, and bytes of any other are refused.
#pragma once

#include "ir/MappedFile.h"
#include "kfuse/error.h"
#include "runtime/pack/Sha256.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kfuse::runtime {

/// A reader of this version takes every older minor version, and newer ones, of whose sections it skips the kinds that
/// it does not know.
inline constexpr std::uint16_t packMajor = 1, packMinor = 1;

enum class SectionKind : std::uint32_t {
  Manifest = 1, ///< CBOR: pack/Manifest.h. The first section, and the only one of its kind.
  Program = 2,  ///< Program::serialise() without machine code.
  Code = 3,     ///< A cubin, PTX or an object: CompiledKernel::image.
  Weights = 4   ///< A parameter's bytes.
};

struct Section {
  SectionKind kind = SectionKind::Manifest;
  std::span<const std::byte> bytes;
  Sha256 seal{}; ///< What they are to have.
};

/// The bytes of a pack of these sections, whose seals are made here.
std::vector<std::byte> writePackFile(std::span<const Section> sections);

/// A pack whose table has been checked. Sections are checked as they are used.
class PackFile {
public:
  /// Io for a file that cannot be read; BadModel for one that is no pack, is damaged or of another major version.
  static Result<PackFile> open(const std::string &path);
  /// `bytes` must outlive it; `name` is what errors call them.
  static Result<PackFile> parse(std::span<const std::byte> bytes, std::string name);

  std::size_t size() const { return sections.size(); }
  SectionKind kind(std::size_t index) const { return sections[index].kind; }
  std::size_t bytes(std::size_t index) const { return sections[index].bytes.size(); }
  const std::string &fileName() const { return name; }
  /// The bytes of a section of `kind`, whose seal is not looked at; BadModel.
  Result<std::span<const std::byte>> peek(std::size_t index, SectionKind kind) const;
  /// A copy of them that has its seal: what others write to the file later does not change it.
  Result<std::vector<std::byte>> read(std::size_t index, SectionKind kind) const;
  /// Whether a section has its seal; BadModel.
  Result<void> verify(std::size_t index) const { return checkSeal(index, sections[index].bytes); }
  /// Whether every section has; BadModel names one that does not.
  Result<void> verify() const;
  Error damaged(const std::string &what) const;

private:
  Result<void> checkSeal(std::size_t index, std::span<const std::byte> bytes) const;

  std::string name;
  MappedFile file; ///< Empty where the caller holds the bytes.
  std::vector<Section> sections;
};

} // namespace kfuse::runtime
