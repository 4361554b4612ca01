// A tuning task made of functions, of which a test replaces those that it is about.
#pragma once

#include "tuner/search/TuningTask.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace kfuse::tuner::test {

/// Both interfaces of a task. Functions that are null do what the interfaces do by themselves, or nothing.
struct TaskFunctions : ConfigSpace, Oracle {
  std::function<std::vector<codegen::EstimatedConfig>()> onCandidates;
  std::function<codegen::TileWork(const codegen::TileConfig &)> onLeastWork;
  std::function<std::int64_t(const codegen::TileConfig &)> onEstimateGroup;
  std::function<codegen::TileConfig(const codegen::TileConfig &)> onKindOf;
  std::function<Result<codegen::KernelPlan>(const codegen::TileConfig &)> onEmit;
  std::function<HostBuffers()> onMakeInputs;
  std::function<Result<void>(const HostBuffers &)> onExpect;
  std::function<Result<void>(const HostBuffers &, const ReadOutput &)> onCheck;
  std::function<Result<void>(const HostBuffers &, std::size_t, std::vector<std::int64_t>)> onCheckAlso;

  std::vector<codegen::EstimatedConfig> candidates() const override { return onCandidates(); }
  std::optional<codegen::TileWork> leastWork(const codegen::TileConfig &config) const override {
    return onLeastWork ? std::optional(onLeastWork(config)) : std::nullopt;
  }
  std::int64_t estimateGroup(const codegen::TileConfig &config) const override {
    return onEstimateGroup ? onEstimateGroup(config) : ConfigSpace::estimateGroup(config);
  }
  std::optional<codegen::TileConfig> kindOf(const codegen::TileConfig &config) const override {
    return onKindOf ? std::optional(onKindOf(config)) : std::nullopt;
  }
  Result<codegen::KernelPlan> emit(const codegen::TileConfig &config) const override { return onEmit(config); }
  HostBuffers makeInputs() const override { return onMakeInputs(); }
  Result<void> expect(const HostBuffers &inputs) override { return onExpect ? onExpect(inputs) : Result<void>(); }
  Result<void> check(const HostBuffers &inputs, const ReadOutput &read) override { return onCheck(inputs, read); }
  Result<void> checkAlso(const HostBuffers &inputs, std::size_t output, std::vector<std::int64_t> elements) override {
    return onCheckAlso ? onCheckAlso(inputs, output, std::move(elements)) : Result<void>();
  }
};

/// A task whose functions are to be given.
inline TuningTask taskOfFunctions() {
  auto functions = std::make_shared<TaskFunctions>();
  TuningTask task;
  task.space = functions;
  task.oracle = functions;
  return task;
}

/// Those of a task made by taskOfFunctions(), which its copies share.
inline TaskFunctions &functionsOf(const TuningTask &task) { return dynamic_cast<TaskFunctions &>(*task.oracle); }

} // namespace kfuse::tuner::test
