// A small pack with each kind of section: programs that prepare and run, for three targets, and weights.
#pragma once

#include "runtime/pack/PackWriter.h"
#include "tests/unit/SampleProgram.h"

#include <string>

namespace kfuse::test {

inline std::vector<std::byte> imageOf(const std::string &text) {
  const auto *first = reinterpret_cast<const std::byte *>(text.data());
  return {first, first + text.size()};
}

/// sampleProgram() for `target`: w is what a preparation makes of the parameter "w0".
inline runtime::VariantPrograms programsFor(const std::string &target) {
  runtime::VariantPrograms programs{sampleProgram(100), sampleProgram(100)};
  runtime::Program &prepare = *programs.prepare;
  prepare.arguments = {{"w0", DType::F32, {100}}};
  prepare.roles = {Role::Parameter};
  prepare.results = {{"w", DType::F32, {100}}};
  prepare.resultState = {-1};
  prepare.passThroughs.clear();
  const runtime::BufferRef w0{runtime::BufferRef::Space::Argument, 0, 0}, w{runtime::BufferRef::Space::Result, 0, 0};
  prepare.steps = {{0, {w0, w0, w}}};
  for (runtime::Program *program : {&programs.main, &prepare}) {
    program->target = target;
    for (runtime::ProgramKernel &kernel : program->kernels)
      kernel.binary.image = imageOf("the machine code of " + kernel.plan.name + " for " + target);
  }
  return programs;
}

inline runtime::PackContents sampleContents() {
  runtime::PackContents contents;
  runtime::Manifest &manifest = contents.manifest;
  manifest.model = "sample.mlir";
  manifest.tool = "kfuse 0.1.0";
  manifest.inputs = {{"x", DType::F32, {100}}};
  manifest.parameters = {{"w0", DType::F32, {100}}};
  manifest.states = {{"s", DType::F32, {100}}};
  manifest.outputs = programsFor("sm_80").main.results;
  manifest.updatedStates = {-1, 0, -1, -1};
  static const std::vector<std::byte> w0(400, std::byte{3});
  contents.weights = {w0};
  for (const char *target : {"sm_90a", "sm_80", "compute_80"}) {
    runtime::PackVariant variant;
    variant.target = target;
    variant.sku = variant.target == "sm_90a" ? "NVIDIA H200" : "";
    variant.multiprocessors = 108;
    variant.sharedBytes = 65536;
    variant.cuda = 13000;
    variant.compiler = "nvrtc 13.0";
    variant.nanoseconds = 123456;
    variant.plan = "{}";
    contents.variants.emplace_back(variant, std::vector{programsFor(target)});
  }
  return contents;
}

} // namespace kfuse::test
