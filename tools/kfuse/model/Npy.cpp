#include "tools/kfuse/model/Npy.h"

#include "kfuse/half.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace kfuse::tools {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t maxRank = 32; // As NumPy's own limit.

/// How a file names an element type. f8 has no kfuse type: it is read as f32.
struct Descriptor {
  std::string_view text;
  DType type;
  std::size_t bytes;
};
constexpr std::array<Descriptor, 8> descriptors{{{"<f4", DType::F32, 4},
                                                 {"<f2", DType::F16, 2},
                                                 {"<i4", DType::I32, 4},
                                                 {"<i8", DType::I64, 8},
                                                 {"|b1", DType::Bool, 1},
                                                 {"|i1", DType::I8, 1},
                                                 {"|u1", DType::U8, 1},
                                                 {"<f8", DType::F32, 8}}};

Error malformed(std::string what) { return {ErrorCode::Io, "not a readable .npy file: " + std::move(what)}; }

template <class T> T loadAt(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// The text after `'key':` in the header, which is a Python dict literal with fixed keys.
std::optional<std::string_view> valueOf(std::string_view header, std::string_view key) {
  std::size_t at = header.find(fmt::format("'{}'", key));
  if (at == std::string_view::npos)
    return std::nullopt;
  at = header.find_first_not_of(" :", at + key.size() + 2);
  return at == std::string_view::npos ? std::nullopt : std::optional(header.substr(at));
}

std::optional<Shape> parseShape(std::string_view text) {
  std::size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos)
    return std::nullopt;
  Shape shape;
  text = text.substr(1, end - 1);
  while (text.find_first_not_of(' ') != std::string_view::npos && shape.size() < maxRank) {
    text.remove_prefix(text.find_first_not_of(' '));
    std::int64_t size = -1;
    auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (failure != std::errc() || size < 0)
      return std::nullopt;
    shape.push_back(size);
    text.remove_prefix(rest - text.data());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (!text.empty() && text.front() != ',')
      return std::nullopt;
    text.remove_prefix(text.empty() ? 0 : 1);
  }
  return text.find_first_not_of(' ') == std::string_view::npos ? std::optional(shape) : std::nullopt;
}

/// Bytes a tensor of `shape` takes; nothing when that overflows.
std::optional<std::size_t> denseBytes(const Shape &shape, std::size_t width) {
  std::size_t bytes = width;
  for (std::int64_t size : shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes))
      return std::nullopt;
  return bytes;
}

std::vector<std::byte> doublesToFloats(std::span<const std::byte> data) {
  std::vector<std::byte> floats(data.size() / 2);
  for (std::size_t i = 0; i < data.size() / sizeof(double); ++i) {
    auto value = static_cast<float>(loadAt<double>(data, i * sizeof(double)));
    std::memcpy(&floats[i * sizeof value], &value, sizeof value);
  }
  return floats;
}

/// Header text, and the data after it.
struct Sections {
  std::string_view header;
  std::span<const std::byte> data;
};

Result<Sections> split(std::span<const std::byte> file) {
  if (file.size() < 10 || std::memcmp(file.data(), magic.data(), magic.size()) != 0)
    return malformed("it does not begin with NumPy's magic");
  int version = static_cast<int>(file[6]);
  if (version < 1 || version > 3)
    return malformed(fmt::format("format version {}, expected 1 to 3", version));
  std::size_t prefix = version == 1 ? 10 : 12;
  if (file.size() < prefix)
    return malformed("it ends inside its header");
  std::size_t length = version == 1 ? loadAt<std::uint16_t>(file, 8) : loadAt<std::uint32_t>(file, 8);
  if (length > file.size() - prefix)
    return malformed(fmt::format("it ends inside its header of {} bytes", length));
  return Sections{{reinterpret_cast<const char *>(file.data()) + prefix, length}, file.subspan(prefix + length)};
}

const Descriptor *findDescriptor(std::string_view quoted) {
  for (const Descriptor &candidate : descriptors)
    if (quoted.substr(0, 5) == fmt::format("'{}'", candidate.text))
      return &candidate;
  return nullptr;
}

} // namespace

Result<NpyArray> parseNpy(std::span<const std::byte> file) {
  Result<Sections> sections = split(file);
  if (!sections)
    return sections.error();
  auto [header, data] = *sections;
  const Descriptor *element = findDescriptor(valueOf(header, "descr").value_or(""));
  if (!element)
    return malformed(
        "its element type is none of '<f2' '<f4' '<f8' '<i4' '<i8' '|i1' '|u1' '|b1': convert it with astype");
  if (!valueOf(header, "fortran_order").value_or("").starts_with("False"))
    return malformed("it is not in C order: save numpy.ascontiguousarray(x)");
  std::optional<Shape> shape = parseShape(valueOf(header, "shape").value_or(""));
  if (!shape)
    return malformed("its shape is no tuple of sizes");
  std::optional<std::size_t> bytes = denseBytes(*shape, element->bytes);
  if (!bytes || *bytes != data.size())
    return malformed(fmt::format("shape ({}) of {} does not take its {} bytes of data", fmt::join(*shape, ", "),
                                 element->text, data.size()));
  NpyArray array{element->type, std::move(*shape), {data.begin(), data.end()}};
  if (element->bytes == sizeof(double) && element->type == DType::F32)
    array.data = doublesToFloats(data);
  return array;
}

Result<NpyArray> readNpy(const std::filesystem::path &path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  auto size = stream ? static_cast<std::streamoff>(stream.tellg()) : -1;
  std::error_code failure;
  if (size < 0 || !std::filesystem::is_regular_file(path, failure))
    return Error{ErrorCode::Io, fmt::format("{}: cannot be read; expected a .npy file", path.string())};
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  stream.seekg(0);
  if (!stream.read(reinterpret_cast<char *>(bytes.data()), size))
    return Error{ErrorCode::Io, fmt::format("{}: reading failed", path.string())};
  Result<NpyArray> array = parseNpy(bytes);
  if (!array)
    return Error{ErrorCode::Io, fmt::format("{}: {}", path.string(), array.error().message)};
  return array;
}

Result<void> writeNpy(const std::filesystem::path &path, const NpyArray &array) {
  if (array.type == DType::BF16 || isFloat8(array.type)) {
    Result<NpyArray> widened = convert(array, DType::F32);
    return widened ? writeNpy(path, *widened) : widened.error();
  }
  if (isPacked(array.type)) // NumPy has no type below a byte.
    return writeNpy(path, {DType::U8, packedShape(array.shape), array.data});
  std::string_view descriptor;
  for (const Descriptor &candidate : descriptors)
    if (candidate.type == array.type && candidate.bytes == byteWidth(array.type))
      descriptor = candidate.text;
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descriptor,
                                   fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  header.resize((header.size() + 10) / 64 * 64 + 63 - 10, ' '); // Data starts at a multiple of 64 bytes.
  header += '\n';
  auto length = static_cast<std::uint16_t>(header.size());
  std::ofstream stream(path, std::ios::binary);
  stream.write(magic.data(), magic.size()).write("\x01\x00", 2).write(reinterpret_cast<const char *>(&length), 2);
  stream.write(header.data(), static_cast<std::streamsize>(header.size()));
  stream.write(reinterpret_cast<const char *>(array.data.data()), static_cast<std::streamsize>(array.data.size()));
  stream.close();
  if (!stream)
    return Error{ErrorCode::Io,
                 fmt::format("{}: cannot be written; is the folder there and the disk not full?", path.string())};
  return {};
}

Result<NpyArray> convert(NpyArray array, DType type) {
  if (array.type == type)
    return array;
  if (!isFloat(array.type) || !isFloat(type))
    return Error{ErrorCode::Usage,
                 fmt::format("an array of {} given where {} is expected", toString(array.type), toString(type))};
  auto count = static_cast<std::size_t>(elementCount(array.shape));
  NpyArray converted{type, array.shape, std::vector<std::byte>(count * byteWidth(type))};
  for (std::size_t i = 0; i < count; ++i)
    storeFloat(type, readFloat(array.type, &array.data[i * byteWidth(array.type)]),
               &converted.data[i * byteWidth(type)]);
  return converted;
}

} // namespace kfuse::tools
