// One distinct kernel to choose a config for, behind two small interfaces: the tuner knows no IR.
#pragma once

#include "codegen/KernelPlan.h"
#include "codegen/TileConfig.h"
#include "codegen/TileWork.h"
#include "kfuse/error.h"
#include "tuner/record/Roofline.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::tuner {

/// Dense host copies of a kernel's inputs, or of its outputs, in the plan's order. An input that repeats itself may
/// have its first elements alone.
using HostBuffers = std::vector<std::vector<std::byte>>;

/// Reads as many bytes of an output as `into` has, from `offset` on.
using ReadOutput = std::function<Result<void>(std::size_t output, std::size_t offset, std::span<std::byte> into)>;
/// From outputs that are here, and outlive it.
ReadOutput readFrom(const HostBuffers &outputs);

/// The configs that a kernel may have.
class ConfigSpace {
public:
  ConfigSpace() = default;
  ConfigSpace(const ConfigSpace &) = delete;
  ConfigSpace &operator=(const ConfigSpace &) = delete;
  virtual ~ConfigSpace() = default;

  /// The legal configs with their modelled microseconds, for ranking. All of them compute the same outputs from the
  /// same inputs. Listed anew at each call: a warm start needs no list.
  virtual std::vector<codegen::EstimatedConfig> candidates() const = 0;
  /// Less than this a config cannot do; nothing when all do the same.
  virtual std::optional<codegen::TileWork> leastWork(const codegen::TileConfig &) const { return std::nullopt; }
  /// Configs of one group have estimates that err alike.
  virtual std::int64_t estimateGroup(const codegen::TileConfig &) const { return 0; }
  /// Configs of one kind are about equally fast; nothing when no two are known to be.
  virtual std::optional<codegen::TileConfig> kindOf(const codegen::TileConfig &) const { return std::nullopt; }
  virtual Result<codegen::KernelPlan> emit(const codegen::TileConfig &config) const = 0;
};

/// A kernel's inputs, and what its outputs must be.
class Oracle {
public:
  Oracle() = default;
  Oracle(const Oracle &) = delete;
  Oracle &operator=(const Oracle &) = delete;
  virtual ~Oracle() = default;

  /// Random contents of the inputs; the same bytes at each call.
  virtual HostBuffers makeInputs() const = 0;
  /// Works out what check() compares with, ahead of it.
  virtual Result<void> expect(const HostBuffers &inputs) = 0;
  /// Compares outputs with the oracle: WrongResult and the reason when they are wrong; any other error ends the search.
  virtual Result<void> check(const HostBuffers &inputs, const ReadOutput &read) = 0;
  /// Has check() look at these elements of an output, too, from now on.
  virtual Result<void> checkAlso(const HostBuffers &inputs, std::size_t output, std::vector<std::int64_t> elements) = 0;
};

struct TuningTask {
  std::string name;         ///< For people: "matmul_add_gelu".
  std::string ops;          ///< For people: "matmul + add + gelu".
  std::string templateName; ///< "cuda.matmul"; with its revision where it has one.
  std::string signature;    ///< Stable text of the fused region: ops, shapes, types.
  int uses = 1;             ///< How often the model runs it.
  std::size_t program = 0;  ///< Which of the programs that are tuned together it is a kernel of.
  Work work;
  std::shared_ptr<const ConfigSpace> space;
  std::shared_ptr<Oracle> oracle;
  /// Per output: the input whose memory it must share because it is a state of which a run writes a
  /// part, or -1. Empty: none is.
  std::vector<int> stateOf;
};

} // namespace kfuse::tuner
