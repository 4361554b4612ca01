// Any bytes, in each of the ways that they may reach a reader of packs: an error, or something that is whole and right
// for the device that it is chosen for. What must never be ends the process.
#include "runtime/host/ObjectCode.h"
#include "runtime/pack/Pack.h"
#include "runtime/pack/PackWriter.h"
#include "runtime/pack/Selection.h"
#include "tests/unit/SamplePack.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

using Bytes = std::span<const std::byte>;

void require(bool holds) {
  if (!holds)
    std::abort();
}

template <class Value> void check(const Result<Value> &read) { require(read || !read.error().message.empty()); }

//===- No wrong variant ----------------------------------------------------------------------===//

const std::array<DeviceKind, 6> &devices() {
  static const std::array<DeviceKind, 6> all{{{"sm_90a", "NVIDIA H200", 132, 232448, 13000, {}},
                                              {"sm_90a", "NVIDIA H20", 78, 232448, 12080, {}},
                                              {"sm_89", "NVIDIA L40S", 142, 101376, 13000, {}},
                                              {"sm_80", "NVIDIA A100", 108, 166912, 13000, {}},
                                              {"sm_120a", "RTX 5090", 170, 101376, 13020, {}},
                                              {"cpu", "a processor", 0, 0, 0, {"avx", "avx2", "fma"}}}};
  return all;
}

/// CUDA's rule once more, for the devices above alone: PTX runs on later devices, a cubin on those of its major
/// version, and what has a letter on its own.
bool isCodeFor(const std::string &target, const std::string &device) {
  int made = 0, capability = 0, length = 0;
  if (std::sscanf(device.c_str(), "sm_%3d", &capability) != 1)
    return target == device;
  const bool isPtx = std::sscanf(target.c_str(), "compute_%3d%n", &made, &length) == 1;
  if (!isPtx && std::sscanf(target.c_str(), "sm_%3d%n", &made, &length) != 1)
    return false;
  if (static_cast<std::size_t>(length) < target.size())
    return made == capability;
  return made > 0 && made <= capability && (isPtx || made / 10 == capability / 10);
}

/// The variant that a device runs, if there is one, is code for it.
std::optional<std::size_t> choiceFor(const DeviceKind &device, const Manifest &manifest) {
  Result<std::size_t> chosen = selectVariant(manifest, device, "");
  check(chosen);
  if (!chosen)
    return std::nullopt;
  const PackVariant &variant = manifest.variants[*chosen];
  require(isCodeFor(variant.target, device.target) && variant.multiprocessors <= device.multiprocessors &&
          variant.sharedBytes <= device.sharedBytes && variant.cuda / 1000 <= device.cuda / 1000 &&
          (!variant.isPtx() || variant.cuda <= device.cuda));
  for (const std::string &feature : variant.features)
    require(std::ranges::find(device.features, feature) != device.features.end());
  return *chosen;
}

/// The programs of what devices choose are of the target that the variant names.
void checkChoices(const Pack &pack) {
  std::set<std::size_t> chosen;
  for (const DeviceKind &device : devices())
    if (const std::optional<std::size_t> variant = choiceFor(device, pack.manifest()))
      chosen.insert(*variant);
  for (const std::size_t variant : chosen) {
    Result<std::vector<VariantPrograms>> programs = pack.loadAll(variant);
    check(programs);
    const std::string &target = pack.manifest().variants[variant].target;
    for (std::size_t i = 0; programs && i < programs->size(); ++i)
      require((*programs)[i].main.target == target &&
              (!(*programs)[i].prepare || (*programs)[i].prepare->target == target));
  }
}

//===- The ways of bytes ---------------------------------------------------------------------===//

/// Takes the bytes for a pack.
void checkPack(Bytes bytes) {
  Result<Pack> pack = Pack::parse(bytes, "fuzz");
  check(pack);
  if (!pack)
    return;
  Result<void> whole = pack->verify();
  check(whole);
  checkChoices(*pack);
}

/// Takes the bytes for changes of a whole pack, four bytes each: where, and what is flipped there. Every change has to
/// be seen, for padding is zeros. A last byte alone cuts the pack.
void checkChanged(Bytes changes) {
  static const std::vector<std::byte> whole = writePack(test::sampleContents());
  std::vector<std::byte> changed = whole;
  for (; changes.size() >= 4; changes = changes.subspan(4)) {
    const std::size_t at = std::to_integer<std::size_t>(changes[0]) | std::to_integer<std::size_t>(changes[1]) << 8 |
                           std::to_integer<std::size_t>(changes[2]) << 16;
    changed[at % changed.size()] ^= changes[3];
  }
  if (changes.size() == 1)
    changed.resize(changed.size() * std::to_integer<std::size_t>(changes[0]) / 256);
  Result<Pack> pack = Pack::parse(changed, "fuzz");
  const bool isWhole = pack && pack->verify();
  require(isWhole == (changed == whole));
}

/// Takes the bytes for a pack whose seals are made to fit, whatever it holds: who writes a pack can make them.
std::vector<std::byte> resealed(Bytes bytes) {
  constexpr std::size_t headerBytes = 64, entryBytes = 56, sizeAt = 16, sealAt = 24;
  std::vector<std::byte> pack(bytes.begin(), bytes.end());
  auto numberAt = [&](std::size_t at, std::size_t width) {
    std::uint64_t number = 0;
    std::memcpy(&number, pack.data() + at, width);
    return number;
  };
  auto seal = [&](std::size_t at, Bytes content) {
    const Sha256 digest = sha256(content);
    std::memcpy(pack.data() + at, digest.data(), digest.size());
  };
  const std::uint64_t size = pack.size(), entries = std::min((size - headerBytes) / entryBytes, numberAt(12, 4));
  std::memcpy(pack.data() + sizeAt, &size, sizeof size);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = headerBytes + i * entryBytes;
    const std::uint64_t offset = numberAt(entry + 8, 8), length = numberAt(entry + 16, 8);
    if (offset <= size && length <= size - offset)
      seal(entry + 24, Bytes(pack).subspan(offset, length));
  }
  std::vector<std::byte> sealed(pack.begin(), pack.begin() + sealAt);
  sealed.insert(sealed.end(), pack.begin() + headerBytes, pack.begin() + headerBytes + entries * entryBytes);
  seal(sealAt, sealed);
  return pack;
}

/// Takes the bytes for sections of a pack: two bytes are the length of the manifest, behind it is a program. The order
/// of sections is that of a pack, so that a manifest of one fits.
std::vector<std::byte> asSections(Bytes bytes) {
  const std::size_t length = std::to_integer<std::size_t>(bytes[0]) + 256 * std::to_integer<std::size_t>(bytes[1]);
  const Bytes manifest = bytes.subspan(2, std::min(length, bytes.size() - 2));
  const Bytes program = bytes.subspan(2 + manifest.size());
  const Section sections[] = {{SectionKind::Manifest, manifest}, {SectionKind::Code, program},
                              {SectionKind::Code, program},      {SectionKind::Program, program},
                              {SectionKind::Program, program},   {SectionKind::Weights, program}};
  return writePackFile(sections);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const Bytes bytes(reinterpret_cast<const std::byte *>(data), size);
  checkPack(bytes);
  checkChanged(bytes);
  if (size >= 64 && std::memcmp(data, "KFUSEPAK", 8) == 0)
    checkPack(resealed(bytes));
  else if (size >= 2)
    checkPack(asSections(bytes));
  check(Program::deserialise(bytes));
  check(ObjectCode::load(bytes));
  return 0;
}
