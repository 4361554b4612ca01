// Runs regions through the CPU target and judges them by the numerics policy.
#pragma once

#include "EvaluateText.h"

#include "codegen/KernelTemplate.h"
#include "codegen/MakeRegion.h"
#include "ir/reference/Policy.h"
#include "runtime/Device.h"

#include <cstring>
#include <optional>

namespace kfuse::test {

/// One device and compiler for all cases of a binary.
inline runtime::Device &cpu() {
  static const std::unique_ptr<runtime::Device> device = runtime::openCpu(2);
  return *device;
}
inline runtime::KernelCompiler &cpuCompiler() {
  static const std::unique_ptr<runtime::KernelCompiler> compiler = runtime::makeCpuCompiler();
  return *compiler;
}

inline std::unique_ptr<runtime::DeviceBuffer> onCpu(const HostTensor &tensor) {
  auto buffer = cpu().allocate(tensor.bytes.size());
  REQUIRE_MESSAGE(buffer, buffer.error().message);
  REQUIRE(cpu().upload((*buffer)->data(), tensor.bytes.data(), tensor.bytes.size()));
  return std::move(*buffer);
}

/// Compiles and runs a plan. Outputs are poisoned first, but for state, which starts as its input.
inline std::vector<HostTensor> runPlan(const codegen::KernelPlan &plan, const std::vector<HostTensor> &arguments) {
  auto kernel = cpuCompiler().compile(plan);
  REQUIRE_MESSAGE(kernel, kernel.error().message << "\n" << plan.source);
  auto loaded = cpu().load(plan, *kernel);
  REQUIRE_MESSAGE(loaded, loaded.error().message);

  std::vector<std::unique_ptr<runtime::DeviceBuffer>> owned;
  std::vector<void *> buffers;
  for (const HostTensor &argument : arguments)
    buffers.push_back(owned.emplace_back(onCpu(argument))->data());
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    if (plan.inPlace[i] >= 0) {
      buffers.push_back(buffers[plan.inPlace[i]]);
      continue;
    }
    HostTensor poisoned = HostTensor::zeros(plan.outputs[i].type, plan.outputs[i].shape);
    std::fill(poisoned.bytes.begin(), poisoned.bytes.end(), std::byte{0xff});
    buffers.push_back(owned.emplace_back(onCpu(poisoned))->data());
  }
  auto workspace = cpu().allocate(plan.workspaceBytes);
  REQUIRE(workspace);
  REQUIRE(cpu().fill((*workspace)->data(), 0xff, plan.workspaceBytes));
  auto launched = (*loaded)->launch(nullptr, buffers, (*workspace)->data());
  REQUIRE_MESSAGE(launched, launched.error().message);

  std::vector<HostTensor> outputs;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    HostTensor output = HostTensor::zeros(plan.outputs[i].type, plan.outputs[i].shape);
    REQUIRE(cpu().download(output.bytes.data(), buffers[arguments.size() + i], output.bytes.size()));
    outputs.push_back(std::move(output));
  }
  return outputs;
}

/// A region on the CPU target.
class CpuRegion {
public:
  /// `function`: the text of one function whose body is the region.
  explicit CpuRegion(const std::string &function) : parsed(function) {
    auto made = codegen::makeRegion(parsed.body());
    REQUIRE_MESSAGE(made, made.error().message);
    region = std::move(*made);
    std::string reasons;
    kernelTemplate = codegen::templateFor(*region, target(), &reasons);
    REQUIRE_MESSAGE(kernelTemplate, reasons);
  }

  static const ir::Target &target() { return *ir::findTarget("cpu"); }
  std::string templateName() const { return std::string(kernelTemplate->name()); }
  std::vector<codegen::TileConfig> candidates() const { return kernelTemplate->candidates(*region, target()); }

  codegen::KernelPlan plan(const codegen::TileConfig &config, const ir::Target &to = target()) const {
    auto emitted = kernelTemplate->emit(*region, config, to);
    REQUIRE_MESSAGE(emitted, emitted.error().message);
    return std::move(*emitted);
  }

  /// Every config's outputs are right.
  void check(const std::vector<HostTensor> &arguments) {
    std::vector<codegen::TileConfig> configs = candidates();
    REQUIRE(!configs.empty());
    for (const codegen::TileConfig &config : configs)
      check(arguments, config);
  }
  void check(const std::vector<HostTensor> &arguments, const codegen::TileConfig &config,
             const ir::Target &to = target()) {
    codegen::KernelPlan made = plan(config, to);
    std::vector<HostTensor> outputs = runPlan(made, arguments);
    auto verdicts = reference::checkOutputs(parsed.body(), arguments, outputs);
    REQUIRE_MESSAGE(verdicts, verdicts.error().message);
    for (const reference::Verdict &verdict : *verdicts)
      CHECK_MESSAGE(verdict.right, config.str() << ": " << verdict.message << "\n" << made.source);
  }

  ParsedModule parsed;
  std::optional<codegen::Region> region;
  const codegen::KernelTemplate *kernelTemplate = nullptr;
};

/// Checks a region of %arg0, %arg1, ... that is one line, or lines of "%x = ..." before it.
inline void checkRegion(const std::string &lines, const std::vector<HostTensor> &arguments,
                        const std::string &expectedTemplate = "") {
  std::size_t last = lines.rfind('\n') == std::string::npos ? 0 : lines.rfind('\n') + 1;
  std::string text = functionText(lines.substr(last), arguments);
  text.insert(text.find("{ %r") + 1, "\n" + lines.substr(0, last));
  CAPTURE(text);
  CpuRegion region(text);
  if (!expectedTemplate.empty())
    CHECK(region.templateName() == expectedTemplate);
  region.check(arguments);
}

} // namespace kfuse::test
