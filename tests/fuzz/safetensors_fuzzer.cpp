// Any bytes as a safetensors file: an error, or tensors that lie inside.
#include "runtime/Safetensors.h"

#include <cstdlib>

using namespace kfuse;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  const auto *begin = reinterpret_cast<const std::byte *>(data);
  Result<runtime::Safetensors> read = runtime::Safetensors::parse({begin, size}, "fuzz");
  if (!read)
    return read.error().message.empty() ? std::abort(), 0 : 0;
  for (const auto &[name, tensor] : read->all())
    if (!tensor.bytes.empty() &&
        (tensor.bytes.data() < begin || tensor.bytes.data() + tensor.bytes.size() > begin + size))
      std::abort();
  return 0;
}
