// What a kernel template emits: source text and how to launch it. Plain data: no MLIR, no CUDA.
#pragma once

#include "kfuse/types.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kfuse::codegen {

/// One argument of a launch, resolved against the kernel's buffers when it runs.
struct KernelArg {
  enum class Kind : std::uint8_t {
    Buffer,    ///< Pointer to buffer `index`: inputs first, then outputs, as in KernelPlan.
    Workspace, ///< Pointer to `index` bytes into the kernel's scratch memory.
    TensorMap  ///< `tensorMaps[index]`, a CUtensorMap passed by value (sm_90 and up).
  };
  Kind kind = Kind::Buffer;
  std::uint64_t index = 0;
  friend bool operator==(const KernelArg &, const KernelArg &) = default;
};

/// How the driver encodes a TMA descriptor when pointers are known. Dimensions innermost first,
/// strides in bytes for dimensions 1 and up (dimension 0 is dense).
struct TensorMapRecipe {
  std::uint32_t buffer = 0;
  DType type = DType::BF16;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> strideBytes;
  std::vector<std::uint32_t> box;
  std::uint32_t swizzleBytes = 0; ///< 0, 32, 64 or 128.
  std::uint64_t offsetBytes = 0;  ///< Where the tensor begins in the buffer or the scratch memory, a multiple of 16.
  bool inWorkspace = false;       ///< The tensor lies in the kernel's scratch memory instead of a buffer.
  friend bool operator==(const TensorMapRecipe &, const TensorMapRecipe &) = default;
};

/// What a grid counts on of the device that runs it.
struct Residency {
  std::uint32_t multiprocessors = 0; ///< That it was made for; 0: any will do, for a block has one piece of work.
  std::uint32_t heldBlocks = 0;      ///< That these hold at once.
  /// Blocks that would have work, of which each goes on to further work by gridDim.x: any number of whole clusters up
  /// to it is right. 0: blocks wait for each other, so that all must be held at once.
  std::uint32_t workBlocks = 0;
  bool isAdaptable() const { return workBlocks > 0; }
  friend bool operator==(const Residency &, const Residency &) = default;
};

/// One launch. On a GPU: grid, block, cluster and shared memory. On the CPU: the entry is
/// `void entry(void *const *args, int64_t begin, int64_t end)` over `items` independent pieces,
/// handed to threads `grain` at a time.
struct Launch {
  std::string entry;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::array<std::uint32_t, 3> cluster{1, 1, 1};
  std::uint32_t sharedBytes = 0; ///< Dynamic shared memory.
  bool programmaticLaunch =
      false;              ///< It may start before its predecessor ends, for which it waits by itself (griddepcontrol).
  bool needsNoL1 = false; ///< L1 would hold nothing that is read again: SMs may have all of it as shared memory.
  std::uint64_t items = 0;
  std::uint64_t grain = 1;
  std::vector<KernelArg> args;
  Residency residency;
  friend bool operator==(const Launch &, const Launch &) = default;
};

/// A buffer a kernel reads or writes: dense, row-major.
struct BufferDesc {
  DType type = DType::F32;
  Shape shape;
  std::size_t bytes() const { return byteSize(type, shape); }
  friend bool operator==(const BufferDesc &, const BufferDesc &) = default;
};

/// KernelPlan::zeroedBytes comes in multiples of it, which keep the rest of every workspace aligned.
inline constexpr std::uint64_t zeroedGranule = 256;

/// Everything needed to compile and launch one fused region with one config.
struct KernelPlan {
  std::string name;                 ///< For people: "matmul_bias_gelu".
  std::string target;               ///< Target::name it is compiled for.
  std::string source;               ///< CUDA C++ for NVRTC, or MLIR text (linalg on memrefs) for the CPU.
  std::vector<std::string> options; ///< Further compile options.
  std::vector<BufferDesc> inputs;   ///< Read only.
  std::vector<BufferDesc> outputs;  ///< Written; may alias input `inPlace[i]`.
  std::vector<int> inPlace;         ///< Per output: the input it is allowed (state: required) to alias, or -1.
  std::vector<Launch> launches;     ///< In order; each sees the former's writes.
  std::vector<TensorMapRecipe> tensorMaps;
  std::uint64_t workspaceBytes = 0; ///< Scratch memory. Its contents are undefined at entry, but for zeroedBytes.
  std::uint64_t zeroedBytes = 0;    ///< The first bytes of it, whole zeroedGranules, are zero at entry and exit.
  bool programmaticLaunch = false;  ///< A run launches it behind another kernel, and so it is timed and keyed.
  friend bool operator==(const KernelPlan &, const KernelPlan &) = default;
};

} // namespace kfuse::codegen
