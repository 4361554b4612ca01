#include "runtime/pack/PackFile.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace kfuse::runtime {
namespace {

constexpr std::string_view magic = "KFUSEPAK";
constexpr std::size_t alignment = 256;
constexpr std::size_t sealOffset = 24, headerBytes = 64, entryBytes = 56;

std::size_t alignedUp(std::size_t offset) { return (offset + alignment - 1) / alignment * alignment; }

template <class Number> Number numberAt(std::span<const std::byte> bytes, std::size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

template <class Value> void put(std::vector<std::byte> &bytes, std::size_t offset, const Value &value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

/// The seal of the header's first fields and the table.
Sha256 sealOf(std::span<const std::byte> file, std::size_t sections) {
  std::vector<std::byte> sealed(file.begin(), file.begin() + sealOffset);
  const auto table = file.subspan(headerBytes, sections * entryBytes);
  sealed.insert(sealed.end(), table.begin(), table.end());
  return sha256(sealed);
}

bool areZeros(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

} // namespace

std::vector<std::byte> writePackFile(std::span<const Section> sections) {
  std::size_t end = headerBytes + sections.size() * entryBytes;
  for (const Section &section : sections)
    end = alignedUp(end) + section.bytes.size();
  std::vector<std::byte> file(end); // Zeros between the sections.
  end = headerBytes + sections.size() * entryBytes;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const std::span<const std::byte> content = sections[i].bytes;
    const std::size_t entry = headerBytes + i * entryBytes, offset = alignedUp(end);
    end = offset + content.size();
    std::ranges::copy(content, file.begin() + std::ptrdiff_t(offset));
    put(file, entry, sections[i].kind);
    put(file, entry + 8, std::uint64_t(offset));
    put(file, entry + 16, std::uint64_t(content.size()));
    put(file, entry + 24, sha256(content));
  }
  std::ranges::copy(std::as_bytes(std::span(magic)), file.begin());
  put(file, 8, packMajor);
  put(file, 10, packMinor);
  put(file, 12, static_cast<std::uint32_t>(sections.size()));
  put(file, 16, std::uint64_t(end));
  put(file, sealOffset, sealOf(file, sections.size()));
  return file;
}

Result<PackFile> PackFile::open(const std::string &path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped)
    return mapped.error();
  Result<PackFile> parsed = parse(mapped->bytes(), path);
  if (parsed)
    parsed->file = std::move(*mapped);
  return parsed;
}

Result<PackFile> PackFile::parse(std::span<const std::byte> bytes, std::string name) {
  PackFile pack;
  pack.name = std::move(name);
  if (bytes.size() < magic.size() || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    return Error{ErrorCode::BadModel,
                 pack.name + " is no pack: its first bytes are not '" + std::string(magic) + "'; kfuse pack makes one"};
  if (bytes.size() < headerBytes)
    return pack.damaged("it has " + std::to_string(bytes.size()) + " bytes, its header alone 64");
  if (const auto major = numberAt<std::uint16_t>(bytes, 8); major != packMajor)
    return Error{ErrorCode::BadModel, pack.name + " is a pack of version " + std::to_string(major) +
                                          ", this kfuse reads version " + std::to_string(packMajor) +
                                          (major > packMajor ? "; use a newer kfuse" : "; make it again")};
  const std::size_t count = numberAt<std::uint32_t>(bytes, 12);
  if (const auto size = numberAt<std::uint64_t>(bytes, 16); size != bytes.size())
    return pack.damaged("it has " + std::to_string(bytes.size()) + " bytes, its header says " + std::to_string(size));
  if (count > (bytes.size() - headerBytes) / entryBytes)
    return pack.damaged("its table of " + std::to_string(count) + " sections does not fit in it");
  if (sealOf(bytes, count) != numberAt<Sha256>(bytes, sealOffset) ||
      !areZeros(bytes.subspan(sealOffset + sizeof(Sha256), headerBytes - sealOffset - sizeof(Sha256))))
    return pack.damaged("its table does not have its seal");
  std::size_t end = headerBytes + count * entryBytes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t entry = headerBytes + i * entryBytes;
    const auto offset = numberAt<std::uint64_t>(bytes, entry + 8), size = numberAt<std::uint64_t>(bytes, entry + 16);
    if (offset != alignedUp(end) || offset > bytes.size() || size > bytes.size() - offset ||
        numberAt<std::uint32_t>(bytes, entry + 4) != 0 || !areZeros(bytes.subspan(end, offset - end)))
      return pack.damaged("section " + std::to_string(i) + " does not lie where it should");
    pack.sections.push_back({SectionKind(numberAt<std::uint32_t>(bytes, entry)), bytes.subspan(offset, size),
                             numberAt<Sha256>(bytes, entry + 24)});
    end = offset + size;
  }
  if (end != bytes.size())
    return pack.damaged("behind its sections are " + std::to_string(bytes.size() - end) + " bytes more");
  return pack;
}

Result<std::span<const std::byte>> PackFile::peek(std::size_t index, SectionKind kind) const {
  if (index >= sections.size() || sections[index].kind != kind)
    return damaged("section " + std::to_string(index) + " is not of the kind that is looked for there");
  return sections[index].bytes;
}

Result<std::vector<std::byte>> PackFile::read(std::size_t index, SectionKind kind) const {
  Result<std::span<const std::byte>> bytes = peek(index, kind);
  if (!bytes)
    return bytes.error();
  std::vector<std::byte> copy(bytes->begin(), bytes->end());
  Result<void> sealed = checkSeal(index, copy);
  return sealed ? Result(std::move(copy)) : sealed.error();
}

Result<void> PackFile::verify() const {
  for (std::size_t i = 0; i < sections.size(); ++i)
    if (Result<void> sealed = checkSeal(i, sections[i].bytes); !sealed)
      return sealed;
  return {};
}

Result<void> PackFile::checkSeal(std::size_t index, std::span<const std::byte> bytes) const {
  if (sha256(bytes) != sections[index].seal)
    return damaged("section " + std::to_string(index) + " does not have its seal");
  return {};
}

Error PackFile::damaged(const std::string &what) const {
  return {ErrorCode::BadModel, name + " is damaged: " + what + "; make or copy the pack again"};
}

} // namespace kfuse::runtime
