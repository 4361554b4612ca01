// The bytes of a Program: a magic, then one CBOR map. Field names are those of the structs.
//
// The CBOR reader recurses once per nesting level and trusts lengths, so bytes are first checked to
// be the plain CBOR that serialise() writes: shallow, lengths known and within the bytes.
#include "runtime/PlanJson.h"
#include "runtime/Program.h"

#include <cstring>
#include <optional>
#include <string_view>

namespace kfuse {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorDesc, name, type, shape)
}

namespace kfuse::runtime {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProgramKernel, plan, binary)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BufferRef, space, index, offset)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Step, kernel, buffers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PassThrough, result, source)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Program, name, target, arguments, roles, results, resultState, kernels, steps,
                                   passThroughs, constants, arenaBytes)

namespace {

constexpr std::string_view magic = "kfuseprg";
constexpr int formatVersion = 5;
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

/// Whether `bytes` are one CBOR item of integers, booleans, strings, arrays and maps of known length.
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

Error badFile(const std::string &what) {
  return Error{ErrorCode::BadModel, "not a kfuse program: " + what + "; compile the model again"};
}

} // namespace

std::vector<std::byte> Program::serialise() const {
  nlohmann::json file = *this;
  file["version"] = formatVersion;
  std::vector<std::uint8_t> bytes(magic.begin(), magic.end());
  nlohmann::json::to_cbor(file, bytes);
  const auto *first = reinterpret_cast<const std::byte *>(bytes.data());
  return {first, first + bytes.size()};
}

Result<Program> Program::deserialise(std::span<const std::byte> bytes) {
  if (bytes.size() < magic.size() || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    return badFile("its first bytes are not '" + std::string(magic) + "'");
  std::span<const std::byte> body = bytes.subspan(magic.size());
  if (!isPlainCbor(body))
    return badFile("it is truncated or damaged");
  try {
    const auto *first = reinterpret_cast<const std::uint8_t *>(body.data());
    nlohmann::json file = nlohmann::json::from_cbor(first, first + body.size());
    if (int version = file.at("version").get<int>(); version != formatVersion)
      return badFile("it has format version " + std::to_string(version) + ", expected " +
                     std::to_string(formatVersion));
    Program program = file.get<Program>();
    if (Result<void> valid = program.validate(); !valid)
      return Error{ErrorCode::BadModel, "the file is damaged: " + valid.error().message + "; compile the model again"};
    return program;
  } catch (const std::exception &error) {
    return badFile(error.what());
  }
}

} // namespace kfuse::runtime
