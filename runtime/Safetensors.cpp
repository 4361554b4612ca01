#include "runtime/Safetensors.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

namespace kfuse::runtime {
namespace {

using nlohmann::json;

constexpr std::size_t lengthBytes = 8;
constexpr std::uint64_t mostHeaderBytes = 100'000'000; // The limit of the format's own reader.
constexpr int deepest = 3;                             // Header, tensor, shape, a size.

struct Invalid : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct StoredType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> type; ///< None where kfuse has no such type.
};

constexpr StoredType storedTypes[] = {
    {"BOOL", 8, DType::Bool},  {"F8_E4M3", 8, DType::F8E4M3}, {"F8_E5M2", 8, DType::F8E5M2}, {"F16", 16, DType::F16},
    {"BF16", 16, DType::BF16}, {"F32", 32, DType::F32},       {"I32", 32, DType::I32},       {"I64", 64, DType::I64},
    {"F4", 4, std::nullopt},   {"F6_E2M3", 6, std::nullopt},  {"F6_E3M2", 6, std::nullopt},  {"U8", 8, DType::U8},
    {"I8", 8, DType::I8},      {"F8_E8M0", 8, std::nullopt},  {"I16", 16, std::nullopt},     {"U16", 16, std::nullopt},
    {"U32", 32, std::nullopt}, {"F64", 64, std::nullopt},     {"U64", 64, std::nullopt},     {"C64", 64, std::nullopt},
};

const StoredType &typeNamed(const std::string &name) {
  const auto *found = std::ranges::find(storedTypes, name, &StoredType::name);
  if (found == std::end(storedTypes))
    throw Invalid("has the unknown type '" + name + "'");
  return *found;
}

/// The header's JSON, in which no object names a key twice. Objects and arrays within `deepest`, so that hostile ones
/// cost no more than their bytes.
json parseHeader(std::string_view text) {
  std::vector<std::set<std::string>> keys(deepest + 1); // The open object's at each depth.
  auto check = [&](int depth, json::parse_event_t event, json &value) {
    if (depth > deepest)
      throw Invalid("its header nests deeper than tensors and shapes");
    if (event == json::parse_event_t::object_start && depth < deepest)
      keys[static_cast<std::size_t>(depth) + 1].clear();
    if (event == json::parse_event_t::key &&
        !keys[static_cast<std::size_t>(depth)].insert(value.get<std::string>()).second)
      throw Invalid("its header names '" + value.get<std::string>() + "' twice");
    return true;
  };
  return json::parse(text, check);
}

std::uint64_t sizeIn(const json &value, const char *what) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX)
    throw Invalid(std::string("has ") + what + " of " + value.dump() + ", expected a whole number of 0 or more");
  return value.get<std::uint64_t>();
}

const json &member(const json &tensor, const char *key) {
  auto found = tensor.find(key);
  if (found == tensor.end())
    throw Invalid(std::string("has no ") + key);
  return *found;
}

/// Bytes of a dense tensor.
std::uint64_t bytesOf(const StoredType &type, const Shape &shape) {
  std::uint64_t bits = type.bits;
  for (std::int64_t size : shape)
    if (__builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits))
      throw Invalid("has a shape of more than 2^64 bits");
  if (bits % 8 != 0)
    throw Invalid("ends inside a byte");
  return bits / 8;
}

/// Where a tensor lies in the file's data.
struct Extent {
  std::uint64_t begin = 0, end = 0;
  const std::string *name = nullptr;
};

Extent readTensor(const json &entry, StoredTensor &tensor) {
  if (!entry.is_object() || entry.size() != 3)
    throw Invalid("is not an object of dtype, shape and data_offsets");
  const json &type = member(entry, "dtype"), &shape = member(entry, "shape"), &offsets = member(entry, "data_offsets");
  if (!type.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    throw Invalid("is not of a dtype, a shape and two data_offsets");
  tensor.type = type.get<std::string>();
  for (const json &size : shape)
    tensor.shape.push_back(static_cast<std::int64_t>(sizeIn(size, "a size")));
  const Extent extent{sizeIn(offsets[0], "an offset"), sizeIn(offsets[1], "an offset")};
  const std::uint64_t bytes = bytesOf(typeNamed(tensor.type), tensor.shape);
  if (extent.end < extent.begin || extent.end - extent.begin != bytes)
    throw Invalid("lies at bytes " + std::to_string(extent.begin) + " to " + std::to_string(extent.end) + ", its " +
                  tensor.type + " " + toString(tensor.shape) + " take " + std::to_string(bytes));
  return extent;
}

/// Each byte of the data is one tensor's.
void checkExtents(std::vector<Extent> extents, std::uint64_t dataBytes) {
  std::ranges::sort(extents, {}, [](const Extent &extent) { return std::pair(extent.begin, extent.end); });
  std::uint64_t end = 0;
  for (const Extent &extent : extents) {
    if (extent.begin != end)
      throw Invalid("its tensor '" + *extent.name + "' begins at byte " + std::to_string(extent.begin) +
                    ", the one before it ends at " + std::to_string(end));
    end = extent.end;
  }
  if (end != dataBytes)
    throw Invalid("its tensors take " + std::to_string(end) + " bytes, behind the header are " +
                  std::to_string(dataBytes));
}

void checkMetadata(const json &metadata) {
  if (!metadata.is_object() || !std::ranges::all_of(metadata, [](const json &value) { return value.is_string(); }))
    throw Invalid("its __metadata__ is not an object of texts");
}

std::map<std::string, StoredTensor, std::less<>> readFile(std::span<const std::byte> file) {
  std::uint64_t headerBytes = 0; // Little-endian, as this machine.
  if (file.size() < lengthBytes)
    throw Invalid("it has " + std::to_string(file.size()) + " bytes, not even the 8 of the header's length");
  std::memcpy(&headerBytes, file.data(), lengthBytes);
  if (headerBytes > std::min<std::uint64_t>(mostHeaderBytes, file.size() - lengthBytes))
    throw Invalid("its header is to have " + std::to_string(headerBytes) + " bytes, expected at most " +
                  std::to_string(std::min<std::uint64_t>(mostHeaderBytes, file.size() - lengthBytes)));
  const auto *text = reinterpret_cast<const char *>(file.data() + lengthBytes);
  if (headerBytes == 0 || *text != '{')
    throw Invalid("its header does not begin with '{'");
  const json header = parseHeader({text, headerBytes});
  const std::span<const std::byte> data = file.subspan(lengthBytes + headerBytes);
  std::map<std::string, StoredTensor, std::less<>> tensors;
  std::vector<Extent> extents;
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      checkMetadata(entry);
      continue;
    }
    try {
      auto &[key, tensor] = *tensors.try_emplace(name).first;
      extents.push_back(readTensor(entry, tensor));
      extents.back().name = &key;
    } catch (const Invalid &invalid) {
      throw Invalid("its tensor '" + name + "' " + invalid.what());
    }
  }
  checkExtents(extents, data.size());
  for (const Extent &extent : extents)
    tensors.find(*extent.name)->second.bytes = data.subspan(extent.begin, extent.end - extent.begin);
  return tensors;
}

} // namespace

std::optional<DType> typeStoredAs(std::string_view name) {
  const auto *found = std::ranges::find(storedTypes, name, &StoredType::name);
  return found == std::end(storedTypes) ? std::nullopt : found->type;
}

Result<Safetensors> Safetensors::open(const std::string &path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped)
    return mapped.error();
  Result<Safetensors> parsed = parse(mapped->bytes(), path);
  if (parsed)
    parsed->file = std::move(*mapped);
  return parsed;
}

Result<Safetensors> Safetensors::parse(std::span<const std::byte> file, std::string name) {
  Safetensors read(std::move(name));
  try {
    read.tensors = readFile(file);
    return read;
  } catch (const std::exception &error) { // nlohmann's, too: the header is no JSON.
    return Error{ErrorCode::BadModel, read.name + " is no safetensors file: " + error.what()};
  }
}

Result<std::span<const std::byte>> Safetensors::find(const TensorDesc &wanted) const {
  const std::string expected = std::string(toString(wanted.type)) + " " + toString(wanted.shape);
  auto found = tensors.find(wanted.name);
  if (found == tensors.end())
    return Error{ErrorCode::Usage, name + " holds no tensor '" + wanted.name + "', expected one of " + expected};
  const StoredTensor &tensor = found->second;
  if (typeStoredAs(tensor.type) != wanted.type || tensor.shape != wanted.shape)
    return Error{ErrorCode::Usage, name + ": '" + wanted.name + "' is " + tensor.type + " " + toString(tensor.shape) +
                                       ", expected " + expected};
  return tensor.bytes;
}

} // namespace kfuse::runtime
