#include "Tensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace kfuse::python {
namespace {

using nb::dlpack::dltensor;
using nb::dlpack::dtype;
using nb::dlpack::dtype_code;

constexpr int dlCpu = 1, dlCuda = 2, dlCudaHost = 3, dlCudaManaged = 13; // DLDeviceType
constexpr std::uintptr_t alignment = 16;

/// What a producer's capsule holds, from DLPack 1.0 on and before.
struct Versioned {
  std::uint32_t major, minor;
  void *context;
  void (*deleter)(Versioned *);
  std::uint64_t flags;
  dltensor tensor;
};
constexpr std::uint64_t readOnlyFlag = 1;

/// A tensor as its framework describes it, before it is checked.
struct Found {
  dltensor tensor;
  bool readOnly = false;
  nb::object holder;
  std::vector<std::int64_t> numbers{}; ///< Shape and strides, where the framework keeps them as other numbers.
};

std::optional<DType> typeOf(dtype type) {
  for (int i = 0; i <= static_cast<int>(lastDType); ++i)
    if (dlpackType(static_cast<DType>(i)) == type)
      return static_cast<DType>(i);
  return std::nullopt;
}

std::string nameOf(dtype type) {
  if (std::optional<DType> known = typeOf(type))
    return std::string(toString(*known));
  const char *const kinds[] = {"i", "u", "f", "handle", "bf", "complex", "bool"};
  const std::string kind =
      type.code < std::size(kinds) ? kinds[type.code] : "DLPack type " + std::to_string(type.code) + " of ";
  return kind + std::to_string(type.bits);
}

dtype typeOfFormat(const char *format, Py_ssize_t itemSize) {
  const auto bits = static_cast<std::uint8_t>(8 * itemSize);
  const char letter = format ? format[std::strspn(format, "@=<")] : 'B';
  const dtype_code code = std::strchr("efdg", letter)     ? dtype_code::Float
                          : std::strchr("bhilqn", letter) ? dtype_code::Int
                          : letter == '?'                 ? dtype_code::Bool
                          : letter == 'Z'                 ? dtype_code::Complex
                                                          : dtype_code::UInt;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

std::string_view toString(Use use) {
  return use == Use::Input ? "input" : use == Use::Parameter ? "parameter" : use == Use::State ? "state" : "output";
}

[[noreturn]] void refuse(Use use, const TensorDesc &expected, const std::string &what) {
  raiseUsage(std::string(toString(use)) + " '" + expected.name + "' " + what);
}

/// Frees a buffer's view with the capsule that holds it.
nb::object holderOf(std::unique_ptr<Py_buffer> buffer) {
  return nb::capsule(buffer.release(), [](void *held) noexcept {
    PyBuffer_Release(static_cast<Py_buffer *>(held));
    delete static_cast<Py_buffer *>(held);
  });
}

dltensor tensorOf(const Py_buffer &buffer, std::vector<std::int64_t> &numbers) {
  const int rank = buffer.ndim;
  numbers.assign(buffer.shape, buffer.shape + rank);
  for (int i = 0; i < rank; ++i) // Bytes; a stride that is none in elements is refused as any that is not dense.
    numbers.push_back(buffer.strides[i] % buffer.itemsize == 0 ? buffer.strides[i] / buffer.itemsize : -1);
  return {
      buffer.buf, {dlCpu, 0}, rank, typeOfFormat(buffer.format, buffer.itemsize), numbers.data(), numbers.data() + rank,
      0};
}

/// By the buffer protocol; nothing where the type has none for these elements (those of ml_dtypes).
std::optional<Found> readBuffer(nb::handle tensor) {
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(tensor.ptr(), buffer.get(), PyBUF_FULL_RO) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  Found found;
  found.tensor = tensorOf(*buffer, found.numbers);
  found.readOnly = buffer->readonly != 0;
  found.holder = holderOf(std::move(buffer));
  return found;
}

Found readExchanged(const Adapter &adapter, nb::handle tensor) {
  Found found;
  if (adapter.exchange->viewOf(tensor.ptr(), &found.tensor) != 0)
    throw nb::python_error();
  return found;
}

Found readCapsule(nb::object capsule) {
  Found found;
  if (auto *versioned = PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")
                            ? static_cast<Versioned *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"))
                            : nullptr) {
    found.tensor = versioned->tensor;
    found.readOnly = (versioned->flags & readOnlyFlag) != 0;
  } else {
    auto *tensor = static_cast<dltensor *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (!tensor)
      throw nb::python_error();
    found.tensor = *tensor;
  }
  found.holder = std::move(capsule); // Not consumed: its destructor gives the tensor back.
  return found;
}

/// What kfuse/_frameworks.py makes of a tensor: a capsule, or another tensor of the same bits and the type's name.
Found readByPython(const Adapter &adapter, nb::handle tensor, std::intptr_t stream) {
  nb::object exported = adapter.framework.attr("export")(tensor, stream);
  if (!nb::isinstance<nb::tuple>(exported))
    return readCapsule(std::move(exported));
  nb::object bits = exported[0];
  std::optional<Found> found = readBuffer(bits);
  if (!found)
    found = readCapsule(bits.attr("__dlpack__")());
  const auto type = nb::cast<std::pair<int, int>>(exported[1]);
  found->tensor.dtype = {static_cast<std::uint8_t>(type.first), static_cast<std::uint8_t>(type.second), 1};
  found->holder = nb::make_tuple(bits, found->holder);
  return std::move(*found);
}

Found lookAt(const Adapter &adapter, nb::handle tensor, std::intptr_t stream) {
  if (adapter.exchange)
    return readExchanged(adapter, tensor);
  if (adapter.hasBuffer)
    if (std::optional<Found> found = readBuffer(tensor))
      return std::move(*found);
  return readByPython(adapter, tensor, stream);
}

const Adapter &adapterFor(nb::handle tensor, const TensorDesc &expected, Use use) {
  const Adapter *adapter = adapterOf(tensor);
  if (!adapter)
    refuse(use, expected,
           "is given as " + typeName(tensor) +
               ", expected a tensor of torch, jax, cupy or NumPy, or one with __dlpack__");
  return *adapter;
}

std::string listOf(const std::int64_t *numbers, int count) {
  std::string text = "(";
  for (int i = 0; i < count; ++i)
    text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  return text + (count == 1 ? ",)" : ")");
}

bool isDense(const dltensor &tensor) {
  std::int64_t stride = 1;
  for (int i = tensor.ndim - 1; tensor.strides && i >= 0; --i) {
    if (tensor.shape[i] == 0)
      return true; // Nothing lies anywhere.
    if (tensor.shape[i] != 1 && tensor.strides[i] != stride)
      return false;
    stride *= tensor.shape[i];
  }
  return true;
}

void checkLayout(const dltensor &tensor, const TensorDesc &expected, Use use) {
  const int rank = static_cast<int>(expected.shape.size());
  if (tensor.ndim != rank || !std::equal(expected.shape.begin(), expected.shape.end(), tensor.shape))
    refuse(use, expected,
           "has the shape " + listOf(tensor.shape, tensor.ndim) + ", expected " + listOf(expected.shape.data(), rank));
  if (!isDense(tensor))
    refuse(use, expected,
           "has the strides " + listOf(tensor.strides, rank) +
               ", expected a dense row-major tensor; make it contiguous first");
}

Place placeOf(const dltensor &tensor, const TensorDesc &expected, Use use, Place wanted) {
  const int kind = tensor.device.device_type;
  if (kind == dlCpu || kind == dlCudaHost)
    return {};
  if (kind == dlCuda)
    return {tensor.device.device_id};
  if (kind == dlCudaManaged)
    return wanted; // Both reach it.
  refuse(use, expected, "is on a device of DLPack's type " + std::to_string(kind) + ", expected " + wanted.str());
}

} // namespace

dtype dlpackType(DType type) {
  // In the order of DType; packed elements are given as their bytes.
  constexpr dtype_code codes[] = {dtype_code::Float,         dtype_code::Float,       dtype_code::Bfloat,
                                  dtype_code::Int,           dtype_code::Int,         dtype_code::Bool,
                                  dtype_code::Float8_E4M3FN, dtype_code::Float8_E5M2, dtype_code::Int,
                                  dtype_code::UInt,          dtype_code::UInt,        dtype_code::UInt};
  static_assert(std::size(codes) == static_cast<std::size_t>(lastDType) + 1);
  return {static_cast<std::uint8_t>(codes[static_cast<int>(type)]), static_cast<std::uint8_t>(8 * byteWidth(type)), 1};
}

std::int64_t TensorReader::size(nb::handle tensor, const TensorDesc &expected, std::size_t axis) const {
  const Found found = lookAt(adapterFor(tensor, expected, Use::Input), tensor, stream);
  if (found.tensor.ndim != static_cast<int>(expected.shape.size()))
    refuse(Use::Input, expected,
           "has the shape " + listOf(found.tensor.shape, found.tensor.ndim) + ", expected " +
               std::to_string(expected.shape.size()) + " dimensions");
  return found.tensor.shape[axis];
}

View TensorReader::read(nb::handle tensor, const TensorDesc &wanted, Use use, bool anyPlace) const {
  // No framework has a type below a byte of its own.
  std::optional<TensorDesc> bytes;
  if (isPacked(wanted.type))
    bytes = TensorDesc{wanted.name, DType::U8, packedShape(wanted.shape)};
  const TensorDesc &expected = bytes ? *bytes : wanted;
  const Adapter &adapter = adapterFor(tensor, expected, use);
  const bool isWritten = use == Use::State || use == Use::Output;
  if (isWritten && !adapter.immutableBecause.empty())
    refuse(use, expected, "is written in place, and " + adapter.immutableBecause);
  Found found = lookAt(adapter, tensor, stream);
  const dltensor &given = found.tensor;
  if (std::optional<DType> type = typeOf(given.dtype); type != expected.type)
    refuse(use, expected,
           "has the type " + nameOf(given.dtype) + ", expected " + std::string(kfuse::toString(expected.type)));
  checkLayout(given, expected, use);
  const Place at = placeOf(given, expected, use, place);
  if (!anyPlace && at.device != place.device)
    refuse(use, expected, "is on " + at.str() + ", expected " + place.str() + ", the program's device");
  if (isWritten && found.readOnly)
    refuse(use, expected, "is written in place, and the given " + typeName(tensor) + " is read-only");
  void *data = static_cast<char *>(given.data) + given.byte_offset;
  if (const auto address = reinterpret_cast<std::uintptr_t>(data); !anyPlace && address % alignment != 0)
    refuse(use, expected,
           "begins " + std::to_string(address % alignment) +
               " bytes behind a multiple of 16, expected one; copy it first");
  return {data, wanted.type, at, &adapter, std::move(found.holder)};
}

} // namespace kfuse::python
