// A small program that uses every kind of buffer; runs on a GPU and on the tests' host device.
#pragma once

#include "runtime/Program.h"

#include <cstring>

namespace kfuse::test {

/// out[i] = a[i] OP b[i] for `count` floats. `name` is both the kernel's and its entry's; `out` may be `a`.
inline codegen::KernelPlan binaryPlan(const std::string &name, const std::string &op, std::int64_t count) {
  constexpr std::uint32_t threads = 256;
  codegen::BufferDesc buffer{DType::F32, {count}};
  codegen::KernelPlan plan;
  plan.name = name;
  plan.target = "sm_90a";
  plan.source = "extern \"C\" __global__ void " + name +
                "(const float *a, const float *b, float *out) {\n"
                "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                "  if (i < " +
                std::to_string(count) + ")\n    out[i] = a[i] " + op + " b[i];\n}\n";
  plan.inputs = {buffer, buffer};
  plan.outputs = {buffer};
  plan.inPlace = {0};
  codegen::Launch launch;
  launch.entry = name;
  launch.grid = {static_cast<std::uint32_t>((count + threads - 1) / threads), 1, 1};
  launch.block = {threads, 1, 1};
  for (std::uint64_t i = 0; i < 3; ++i)
    launch.args.push_back({codegen::KernelArg::Kind::Buffer, i});
  plan.launches = {launch};
  return plan;
}

/// The constant of sampleProgram at element `i`.
inline float sampleScale(std::int64_t i) { return 0.5F + static_cast<float>(i % 7); }

/// sample(x: input, w: parameter, s: state) -> (y = (x + w) * scale, s += y, copy of w, s before).
inline runtime::Program sampleProgram(std::int64_t count) {
  using Space = runtime::BufferRef::Space;
  runtime::Program program;
  program.name = "sample";
  program.target = "sm_90a";
  program.arguments = {{"x", DType::F32, {count}}, {"w", DType::F32, {count}}, {"s", DType::F32, {count}}};
  program.roles = {Role::Input, Role::Parameter, Role::State};
  program.results = {{"y", DType::F32, {count}},
                     {"s_next", DType::F32, {count}},
                     {"w_copy", DType::F32, {count}},
                     {"s_before", DType::F32, {count}}};
  program.resultState = {-1, 2, -1, -1};
  program.kernels = {{binaryPlan("add", "+", count), {}}, {binaryPlan("mul", "*", count), {}}};
  const std::uint64_t constantOffset = 64;
  runtime::BufferRef x{Space::Argument, 0, 0}, w{Space::Argument, 1, 0}, s{Space::Argument, 2, 0};
  runtime::BufferRef sum{Space::Arena, 0, 256}, scale{Space::Constant, 0, constantOffset}, y{Space::Result, 0, 0};
  program.steps = {{0, {x, w, sum}}, {1, {sum, scale, y}}, {0, {s, y, {Space::Result, 1, 0}}}};
  program.passThroughs = {{2, w}, {3, s}};
  program.constants.resize(constantOffset + count * sizeof(float));
  for (std::int64_t i = 0; i < count; ++i) {
    float value = sampleScale(i);
    std::memcpy(program.constants.data() + constantOffset + i * sizeof(float), &value, sizeof value);
  }
  program.arenaBytes = 256 + count * sizeof(float);
  return program;
}

} // namespace kfuse::test
