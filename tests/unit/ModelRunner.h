// Runs planned models on a device, without tuning.
#pragma once

#include "PassHarness.h"

#include "runtime/Program.h"
#include "tuner/model/PlannedModel.h"
#include "tuner/model/ProgramBuilder.h"

#include <algorithm>
#include <functional>

namespace kfuse::test {

/// Compiles planned models for a device with the configs that the templates prefer, equal kernels once, and runs
/// them.
class ModelRunner {
public:
  ModelRunner(const ir::Target &target, runtime::Device &device, runtime::KernelCompiler &compiler)
      : target(target), device(device), compiler(compiler) {}

  /// The results of @main, in order. Arguments by their names.
  std::vector<HostTensor> run(const tuner::PlannedModel &model, const Arguments &arguments) {
    return run(program(model, model.main), prepared(model, arguments));
  }

  /// With what @prepare makes of them.
  Arguments prepared(const tuner::PlannedModel &model, Arguments arguments) {
    if (!model.prepare)
      return arguments;
    runtime::Program prepare = program(model, *model.prepare);
    std::vector<HostTensor> results = run(prepare, arguments);
    for (size_t i = 0; i < results.size(); ++i)
      arguments[prepare.results[i].name] = results[i];
    return arguments;
  }

  runtime::Program program(const tuner::PlannedModel &model, const tuner::PlannedFunction &planned) {
    std::vector<runtime::ProgramKernel> kernels;
    for (const tuner::PlannedKernel &kernel : model.kernels)
      kernels.push_back(compiled(kernel));
    auto built = tuner::buildProgram(planned.function, planned.memory, model.kernelOf, kernels, target.name);
    REQUIRE_MESSAGE(built, built.error().message);
    return std::move(*built);
  }

  /// The program's results; `look` sees the context after the run.
  std::vector<HostTensor> run(
      const runtime::Program &program, const Arguments &arguments, const runtime::ContextOptions &options = {},
      const std::function<void(runtime::Context &)> &look = [](runtime::Context &) {}) {
    std::vector<std::unique_ptr<runtime::DeviceBuffer>> owned;
    std::vector<HostTensor> results;
    std::vector<void *> inputs, outputs;
    for (const TensorDesc &argument : program.arguments)
      inputs.push_back(owned.emplace_back(upload(arguments.at(argument.name)))->data());
    for (size_t i = 0; i < program.results.size(); ++i) {
      const TensorDesc &result = program.results[i];
      results.push_back(HostTensor::zeros(result.type, result.shape));
      std::ranges::fill(results.back().bytes, std::byte{0xff}); // What is not written is NaN.
      const int state = program.resultState[i];                 // It is updated in place.
      outputs.push_back(state >= 0 ? inputs[state] : owned.emplace_back(upload(results.back()))->data());
    }
    auto context = runtime::makeContext(program, device, options);
    REQUIRE_MESSAGE(context, context.error().message);
    auto ran = (*context)->run(nullptr, inputs, outputs);
    REQUIRE_MESSAGE(ran, ran.error().message);
    REQUIRE(device.synchronize(nullptr));
    look(**context);
    for (size_t i = 0; i < results.size(); ++i)
      REQUIRE(device.download(results[i].bytes.data(), outputs[i], results[i].bytes.size()));
    return results;
  }

private:
  const runtime::ProgramKernel &compiled(const tuner::PlannedKernel &kernel) {
    auto [found, isNew] = known.try_emplace(kernel.region.text);
    if (!isNew)
      return found->second;
    auto plan = kernel.kernelTemplate->emit(kernel.region, bestConfig(kernel), target);
    REQUIRE_MESSAGE(plan, plan.error().message);
    auto binary = compiler.compile(*plan);
    REQUIRE_MESSAGE(binary, binary.error().message << "\n" << plan->source);
    return found->second = {std::move(*plan), std::move(*binary)};
  }

  codegen::TileConfig bestConfig(const tuner::PlannedKernel &kernel) const {
    const std::vector<codegen::EstimatedConfig> configs = kernel.kernelTemplate->estimated(kernel.region, target);
    REQUIRE(!configs.empty());
    return std::ranges::min_element(configs, {}, &codegen::EstimatedConfig::us)->config;
  }

  std::unique_ptr<runtime::DeviceBuffer> upload(const HostTensor &tensor) {
    auto buffer = device.allocate(tensor.bytes.size());
    REQUIRE_MESSAGE(buffer, buffer.error().message);
    REQUIRE(device.upload((*buffer)->data(), tensor.bytes.data(), tensor.bytes.size()));
    return std::move(*buffer);
  }

  const ir::Target &target;
  runtime::Device &device;
  runtime::KernelCompiler &compiler;
  std::map<std::string, runtime::ProgramKernel> known;
};

} // namespace kfuse::test
