// Every config of a region, compiled and measured on the GPU.
#pragma once

#include "bench/Candidates.h"
#include "codegen/cuda/text/DeviceLibrary.h"

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

namespace kfuse::bench {

struct SweepOptions {
  CandidateFilter candidates;
  int chained = 0;           ///< Calls in a chain; 0: none is measured.
  std::size_t finalists = 6; ///< The fastest of all, whose measurements are interleaved.
};

struct SweptConfig {
  codegen::TileConfig config;
  codegen::KernelPlan plan;
  double us = 0, modelled = 0;
  double chainedUs = 0; ///< The time of a call in a chain of them.
  double compileMs = 0;
  bool isFinal = true; ///< Whether `us` is of runs interleaved with others.
  std::unique_ptr<runtime::LoadedKernel> loaded;
};

/// What a kernel runs on.
struct Buffers {
  std::vector<void *> pointers() const;
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> tensors;
  std::unique_ptr<runtime::DeviceBuffer> workspace; ///< Null where the kernel has none.
};

/// Best time of all configs over the best time of the first few that the tuner would try.
struct Ranking {
  double first, eight, forty;
};

struct Swept {
  runtime::LoadedKernel &best() const { return *configs.front().loaded; }
  std::vector<SweptConfig> configs; ///< The fastest first.
  Buffers buffers;
  Ranking ranking;
};

/// Configs in the tuner's order, and what their compilation is going to give.
struct StartedSweep {
  std::vector<SweptConfig> configs;
  std::future<std::vector<Result<runtime::CompiledKernel>>> compiled;
};

class Sweep {
public:
  explicit Sweep(SweepOptions options);

  ParsedRegion parse(const Case &given) { return parseRegion(context, given); }
  /// Emits every config and starts to compile them, while the device may be at work on others.
  StartedSweep start(const codegen::Region &region);
  /// Measures every config in the order in which the tuner would try them, then the fastest of them, of the first 40
  /// and of the first 8 interleaved: the card's clock falls while it works.
  Swept finish(const codegen::Region &region, StartedSweep started);
  Swept run(const codegen::Region &region) { return finish(region, start(region)); }

  /// Median microseconds.
  double measure(runtime::LoadedKernel &kernel, const Buffers &buffers, int repetitions, bool cold = true);
  runtime::Device &device() { return *gpu; }
  const SweepOptions &options() const { return settings; }

private:
  Buffers allocate(const codegen::Region &region, const std::vector<SweptConfig> &all);
  void measureEach(std::vector<SweptConfig> &all, const Buffers &buffers);
  void measureInterleaved(std::vector<SweptConfig> &all, const Buffers &buffers);

  SweepOptions settings;
  std::string what; ///< Is being measured, for errors.
  std::unique_ptr<runtime::Device> gpu;
  std::unique_ptr<runtime::KernelCompiler> compiler;
  const ir::Target &target;
  mlir::MLIRContext context;
};

/// Medians of what each of `measure` returns, called in the order A B C, C B A and so on.
std::vector<double> mediansInterleaved(int rounds, const std::vector<std::function<double()>> &measure);

} // namespace kfuse::bench
