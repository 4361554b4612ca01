// What a pack says of its model and of the ways to run it. Plain data.
#pragma once

#include "kfuse/error.h"
#include "kfuse/types.h"
#include "runtime/Lengths.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kfuse::runtime {

/// Where a program of a pack lies: its section, and those of its kernels' machine code, in their order.
struct PackedProgram {
  std::uint32_t section = 0;
  std::vector<std::uint32_t> code;
  friend bool operator==(const PackedProgram &, const PackedProgram &) = default;
};

/// What runs the lengths of one bucket.
struct PackedBucket {
  PackedProgram main;
  std::vector<PackedProgram> prepare; ///< None or one: what computes from the parameters, once.
  LengthEdges edges;
  /// A key for each prepared value: another bucket that prepares the same has an equal one.
  std::vector<std::string> preparedKeys;
  friend bool operator==(const PackedBucket &, const PackedBucket &) = default;
};

/// The model, compiled for one kind of device.
struct PackVariant {
  std::string target;                 ///< "sm_90a"; "compute_80" is PTX, which the driver compiles; "cpu".
  std::string sku;                    ///< The device whose times chose the kernels; "" where the cost model did.
  std::int32_t multiprocessors = 0;   ///< That a device needs, as blocks wait for each other; 0 where none do.
  std::int32_t sharedBytes = 0;       ///< The most shared memory that a block of it takes.
  std::int32_t cuda = 0;              ///< The toolkit, in cuDriverGetVersion()'s numbers: 13000 is 13.0; 0 on the CPU.
  std::vector<std::string> features;  ///< What its code needs of a CPU: "avx2", as in CpuFeatures.h.
  std::string compiler;               ///< "nvrtc 13.0", "llvm 19.1.7".
  std::uint64_t nanoseconds = 0;      ///< A run's on the SKU; 0 where it was not timed.
  std::string plan;                   ///< Its kernels and their times: the JSON object of `kfuse tune --json`.
  PackedProgram main;                 ///< Where runs give lengths, of the last bucket.
  std::vector<PackedProgram> prepare; ///< None or one: what computes from the parameters, once.
  // Since 1.1:
  std::vector<std::vector<std::int64_t>> rungs; ///< Of BucketTable, where runs give lengths; else empty.
  std::vector<PackedBucket> buckets;            ///< In the table's order.
  friend bool operator==(const PackVariant &, const PackVariant &) = default;

  bool isPtx() const { return target.starts_with("compute_"); }
  /// "sm_90a for NVIDIA H200", for people.
  std::string title() const;
};

struct Manifest {
  std::string model; ///< The name of its file.
  std::string tool;  ///< "kfuse 0.1.0".
  std::vector<TensorDesc> inputs, parameters, states, outputs;
  std::vector<std::int32_t> updatedStates; ///< Per output: the state that it is after its update in place, or -1.
  /// Per parameter: the section of its bytes, or 0 where the caller gives them. Empty where he gives all.
  std::vector<std::uint32_t> weights;
  std::vector<PackVariant> variants; ///< One or more.
  // Since 1.1:
  std::vector<Dim> dims; ///< Sizes that each run gives.
  /// TensorDesc::dims of each, where runs give lengths; else empty.
  std::vector<std::vector<Dim>> inputDims, outputDims;
  std::string
      weightsFile; ///< A safetensors file with parameters, as seen from the pack's folder; "" where there is none.
  /// Per parameter in that file: the SHA-256 of its bytes, in hexadecimal digits; "" of others. Empty where there is
  /// no file.
  std::vector<std::string> weightSeals;
  friend bool operator==(const Manifest &, const Manifest &) = default;

  /// The seal of a parameter in the file that it names; "" for others.
  std::string_view sealOf(std::size_t parameter) const {
    return weightSeals.empty() ? std::string_view() : weightSeals[parameter];
  }
  std::vector<std::byte> serialise() const;
  /// BadModel with what is wrong.
  static Result<Manifest> deserialise(std::span<const std::byte> bytes);
};

} // namespace kfuse::runtime
