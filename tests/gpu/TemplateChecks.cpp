#include "tests/gpu/TemplateChecks.h"

#include "codegen/cuda/text/DeviceLibrary.h"
#include "runtime/Residency.h"
#include "tests/cuda/Oracle.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>

namespace kfuse::test {
namespace {

using codegen::KernelPlan;
using codegen::TileConfig;
using reference::HostTensor;

/// Configs spread over a ranked space, with at least one of each storage and each split of K.
std::vector<TileConfig> spread(const std::vector<TileConfig> &all, std::size_t count) {
  std::set<std::size_t> chosen;
  for (std::size_t i = 0; i < count && !all.empty(); ++i)
    chosen.insert(i * (all.size() - 1) / std::max<std::size_t>(1, count - 1));
  std::set<std::pair<std::string, std::int64_t>> seen;
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const char *field : {"storage", "split_k", "vector", "swap", "cluster", "shared", "splits", "stages", "warps",
                              "blocks_k", "groups_k", "pingpong", "cluster_m", "cluster_n", "segments"})
      if (all[i].has(field) && seen.emplace(field, all[i][field]).second)
        chosen.insert(i);
  std::vector<TileConfig> configs;
  for (std::size_t i : chosen)
    configs.push_back(all[i]);
  return configs;
}

/// Calls `work(i)` for each i below `count`, on all cores. A REQUIRE that fails ends its call alone.
void onAllCores(std::size_t count, const std::function<void(std::size_t)> &work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < std::max(1U, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (std::size_t i = next++; i < count; i = next++)
        try {
          work(i);
        } catch (const std::exception &error) {
          FAIL_CHECK(error.what());
        } catch (...) { // A REQUIRE that failed: it is counted.
        }
    });
}

/// Device memory that holds a tensor.
std::unique_ptr<runtime::DeviceBuffer> uploaded(Gpu &gpu, const HostTensor &tensor) {
  auto buffer = take(gpu.device->allocate(tensor.bytes.size()));
  succeed(gpu.device->upload(buffer->data(), tensor.bytes.data(), tensor.bytes.size()));
  return buffer;
}

/// The plan with the grids that it gets on an H20, here.
KernelPlan asOnFewer(const KernelPlan &plan) {
  KernelPlan fewer = runtime::planOn(plan, 78);
  for (codegen::Launch &launch : fewer.launches)
    launch.residency = {};
  return fewer;
}

} // namespace

/// What was added in one call.
struct TemplateChecks::Group {
  const codegen::KernelTemplate &source;
  bool mayRefuse;
  std::size_t cases = 0, configs = 0, spilled = 0;
  std::string spills = {}; ///< Which.
};

struct TemplateChecks::Kernel {
  Check &check;
  TileConfig config;
  KernelPlan plan;
  bool spills = false;
};

/// One case of a group.
struct TemplateChecks::Check {
  std::size_t group;
  TemplateCase text;
  Choose choose;
  std::unique_ptr<RegionCase> given;
  std::vector<HostTensor> inputs;
  std::unique_ptr<Oracle> oracle;
  std::vector<Kernel> kernels; ///< None where the template refuses the case.
};

TemplateChecks::TemplateChecks()
    : target(*ir::findTarget(gpu.device->target())),
      compiler(take(runtime::makeCudaCompiler(codegen::cuda::deviceHeaders()))) {}
TemplateChecks::~TemplateChecks() = default;

void TemplateChecks::add(std::vector<TemplateCase> cases, const codegen::KernelTemplate &source, std::size_t count,
                         bool mayRefuse) {
  add(std::move(cases), Group{source, mayRefuse}, [this, &source, count](const codegen::Region &region) {
    return spread(source.candidates(region, target), count);
  });
}

void TemplateChecks::add(const Schedule &schedule) {
  add({schedule.region}, Group{schedule.source, /*mayRefuse=*/false},
      [this, schedule](const codegen::Region &region) { return std::vector{schedule.config(region, target)}; });
}

void TemplateChecks::add(std::vector<TemplateCase> cases, Group group, const Choose &choose) {
  const char *only = std::getenv("KFUSE_CASE");
  for (TemplateCase &text : cases)
    if (!only || text.name.find(only) != std::string::npos)
      checks.push_back(std::make_unique<Check>(Check{groups.size(), std::move(text), choose, {}, {}, {}, {}}));
  groups.push_back(group);
}

void TemplateChecks::run() {
  onAllCores(checks.size(), [&](std::size_t i) { prepare(*checks[i]); });
  std::vector<Kernel *> kernels;
  for (const std::unique_ptr<Check> &check : checks)
    for (Kernel &kernel : check->kernels)
      kernels.push_back(&kernel);
  auto flops = [](const Kernel *kernel) { return kernel->check.given->region.flops; };
  std::ranges::sort(kernels, std::greater(), flops); // What takes longest to judge begins first.
  onAllCores(kernels.size(), [&](std::size_t i) { checkKernel(*kernels[i]); });

  for (const std::unique_ptr<Check> &check : checks) {
    Group &group = groups[check->group];
    group.cases += !check->kernels.empty();
    group.configs += check->kernels.size();
    for (const Kernel &kernel : check->kernels)
      if (kernel.spills)
        ++group.spilled, group.spills += "\n" + check->text.name + " " + kernel.config.str();
  }
  for (const Group &group : groups) {
    INFO(group.source.name());
    CHECK((group.cases > 0 || std::getenv("KFUSE_CASE")));
    // The tuner refuses what spills: a template that offers more than a few such configs wastes its time. Two of a
    // small group say nothing of the template.
    CHECK_MESSAGE(group.spilled <= std::max<std::size_t>(2, group.configs / 20),
                  group.spilled << " of " << group.configs << " configs spill:" << group.spills);
  }
}

void TemplateChecks::prepare(Check &check) {
  INFO(check.text.name);
  const Group &group = groups[check.group];
  check.given = std::make_unique<RegionCase>(check.text);
  ir::FusionDecision decision = group.source.match(check.given->region, target);
  if (!decision && group.mayRefuse)
    return;
  REQUIRE_MESSAGE(decision, decision.reason());
  check.inputs = check.given->inputs();
  check.oracle = std::make_unique<Oracle>(*check.given, check.inputs);
  std::vector<Kernel> kernels;
  for (TileConfig &config : check.choose(check.given->region)) {
    KernelPlan plan = take(group.source.emit(check.given->region, config, target));
    kernels.push_back({check, std::move(config), std::move(plan)});
  }
  REQUIRE_FALSE(kernels.empty());
  check.kernels = std::move(kernels);
}

void TemplateChecks::checkKernel(Kernel &kernel) {
  INFO(kernel.check.text.name, " ", kernel.config.str());
  Result<runtime::CompiledKernel> compiled = compiler->compile(kernel.plan);
  REQUIRE_MESSAGE(compiled, compiled.error().message);
  kernel.spills = compiled->facts.spillBytes > 0;
  std::vector<HostTensor> first, second;
  {
    std::scoped_lock lock(device); // What faults is the kernel that is running.
    first = outputsOf(*take(gpu.device->load(kernel.plan, *compiled)), kernel);
    second = outputsOf(*take(gpu.device->load(asOnFewer(kernel.plan), *compiled)), kernel);
  }
  CHECK_MESSAGE(first == second, "two runs differ");
  for (const reference::Verdict &verdict : kernel.check.oracle->judge(first))
    CHECK_MESSAGE(verdict.right, verdict.message);
}

/// The outputs of one run, on fresh memory.
std::vector<HostTensor> TemplateChecks::outputsOf(runtime::LoadedKernel &loaded, const Kernel &kernel) {
  const KernelPlan &plan = kernel.plan;
  const std::vector<HostTensor> &inputs = kernel.check.inputs;
  const std::vector<int> states = kernel.check.given->states();
  std::vector<std::unique_ptr<runtime::DeviceBuffer>> owned;
  std::vector<void *> buffers;
  for (const HostTensor &input : inputs)
    buffers.push_back(owned.emplace_back(uploaded(gpu, input))->data());
  std::vector<HostTensor> outputs;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    const codegen::BufferDesc &desc = plan.outputs[i];
    outputs.push_back(HostTensor::zeros(desc.type, desc.shape));
    auto poisoned = take(gpu.device->allocate(desc.bytes()));
    succeed(gpu.device->fill(poisoned->data(), 0xff, desc.bytes()));
    buffers.push_back(states[i] >= 0 ? buffers[static_cast<std::size_t>(states[i])] : poisoned->data());
    owned.push_back(std::move(poisoned));
  }
  auto workspace = take(gpu.device->allocate(plan.workspaceBytes));
  succeed(gpu.device->fill(workspace->data(), 0xff, plan.workspaceBytes));
  succeed(gpu.device->fill(workspace->data(), 0, plan.zeroedBytes));
  succeed(loaded.launch(nullptr, buffers, workspace->data()));
  gpu.synchronize();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    succeed(gpu.device->download(outputs[i].bytes.data(), buffers[inputs.size() + i], outputs[i].bytes.size()));
  return outputs;
}

} // namespace kfuse::test
