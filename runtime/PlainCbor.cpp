#include "runtime/PlainCbor.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kfuse::runtime {
namespace {

constexpr std::size_t maxDepth = 16; // A Program nests 8 deep.

/// Reads the heads of CBOR items (RFC 8949, section 3) one after the other.
class CborHeads {
public:
  explicit CborHeads(std::span<const std::byte> bytes) : rest(bytes) {}

  enum Major { Unsigned, Negative, Bytes, Text, Array, Map, Tag, Simple };
  struct Head {
    Major major;
    std::uint64_t argument; ///< The number, or the length.
  };

  /// The next head; none at the end, for an open length, and for a length beyond the bytes.
  std::optional<Head> next() {
    if (rest.empty())
      return std::nullopt;
    auto first = std::to_integer<unsigned>(rest.front());
    unsigned info = first & 31;
    std::size_t width = info < 24 ? 0 : std::size_t(1) << (info - 24);
    if (info > 27 || rest.size() <= width)
      return std::nullopt;
    Head head{Major(first >> 5), info < 24 ? info : 0};
    for (std::byte digit : rest.subspan(1, width))
      head.argument = head.argument << 8 | std::to_integer<std::uint64_t>(digit);
    rest = rest.subspan(1 + width);
    bool isLength = head.major >= Bytes && head.major <= Map;
    return isLength && head.argument > rest.size() ? std::nullopt : std::optional(head);
  }

  void skip(std::uint64_t bytes) { rest = rest.subspan(bytes); }
  bool atEnd() const { return rest.empty(); }

private:
  std::span<const std::byte> rest;
};

} // namespace

bool isPlainCbor(std::span<const std::byte> bytes) {
  CborHeads heads(bytes);
  std::vector<std::uint64_t> open{1}; // Items still to come in each open container.
  while (!open.empty()) {
    if (open.back() == 0) {
      open.pop_back();
      continue;
    }
    --open.back();
    std::optional<CborHeads::Head> head = heads.next();
    if (!head || open.size() > maxDepth)
      return false;
    switch (head->major) {
    case CborHeads::Unsigned:
    case CborHeads::Negative:
      break;
    case CborHeads::Bytes:
    case CborHeads::Text:
      heads.skip(head->argument);
      break;
    case CborHeads::Array:
      open.push_back(head->argument);
      break;
    case CborHeads::Map:
      open.push_back(2 * head->argument);
      break;
    case CborHeads::Tag:
      return false;
    case CborHeads::Simple:
      if (head->argument != 20 && head->argument != 21) // false, true
        return false;
    }
  }
  return heads.atEnd();
}

} // namespace kfuse::runtime
