#include "tuner/record/Key.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>

using namespace kfuse;
using namespace kfuse::tuner;

namespace {

codegen::KernelPlan samplePlan() {
  codegen::KernelPlan plan;
  plan.name = "add";
  plan.target = "sm_90a";
  plan.source = "void add()";
  plan.options = {"-O3"};
  plan.inputs = {{DType::F32, {4, 8}}};
  plan.outputs = {{DType::F32, {4, 8}}};
  plan.inPlace = {-1};
  codegen::Launch launch;
  launch.entry = "add";
  launch.args = {{codegen::KernelArg::Kind::Buffer, 0}};
  plan.launches = {launch};
  plan.tensorMaps = {{0, DType::BF16, {8, 4}, {16}, {8, 4}, 64}};
  return plan;
}

} // namespace

TEST_CASE("key: hashes are the same in every release") {
  // uuid.uuid5(uuid.UUID("3b1c7e52-904d-4f0a-8e61-27d45ac093f8"), "2:ab1:c") in Python.
  CHECK(stableHash({"ab", "c"}) == "1b3c251a-8ae8-511b-b9d6-dc907bbbc5f8");
  CHECK(stableHash({"ab", "c"}) != stableHash({"a", "bc"}));
  CHECK(stableHash({"ab"}) != stableHash({"ab", ""}));
}

TEST_CASE("key: whatever can change a kernel's code or time changes its key") {
  std::set<std::string> keys{tuningKey(samplePlan(), "nvrtc 13.0", "NVIDIA H200"),
                             tuningKey(samplePlan(), "nvrtc 13.1", "NVIDIA H200"),
                             tuningKey(samplePlan(), "nvrtc 13.0", "NVIDIA B200")};
  const std::function<void(codegen::KernelPlan &)> changes[] = {
      [](auto &plan) { plan.target = "sm_100a"; },
      [](auto &plan) { plan.source += " "; },
      [](auto &plan) { plan.options.push_back("-g"); },
      [](auto &plan) { plan.inputs[0].shape[0] = 5; },
      [](auto &plan) { plan.outputs[0].type = DType::F16; },
      [](auto &plan) { plan.inPlace[0] = 0; },
      [](auto &plan) { plan.workspaceBytes = 8; },
      [](auto &plan) { plan.zeroedBytes = 8; },
      [](auto &plan) { plan.launches[0].grid[1] = 2; },
      [](auto &plan) { plan.launches[0].block[0] = 2; },
      [](auto &plan) { plan.launches[0].cluster[0] = 2; },
      [](auto &plan) { plan.launches[0].sharedBytes = 2; },
      [](auto &plan) { plan.launches[0].programmaticLaunch = true; },
      [](auto &plan) { plan.launches[0].items = 2; },
      [](auto &plan) { plan.launches[0].grain = 2; },
      [](auto &plan) { plan.launches[0].args[0].index = 2; },
      [](auto &plan) { plan.launches[0].args[0].kind = codegen::KernelArg::Kind::Workspace; },
      [](auto &plan) { plan.launches.push_back(plan.launches[0]); },
      [](auto &plan) { plan.tensorMaps[0].swizzleBytes = 128; },
      [](auto &plan) { plan.tensorMaps[0].inWorkspace = true; },
      [](auto &plan) { plan.tensorMaps[0].box[0] = 4; }};
  std::size_t expected = keys.size();
  for (const auto &change : changes) {
    codegen::KernelPlan plan = samplePlan();
    change(plan);
    keys.insert(tuningKey(plan, "nvrtc 13.0", "NVIDIA H200"));
    CHECK(keys.size() == ++expected);
  }
  codegen::KernelPlan renamed = samplePlan();
  renamed.name = "another name";
  CHECK(keys.count(tuningKey(renamed, "nvrtc 13.0", "NVIDIA H200")) == 1);
}
