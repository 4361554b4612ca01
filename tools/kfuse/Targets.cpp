#include "Commands.h"
#include "Json.h"
#include "Table.h"
#include "codegen/cuda/text/DeviceLibrary.h"
#include "ir/Target.h"
#include "runtime/Device.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

namespace kfuse::tools {
namespace {

struct Found {
  std::string target, name, detail;
};

/// What this machine has: its CPU and its GPUs.
std::vector<Found> findDevices(std::string &noGpu) {
  std::vector<Found> found{{"cpu", runtime::cpuFacts().sku, ""}};
  Result<std::vector<runtime::GpuFacts>> gpus = runtime::listGpus();
  if (!gpus) {
    noGpu = gpus.error().message;
    return found;
  }
  for (const runtime::GpuFacts &gpu : *gpus)
    found.push_back({gpu.target, gpu.name,
                     fmt::format("{} SMs, {} memory, {} L2, driver {}", gpu.multiprocessors,
                                 formatBytes(static_cast<double>(gpu.memoryBytes)),
                                 formatBytes(static_cast<double>(gpu.l2Bytes)), gpu.driver)});
  return found;
}

/// The cards of a family that have facts of their own.
std::vector<std::string> cardsOf(const ir::Target &family) {
  std::vector<std::string> cards;
  for (const ir::Target &card : ir::knownCards())
    if (card.name == family.name)
      cards.push_back(card.card);
  return cards;
}

std::string compilerVersion() {
  Result<std::unique_ptr<runtime::KernelCompiler>> compiler = runtime::makeCudaCompiler(codegen::cuda::deviceHeaders());
  return compiler ? (*compiler)->version() : compiler.error().message;
}

int printJson(const std::vector<Found> &found, const std::string &noGpu) {
  Json json{{"targets", Json::array()}, {"devices", Json::array()}, {"cuda_compiler", compilerVersion()}};
  for (const ir::Target &target : ir::knownTargets())
    json["targets"].push_back({{"name", target.name}, {"devices", target.description}, {"cards", cardsOf(target)}});
  for (const Found &device : found)
    json["devices"].push_back({{"target", device.target}, {"name", device.name}, {"detail", device.detail}});
  if (!noGpu.empty())
    json["no_gpu"] = noGpu;
  fmt::print("{}", textOf(json));
  return 0;
}

int targets(bool json) {
  std::string noGpu;
  std::vector<Found> found = findDevices(noGpu);
  if (json)
    return printJson(found, noGpu);
  Table known({"target", "here", "cards with facts of their own, else devices of the family"});
  for (const ir::Target &target : ir::knownTargets()) {
    bool here =
        std::any_of(found.begin(), found.end(), [&](const Found &device) { return device.target == target.name; });
    const std::vector<std::string> cards = cardsOf(target);
    known.add({target.name, here ? "yes" : "-",
               cards.empty() ? target.description : fmt::format("{}", fmt::join(cards, ", "))});
  }
  Table devices({"found", "device"});
  for (const Found &device : found)
    devices.add({device.target, device.name + (device.detail.empty() ? "" : ": " + device.detail)});
  fmt::print("{}\n{}", known.str(), devices.str());
  if (!noGpu.empty())
    fmt::print("no GPU: {}\n", noGpu);
  fmt::print("CUDA compiler: {}\n", compilerVersion());
  return 0;
}

} // namespace

void addTargets(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand("targets", "Known targets, and the devices found here");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "One JSON object on stdout");
  command->callback([json, &status] { status = targets(*json); });
}

} // namespace kfuse::tools
