#include "tuner/api/Targets.h"
#include "ir/Target.h"
#include "kfuse/inspect.h"
#include "tools/kfuse/Commands.h"
#include "tools/kfuse/console/Table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace kfuse::tools {
namespace {

int targets(bool json) {
  if (json) {
    fmt::print("{}", describeTargets());
    return 0;
  }
  const tuner::FoundDevices found = tuner::findDevices();
  Table known({"target", "here", "cards with facts of their own, else devices of the architecture"});
  for (const ir::Target &target : ir::knownTargets()) {
    bool here = std::ranges::any_of(found.devices,
                                    [&](const tuner::FoundDevice &device) { return device.target == target.name; });
    const std::vector<std::string> cards = tuner::cardsOf(target);
    known.add({target.name, here ? "yes" : "-",
               cards.empty() ? target.description : fmt::format("{}", fmt::join(cards, ", "))});
  }
  Table devices({"found", "device"});
  for (const tuner::FoundDevice &device : found.devices)
    devices.add({device.target, device.name + (device.detail.empty() ? "" : ": " + device.detail)});
  fmt::print("{}\n{}", known.str(), devices.str());
  if (!found.noGpu.empty())
    fmt::print("no GPU: {}\n", found.noGpu);
  fmt::print("CUDA compiler: {}\n", tuner::cudaCompilerVersion());
  return 0;
}

} // namespace

void addTargets(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand("targets", "Known targets, and the devices found here");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "One JSON object on stdout");
  command->footer("Example:\n  kfuse targets --json");
  command->callback([json, &status] { status = targets(*json); });
}

} // namespace kfuse::tools
