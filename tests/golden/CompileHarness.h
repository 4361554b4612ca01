// Compiles what templates emit with NVRTC, on all cores, and says what has to hold of each kernel.
#pragma once

#include "codegen/KernelTemplate.h"
#include "runtime/Device.h"
#include "tests/cuda/TemplateCases.h"

#include <memory>
#include <string>
#include <vector>

namespace kfuse::test {

/// Null where there is no NVRTC, which the test says.
std::unique_ptr<runtime::KernelCompiler> compilerHere();

/// What the template emits for a config, by a name that says both.
codegen::KernelPlan planOf(const codegen::KernelTemplate &source, const codegen::Region &region,
                           const codegen::TileConfig &config, const ir::Target &target, const std::string &name);

/// The search refuses what spills (tests/unit/tuner/search/SearchTest.cpp), so that most kernels may.
enum class Spills { None, Allowed };

/// Compiles all plans on all cores; every one has to compile. How many of them spill.
std::size_t compileAll(const std::vector<codegen::KernelPlan> &all, runtime::KernelCompiler &compiler,
                       Spills spills = Spills::None);

/// Whether tests take all configs (KFUSE_ALL_CONFIGS).
bool isExhaustive();

/// Plans of `count` configs, the first and the last among them, spread over what a template offers for a region; of all
/// configs where isExhaustive().
std::vector<codegen::KernelPlan> spread(const codegen::KernelTemplate &source, const codegen::Region &region,
                                        const ir::Target &target, std::size_t count);

/// The same of the template that takes the region.
std::vector<codegen::KernelPlan> plans(const codegen::Region &region, const ir::Target &target, std::size_t count);

/// So many of the configs that any two values of two fields that are together in one of them are in one that is left.
/// The ctest takes these, the target `exhaustive` (KFUSE_ALL_CONFIGS) all.
std::vector<codegen::TileConfig> pairwise(std::vector<codegen::TileConfig> all);

/// The configs that a template offers for a region, pairwise.
std::vector<codegen::KernelPlan> everyPair(const codegen::KernelTemplate &source, const TemplateCase &given);

/// The names of the architectures that kfuse knows, but for the CPU.
std::vector<std::string> knownGpus();

/// Regions at sizes where every kind of config is offered.
std::vector<TemplateCase> representatives();

} // namespace kfuse::test
