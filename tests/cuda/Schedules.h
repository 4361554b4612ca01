// One small region and config for every way in which the CUDA templates go about their work: what is looked at when
// looking at all configs would take too long, as under a sanitizer.
#pragma once

#include "codegen/KernelTemplate.h"
#include "tests/cuda/TemplateCases.h"

namespace kfuse::test {

struct Schedule {
  std::string name; ///< "split: cluster along K".
  const codegen::KernelTemplate &source;
  TemplateCase region;
  std::vector<std::pair<std::string, std::int64_t>> fields; ///< The fields of a config that make the schedule.

  /// The first config the template offers that has these fields; a failed test case where there is none.
  codegen::TileConfig config(const codegen::Region &region, const ir::Target &target) const;
};

/// All of them, or those that GPUs before Hopper have.
std::vector<Schedule> schedules(bool withHopper);

} // namespace kfuse::test
