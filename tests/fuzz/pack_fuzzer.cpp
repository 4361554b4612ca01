// Any bytes as a pack, as what its seals would vouch for, and as machine code: an error, or something that is whole.
#include "runtime/host/ObjectCode.h"
#include "runtime/pack/Pack.h"

#include <cstdlib>

using namespace kfuse;
using namespace kfuse::runtime;

namespace {

template <class Value> void check(const Result<Value> &read) {
  if (!read && read.error().message.empty())
    std::abort();
}

/// A pack that is sealed, whatever its manifest says and its other sections hold.
void checkSealed(std::span<const std::byte> manifest) {
  const Section sections[] = {{SectionKind::Manifest, manifest},
                              {SectionKind::Program, manifest},
                              {SectionKind::Code, manifest},
                              {SectionKind::Weights, manifest}};
  const std::vector<std::byte> bytes = writePackFile(sections);
  Result<Pack> pack = Pack::parse(bytes, "fuzz");
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
