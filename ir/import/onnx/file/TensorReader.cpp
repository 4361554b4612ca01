#include "ir/import/onnx/file/TensorReader.h"

#include "ir/import/Limits.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

namespace kfuse::ir::onnx {

using ::onnx::TensorProto;

namespace {

/// TensorProto's numbers of types that the schema of ONNX 1.12 does not name.
constexpr int uint4 = 21, int4 = 22;

/// How an ONNX element type is stored and kept.
struct ElementRow {
  int onnx;
  DType type;
  std::size_t storedBytes; ///< In raw and external data; of two elements where a byte holds them.

  /// Stored units of `count` elements: 4-bit integers fill bytes whatever the shape.
  std::size_t units(std::int64_t count) const {
    return static_cast<std::size_t>(isPacked(type) ? (count + 1) / 2 : count);
  }
};

constexpr ElementRow elementRows[] = {
    {TensorProto::FLOAT, DType::F32, 4},
    {TensorProto::FLOAT16, DType::F16, 2},
    {TensorProto::BFLOAT16, DType::BF16, 2},
    {TensorProto::DOUBLE, DType::F32, 8},
    {TensorProto::INT32, DType::I32, 4},
    {TensorProto::INT64, DType::I64, 8},
    {TensorProto::BOOL, DType::Bool, 1},
    {TensorProto::INT8, DType::I8, 1},
    {TensorProto::UINT8, DType::U8, 1},
    {int4, DType::I4, 1},
    {uint4, DType::U4, 1},
};

const ElementRow *findRow(int elementType) {
  auto *row = std::find_if(std::begin(elementRows), std::end(elementRows),
                           [&](const ElementRow &one) { return one.onnx == elementType; });
  return row == std::end(elementRows) ? nullptr : row;
}

Error malformed(const TensorProto &tensor, const std::string &reason) {
  return {ErrorCode::BadModel, "tensor '" + tensor.name() + "' " + reason};
}

/// The elements of `values` converted and owned.
template <class To, class From>
ParameterData converted(DType type, Shape shape, const From *values, std::size_t count) {
  auto owner = std::make_shared<std::vector<To>>(values, values + count);
  std::span bytes(reinterpret_cast<const std::byte *>(owner->data()), count * sizeof(To));
  return {type, std::move(shape), bytes, owner};
}

/// 4-bit integers that fill bytes across rows, with each row in bytes of its own.
ParameterData withWholeRows(const ParameterData &stored) {
  const std::int64_t count = elementCount(stored.shape);
  const reference::PackedElements flat(stored.type, {count}), kept(stored.type, stored.shape);
  auto owner = std::make_shared<std::vector<std::byte>>(byteSize(stored.type, stored.shape));
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte &byte = (*owner)[kept.byteOf(i)];
    byte = kept.write(flat.read(stored.bytes[flat.byteOf(i)], i), byte, i);
  }
  return {stored.type, stored.shape, *owner, owner};
}

/// Elements as stored, given the type kfuse keeps.
ParameterData asKept(const ElementRow &row, ParameterData stored) {
  std::size_t count = stored.bytes.size() / row.storedBytes;
  if (row.onnx == TensorProto::DOUBLE) {
    std::vector<double> values(count); // The stored ones may lie at any address.
    std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
    return converted<float>(row.type, stored.shape, values.data(), count);
  }
  if (isPacked(row.type) && stored.shape.size() > 1 && stored.shape.back() % 2 != 0)
    return withWholeRows(stored);
  auto isTooLarge = [](std::byte value) { return value > std::byte{1}; };
  if (row.type == DType::Bool && std::any_of(stored.bytes.begin(), stored.bytes.end(), isTooLarge)) {
    std::vector<char> truths;
    for (std::byte value : stored.bytes)
      truths.push_back(value != std::byte{0});
    return converted<char>(row.type, stored.shape, truths.data(), count);
  }
  return stored;
}

/// Elements as raw data would store them, from the field that a type keeps them in when they are not raw.
std::optional<ParameterData> fromTypedField(const TensorProto &tensor, const ElementRow &row, const Shape &shape,
                                            std::size_t count) {
  auto take = [&]<class To>(To, const auto &field) -> std::optional<ParameterData> {
    if (static_cast<std::size_t>(field.size()) != count)
      return std::nullopt;
    return converted<To>(row.type, shape, field.data(), count);
  };
  switch (row.onnx) {
  case TensorProto::FLOAT:
    return take(float(), tensor.float_data());
  case TensorProto::DOUBLE:
    return take(double(), tensor.double_data());
  case TensorProto::INT64:
    return take(std::int64_t(), tensor.int64_data());
  case TensorProto::INT32:
    return take(std::int32_t(), tensor.int32_data());
  case TensorProto::BOOL:
    return take(char(), tensor.int32_data());
  case TensorProto::INT8:
  case TensorProto::UINT8:
  case int4:
  case uint4:
    return take(std::uint8_t(), tensor.int32_data());
  default: // The bits of 16-bit floats.
    return take(std::uint16_t(), tensor.int32_data());
  }
}

/// A file named by a model lies beside it: an absolute path, or one with "..", could name any file.
bool staysInside(const std::filesystem::path &location) {
  return !location.empty() && location.is_relative() && location.native().find('\0') == std::string::npos &&
         std::find(location.begin(), location.end(), "..") == location.end();
}

/// Whether `place` is below `folder`; both are behind all links.
bool isBelow(const std::filesystem::path &place, const std::filesystem::path &folder) {
  return !folder.empty() &&
         std::mismatch(folder.begin(), folder.end(), place.begin(), place.end()).first == folder.end();
}

} // namespace

bool DataFolders::hold(const std::filesystem::path &place) const {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::canonical(beside, failed);
  return (!failed && isBelow(place, folder)) || isBelow(place, resolved);
}

std::optional<DType> dtypeOfOnnx(int elementType) {
  const ElementRow *row = findRow(elementType);
  return row ? std::optional(row->type) : std::nullopt;
}

std::string nameOfOnnxType(int elementType) {
  return TensorProto::DataType_IsValid(elementType) ? TensorProto::DataType_Name(TensorProto::DataType(elementType))
                                                    : "number " + std::to_string(elementType);
}

Result<ParameterData> TensorReader::read(const TensorProto &tensor) {
  const ElementRow *row = findRow(tensor.data_type());
  if (!row)
    return malformed(
        tensor, "is of type " + nameOfOnnxType(tensor.data_type()) +
                    "; kfuse reads FLOAT, FLOAT16, BFLOAT16, DOUBLE, INT32, INT64, INT8, UINT8, INT4, UINT4 and BOOL");
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  std::optional<std::int64_t> count = checkedElementCount(shape, row->type);
  if (!count)
    return malformed(tensor, "has the shape " + kfuse::toString(shape) +
                                 ": a negative size, over 1 TiB, or over 16 dimensions");
  if (tensor.has_segment())
    return malformed(tensor, "is stored in segments; save the model in one piece");

  std::size_t bytes = row->units(*count) * row->storedBytes;
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    Result<ParameterData> stored = readExternal(tensor, bytes);
    if (!stored)
      return stored;
    stored->type = row->type;
    stored->shape = std::move(shape);
    return asKept(*row, std::move(*stored));
  }
  if (tensor.has_raw_data()) {
    if (tensor.raw_data().size() != bytes)
      return malformed(tensor, "of shape " + kfuse::toString(shape) + " needs " + std::to_string(bytes) +
                                   " bytes, the file holds " + std::to_string(tensor.raw_data().size()));
    std::span data(reinterpret_cast<const std::byte *>(tensor.raw_data().data()), bytes);
    return asKept(*row, {row->type, std::move(shape), data, proto});
  }
  if (std::optional<ParameterData> typed = fromTypedField(tensor, *row, shape, row->units(*count)))
    return asKept(*row, std::move(*typed));
  return malformed(tensor, "of shape " + kfuse::toString(shape) + " needs " + std::to_string(*count) +
                               " elements, the file holds another number of them");
}

Result<std::shared_ptr<const MappedFile>> TensorReader::open(const std::string &location) {
  std::shared_ptr<const MappedFile> &file = files[location];
  if (!file) {
    Result<MappedFile> opened = MappedFile::open((folders.beside / location).string());
    if (!opened)
      return opened.error();
    if (!folders.hold(opened->place()))
      return Error{ErrorCode::BadModel, "'" + location + "' leads to '" + opened->place() +
                                            "', which is neither in the model's folder nor beside its file"};
    file = std::make_shared<const MappedFile>(std::move(*opened));
  }
  return file;
}

Result<ParameterData> TensorReader::readExternal(const TensorProto &tensor, std::size_t bytes) {
  std::string location;
  std::uint64_t offset = 0, length = bytes;
  for (const ::onnx::StringStringEntryProto &entry : tensor.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    std::uint64_t *number = entry.key() == "offset" ? &offset : entry.key() == "length" ? &length : nullptr;
    const char *end = entry.value().data() + entry.value().size();
    if (number && std::from_chars(entry.value().data(), end, *number).ptr != end)
      return malformed(tensor,
                       "has external data with " + entry.key() + " '" + entry.value() + "', which is no number");
  }
  if (folders.beside.empty() || !staysInside(location))
    return malformed(tensor, "keeps its data in '" + location + "', which is no file of the model's own folder");
  Result<std::shared_ptr<const MappedFile>> file = open(location);
  if (!file)
    return malformed(tensor, "keeps its data in another file: " + file.error().message + "; put it beside the model");
  std::span<const std::byte> all = (*file)->bytes();
  if (length != bytes || offset > all.size() || bytes > all.size() - offset)
    return malformed(tensor, "needs " + std::to_string(bytes) + " bytes, but " + std::to_string(length) + " from " +
                                 std::to_string(offset) + " on in '" + location + "' of " + std::to_string(all.size()) +
                                 " bytes are given");
  return ParameterData{DType::F32, {}, all.subspan(offset, bytes), *file};
}

reference::HostTensor toHost(const ParameterData &data) {
  return {data.type, data.shape, std::vector<std::byte>(data.bytes.begin(), data.bytes.end())};
}

} // namespace kfuse::ir::onnx
