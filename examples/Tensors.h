// What the example programs share: values of tensors on the host, and in a program's memory.
#pragma once

#include "kfuse/compiler.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace kfuse::examples {

/// Ends the program with the error's line and code.
[[noreturn]] void fail(const Error &error);

template <class T> T orFail(Result<T> result) {
  if (!result)
    fail(result.error());
  return std::move(*result);
}
inline void orFail(const Result<void> &result) {
  if (!result)
    fail(result.error());
}

using Bytes = std::vector<std::byte>;

/// Numbers as elements of a float type, rounded to nearest even, and back.
Bytes toBytes(std::span<const double> values, DType type);
std::vector<double> toDoubles(std::span<const std::byte> bytes, DType type);

/// Noise by name, the same on every machine. Matrices have deviation 1 / sqrt(columns), so that values
/// keep their size from layer to layer; vectors lie in [0.5, 1.5) as scales of norms do, biases in
/// [-0.5, 0.5). Integers are 0.
Bytes seeded(const TensorDesc &desc);

/// cos and sin of position * base^(-2 i / headSize), each [positions, headSize / 2].
struct RotaryTables {
  std::vector<double> cos, sin;
};
RotaryTables rotaryTables(std::int64_t positions, std::int64_t headSize, double base = 500000);

/// ||a - b|| / ||b||, as large as the numbers of b; NaN where either holds one.
double relativeDifference(std::span<const double> a, std::span<const double> b);

/// Tensors in a program's memory.
struct DeviceTensors {
  std::vector<TensorDesc> descs;
  std::vector<Buffer> buffers;  ///< One for each desc.
  std::vector<void *> pointers; ///< What a run takes, in its order.

  void add(const Executable &program, const TensorDesc &desc, const Bytes &values);
};

/// Memory for a run's outputs. One that is a state's new value needs none: the state's memory holds it,
/// and the run takes a null pointer.
DeviceTensors allocateOutputs(const Executable &program);

} // namespace kfuse::examples
