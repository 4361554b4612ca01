#include "tuner/api/Targets.h"

#include "codegen/cuda/text/DeviceLibrary.h"
#include "kfuse/inspect.h"
#include "runtime/Device.h"
#include "tuner/record/Json.h"

#include <fmt/format.h>

#include <memory>

namespace kfuse {
namespace tuner {

FoundDevices findDevices() {
  FoundDevices found{{{"cpu", runtime::cpuFacts().sku, ""}}, ""};
  Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus();
  if (!gpus) {
    found.noGpu = gpus.error().message;
    return found;
  }
  for (const runtime::GpuFacts &gpu : *gpus)
    found.devices.push_back(
        {gpu.target, gpu.name,
         fmt::format("{} SMs, {:.3g} GB memory, {:.3g} MB L2, driver {}", gpu.multiprocessors,
                     static_cast<double>(gpu.memoryBytes) / 1e9, static_cast<double>(gpu.l2Bytes) / 1e6, gpu.driver)});
  return found;
}

std::vector<std::string> cardsOf(const ir::Target &architecture) {
  std::vector<std::string> cards;
  for (const ir::Target &card : ir::knownCards())
    if (card.name == architecture.name)
      cards.push_back(card.card);
  return cards;
}

std::string cudaCompilerVersion() {
  Result<std::unique_ptr<runtime::KernelCompiler>> compiler = runtime::makeCudaCompiler(codegen::cuda::deviceHeaders());
  return compiler ? (*compiler)->version() : compiler.error().message;
}

} // namespace tuner

std::string describeTargets() {
  using tuner::Json;
  const tuner::FoundDevices found = tuner::findDevices();
  Json json{{"targets", Json::array()}, {"devices", Json::array()}, {"cuda_compiler", tuner::cudaCompilerVersion()}};
  for (const ir::Target &target : ir::knownTargets())
    json["targets"].push_back(
        {{"name", target.name}, {"devices", target.description}, {"cards", tuner::cardsOf(target)}});
  for (const tuner::FoundDevice &device : found.devices)
    json["devices"].push_back({{"target", device.target}, {"name", device.name}, {"detail", device.detail}});
  if (!found.noGpu.empty())
    json["no_gpu"] = found.noGpu;
  return tuner::textOf(json);
}

} // namespace kfuse
