// One distinct kernel to choose a config for, as plain data and callbacks: the tuner knows no IR.
#pragma once

#include "codegen/KernelPlan.h"
#include "codegen/TileConfig.h"
#include "codegen/TileWork.h"
#include "kfuse/error.h"
#include "tuner/record/Roofline.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::tuner {

/// Dense host copies of a kernel's inputs, or of its outputs, in the plan's order. Of an input that repeats itself it
/// may be the first elements alone.
using HostBuffers = std::vector<std::vector<std::byte>>;

/// Reads as many bytes of an output as `into` has, from `offset` on.
using ReadOutput = std::function<Result<void>(std::size_t output, std::size_t offset, std::span<std::byte> into)>;
/// From outputs that are here, and outlive it.
ReadOutput readFrom(const HostBuffers &outputs);

struct TuningTask {
  std::string name;         ///< For people: "matmul_add_gelu".
  std::string ops;          ///< For people: "matmul + add + gelu".
  std::string templateName; ///< "cuda.matmul"; with its revision where it has one.
  std::string signature;    ///< Stable text of the fused region: ops, shapes, types.
  int uses = 1;             ///< How often the model runs it.
  Work work;

  /// The legal configs with their modelled microseconds, for ranking. All of them compute the same outputs from the
  /// same inputs. Listed anew at each call: a warm start needs no list.
  std::function<std::vector<codegen::EstimatedConfig>()> candidates;
  /// Less than which a config cannot do; null when all do the same.
  std::function<codegen::TileWork(const codegen::TileConfig &)> leastWork;
  /// Configs of one way have estimates that err alike; null when there is one way.
  std::function<std::int64_t(const codegen::TileConfig &)> wayOf;
  /// Configs of one kind are about equally fast; null when no two are known to be.
  std::function<codegen::TileConfig(const codegen::TileConfig &)> kindOf;
  std::function<Result<codegen::KernelPlan>(const codegen::TileConfig &)> emit;

  /// Random contents of the inputs; the same bytes at each call.
  std::function<HostBuffers()> makeInputs;
  /// Works out what `check` compares with, ahead of it; null where there is nothing to work out.
  std::function<Result<void>(const HostBuffers &inputs)> expect;
  /// Compares outputs with the oracle: WrongResult and the reason when they are wrong; any other error
  /// ends the search.
  std::function<Result<void>(const HostBuffers &inputs, const ReadOutput &read)> check;
  /// Has `check` look at these elements of an output, too, from now on; null where it looks at all there are.
  std::function<Result<void>(const HostBuffers &inputs, std::size_t output, std::vector<std::int64_t> elements)>
      checkAlso;
  /// Per output: the input whose memory it must share because it is a state of which a run writes a
  /// part, or -1. Empty: none is.
  std::vector<int> stateOf;
};

} // namespace kfuse::tuner
