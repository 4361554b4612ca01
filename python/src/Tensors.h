// Tensors of other frameworks, looked at without a copy.
#pragma once

#include "Errors.h"

#include "kfuse/types.h"

#include <nanobind/ndarray.h>

#include <optional>
#include <string>
#include <vector>

namespace kfuse::python {

/// DLPack's exchange API (dmlc/dlpack, version 1.2), with which a framework's C code gives what `__dlpack__` gives:
/// the capsule `dlpack_exchange_api` in a type's `__dlpack_c_exchange_api__`.
struct ExchangeApi {
  struct {
    std::uint32_t major, minor;
    void *previous;
  } header;
  void *allocate, *fromObject, *toObject;
  int (*viewOf)(void *object, nb::dlpack::dltensor *view); ///< Does not synchronise; the view is the object's.
  int (*currentStream)(int deviceType, std::int32_t device, void **stream);
};

/// How tensors of one Python type are read and made.
struct Adapter {
  nb::object type;      ///< Held, so that its address stays its own.
  nb::object framework; ///< One of kfuse/_frameworks.py.
  const ExchangeApi *exchange = nullptr;
  bool hasBuffer = false;       ///< NumPy's.
  std::string immutableBecause; ///< Why it cannot be written; "" where it can.
  /// Whether its memory may be reused before another stream has done with it, and nothing can tell it: a run waits.
  bool mustWait = false;
};

/// The adapter of a tensor's type; null for what is no tensor.
const Adapter *adapterOf(nb::handle tensor);

/// Where tensors are to lie.
struct Place {
  int device = -1; ///< CUDA ordinal; -1 is the host.
  bool isGpu() const { return device >= 0; }
  std::string str() const { return isGpu() ? "cuda:" + std::to_string(device) : "cpu"; }
};

/// What a tensor is for, for errors and for what is asked of it.
enum class Use : std::uint8_t { Input, Parameter, State, Output };

/// The same type in DLPack's numbers.
nb::dlpack::dtype dlpackType(DType type);

/// A view of a tensor; valid while the tensor and `holder` are.
struct View {
  void *data = nullptr;
  DType type = DType::F32;
  Place place;
  const Adapter *adapter = nullptr;
  nb::object holder;
};

/// Looks at tensors and checks that they are what a program expects.
class TensorReader {
public:
  /// `stream` is what a producer that synchronises is to make wait (jax): its pointer as an int.
  TensorReader(Place place, std::intptr_t stream) : place(place), stream(stream) {}

  /// The tensor's view if it has the type, shape, place and layout of `expected`; else a UsageError that names it.
  View read(nb::handle tensor, const TensorDesc &expected, Use use, bool anyPlace = false) const;

  /// One of the sizes of an input, whatever it is; a UsageError where it has another number of dimensions.
  std::int64_t size(nb::handle tensor, const TensorDesc &expected, std::size_t axis) const;

private:
  Place place;
  std::intptr_t stream;
};

/// A CUstream of what Python gave: an int, what has `__cuda_stream__`, or a stream of torch or cupy.
std::intptr_t streamOf(nb::handle given);
/// The stream that the tensor's framework works on now; 0 is the default stream.
std::intptr_t currentStream(const Adapter &adapter, Place place);

} // namespace kfuse::python
