// Any bytes as a pack, as what its seals would vouch for, and as machine code: an error, or something that is whole.
#include "runtime/host/ObjectCode.h"
#include "runtime/pack/Pack.h"

#include <algorithm>
#include <cstdlib>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

template <class Value> void check(const Result<Value> &read) {
  if (!read && read.error().message.empty())
    std::abort();
}

/// A pack that is sealed, whatever its manifest says and its other sections hold: two bytes are the length of the
/// manifest, behind it is a program. The order of sections is that of a pack, so that a manifest of one fits.
void checkSealed(std::span<const std::byte> bytes) {
  if (bytes.size() < 2)
    return;
  const std::size_t length = std::to_integer<std::size_t>(bytes[0]) + 256 * std::to_integer<std::size_t>(bytes[1]);
  const std::span manifest = bytes.subspan(2, std::min(length, bytes.size() - 2));
  const std::span program = bytes.subspan(2 + manifest.size());
  const Section sections[] = {{SectionKind::Manifest, manifest}, {SectionKind::Code, program},
                              {SectionKind::Code, program},      {SectionKind::Program, program},
                              {SectionKind::Program, program},   {SectionKind::Weights, program}};
  const std::vector<std::byte> file = writePackFile(sections);
  Result<Pack> pack = Pack::parse(file, "fuzz");
  check(pack);
  if (pack)
    check(pack->verify());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte *>(data), size);
  Result<Pack> pack = Pack::parse(bytes, "fuzz");
  check(pack);
  if (pack)
    check(pack->verify());
  checkSealed(bytes);
  check(Program::deserialise(bytes));
  check(ObjectCode::load(bytes));
  return 0;
}
