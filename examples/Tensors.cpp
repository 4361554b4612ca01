#include "examples/Tensors.h"

#include "kfuse/half.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

namespace kfuse::examples {

void fail(const Error &error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  std::exit(static_cast<int>(error.code));
}

namespace {

template <class Element> void store(Bytes &bytes, std::size_t i, Element element) {
  std::memcpy(bytes.data() + i * sizeof element, &element, sizeof element);
}

template <class Element> Element fetch(std::span<const std::byte> bytes, std::size_t i) {
  Element element;
  std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
  return element;
}

/// 53 random bits as a number in [0, 1); the standard's distributions differ between libraries.
double unit(std::mt19937_64 &random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

} // namespace

Bytes toBytes(std::span<const double> values, DType type) {
  Bytes bytes(values.size() * byteWidth(type));
  for (std::size_t i = 0; i < values.size(); ++i)
    storeFloat(type, static_cast<float>(values[i]), bytes.data() + i * byteWidth(type));
  return bytes;
}

std::vector<double> toDoubles(std::span<const std::byte> bytes, DType type) {
  std::vector<double> values(bytes.size() / byteWidth(type));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = readFloat(type, bytes.data() + i * byteWidth(type));
  return values;
}

Bytes seeded(const TensorDesc &desc) {
  if (!isFloat(desc.type))
    return Bytes(desc.bytes());
  // Uniform noise in [-w, w) has deviation w / sqrt(3).
  bool isVector = desc.shape.size() < 2, isBias = std::string_view(desc.name).ends_with("bias");
  double width = isVector ? 0.5 : std::sqrt(3.0 / static_cast<double>(desc.shape.back()));
  double centre = isVector && !isBias ? 1 : 0;
  std::seed_seq seed(desc.name.begin(), desc.name.end());
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<std::size_t>(elementCount(desc.shape)));
  for (double &value : values)
    value = centre + width * (2 * unit(random) - 1);
  return toBytes(values, desc.type);
}

RotaryTables rotaryTables(std::int64_t positions, std::int64_t headSize, double base) {
  RotaryTables tables;
  for (std::int64_t position = 0; position < positions; ++position)
    for (std::int64_t i = 0; i < headSize; i += 2) {
      double angle = static_cast<double>(position) * std::pow(base, -static_cast<double>(i) / headSize);
      tables.cos.push_back(std::cos(angle));
      tables.sin.push_back(std::sin(angle));
    }
  return tables;
}

double relativeDifference(std::span<const double> a, std::span<const double> b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

void DeviceTensors::add(const Executable &program, const TensorDesc &desc, const Bytes &values) {
  Buffer buffer = orFail(program.allocate(desc.bytes()));
  orFail(buffer.upload(values.data()));
  descs.push_back(desc);
  pointers.push_back(buffer.data());
  buffers.push_back(std::move(buffer));
}

DeviceTensors allocateOutputs(const Executable &program) {
  DeviceTensors outputs;
  for (std::size_t i = 0; i < program.outputs().size(); ++i)
    if (const TensorDesc &desc = program.outputs()[i]; program.updatedStates()[i] >= 0)
      outputs.pointers.push_back(nullptr);
    else
      outputs.add(program, desc, Bytes(desc.bytes()));
  return outputs;
}

} // namespace kfuse::examples
