// Kernels of the CUDA templates on the device against the reference evaluator. Regions are prepared, and configs
// compiled and judged, on all cores; the device runs one kernel at a time.
#pragma once

#include "tests/cuda/Schedules.h"
#include "tests/gpu/Gpu.h"

#include <functional>
#include <mutex>
#include <vector>

namespace kfuse::test {

class TemplateChecks {
public:
  TemplateChecks();
  ~TemplateChecks();

  /// `count` configs spread over what the template offers for each case, with at least one of each schedule. It has to
  /// take every case unless it `mayRefuse`.
  void add(std::vector<TemplateCase> cases, const codegen::KernelTemplate &source, std::size_t count,
           bool mayRefuse = false);
  void add(const Schedule &schedule);
  /// Checks all that was added; $KFUSE_CASE is a part of the names to look at.
  void run();

  bool isHopper() const { return gpu.isHopper(); }

private:
  struct Check;
  struct Kernel;
  struct Group;
  using Choose = std::function<std::vector<codegen::TileConfig>(const codegen::Region &)>;

  void add(std::vector<TemplateCase> cases, Group group, const Choose &choose);
  void prepare(Check &check);
  void checkKernel(Kernel &kernel);
  std::vector<reference::HostTensor> outputsOf(runtime::LoadedKernel &loaded, const Kernel &kernel);

  Gpu gpu;
  const ir::Target &target;
  std::unique_ptr<runtime::KernelCompiler> compiler;
  std::mutex device;
  std::vector<Group> groups;
  std::vector<std::unique_ptr<Check>> checks;
};

} // namespace kfuse::test
