// The bytes of a Program: a magic, then one CBOR map. Field names are those of the structs.
#include "runtime/PlainCbor.h"
#include "runtime/PlanJson.h"
#include "runtime/Program.h"

#include <cstring>
#include <string_view>

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
// Packs of version 1 hold programs of this version and stay readable: fields that come later have defaults
// (WITH_DEFAULT), and numbers of enumerators keep their meaning.
constexpr int oldestReadable = 5;

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
    if (int version = file.at("version").get<int>(); version < oldestReadable || version > formatVersion)
      return badFile("it has format version " + std::to_string(version) + ", expected " +
                     std::to_string(oldestReadable) + " to " + std::to_string(formatVersion));
    Program program = file.get<Program>();
    if (Result<void> valid = program.validate(); !valid)
      return Error{ErrorCode::BadModel, "the file is damaged: " + valid.error().message + "; compile the model again"};
    return program;
  } catch (const std::exception &error) {
    return badFile(error.what());
  }
}

} // namespace kfuse::runtime
