// Kernels that compute y = 2 x, or go wrong in one of the ways that candidates do, for the CPU and for CUDA; and the
// task of choosing among them.
#pragma once

#include "TaskFunctions.h"

#include <cstring>
#include <functional>
#include <string>

namespace kfuse::tuner::test {

enum class Flaw { None, CompileError, Hang, Overrun, InputWrite, WrongResult, Slow, Crash };

constexpr std::int64_t faultyElements = 4096;

/// What the loop over %i does.
inline std::string bodyOf(Flaw flaw) {
  const std::string store = "memref.store %twice, %y[%i] : memref<4096xf32>\n";
  switch (flaw) {
  case Flaw::CompileError:
    return "this is no MLIR\n";
  case Flaw::Hang:
    return "scf.while : () -> () { %true = arith.constant true scf.condition(%true) } do {\n" + store + "scf.yield }\n";
  case Flaw::Overrun:
    return store + "%end4096 = arith.constant 4096 : index\n"
                   "memref.store %twice, %y[%end4096] : memref<4096xf32>\n";
  case Flaw::InputWrite:
    return store + "memref.store %twice, %x[%begin] : memref<4096xf32>\n";
  case Flaw::WrongResult:
    return "memref.store %v, %y[%i] : memref<4096xf32>\n";
  case Flaw::Slow: // 2 x as a sum of 512 terms, each of which waits for the one before.
    return "%from = arith.constant 0 : index\n%to = arith.constant 512 : index\n"
           "%zero = arith.constant 0.0 : f32\n%share = arith.constant 0.00390625 : f32\n"
           "%term = arith.mulf %v, %share : f32\n"
           "%sum = scf.for %k = %from to %to step %c1 iter_args(%s = %zero) -> f32 {\n"
           "  %next = arith.addf %s, %term : f32\n  scf.yield %next : f32\n}\n"
           "memref.store %sum, %y[%i] : memref<4096xf32>\n";
  case Flaw::Crash:
    return "%far = arith.constant 1099511627776 : index\n"
           "memref.store %twice, %y[%far] : memref<4096xf32>\n";
  case Flaw::None:
    break;
  }
  return store;
}

inline codegen::KernelPlan faultyPlan(Flaw flaw) {
  codegen::KernelPlan plan;
  plan.name = "double";
  plan.target = "cpu";
  plan.source = "module {\n"
                "func.func @kfuse_double(%x: memref<4096xf32>, %y: memref<4096xf32>, %begin: index, %end: index) {\n"
                "  %c1 = arith.constant 1 : index\n  %two = arith.constant 2.0 : f32\n"
                "  scf.for %i = %begin to %end step %c1 {\n"
                "    %v = memref.load %x[%i] : memref<4096xf32>\n    %twice = arith.mulf %v, %two : f32\n" +
                bodyOf(flaw) + "  }\n  return\n}\n}\n";
  plan.inputs = plan.outputs = {{DType::F32, {faultyElements}}};
  plan.inPlace = {-1};
  codegen::Launch launch;
  launch.entry = "kfuse_double";
  launch.items = launch.grain = faultyElements;
  launch.args = {{codegen::KernelArg::Kind::Buffer, 0}, {codegen::KernelArg::Kind::Buffer, 1}};
  plan.launches = {launch};
  return plan;
}

/// The same for CUDA: what thread i does with v = x[i].
inline std::string cudaBodyOf(Flaw flaw) {
  switch (flaw) {
  case Flaw::CompileError:
    return "this is no CUDA";
  case Flaw::Hang:
    return "y[i] = 2 * v; for (volatile float *at = x + i; *at == *at;);";
  case Flaw::Overrun:
    return "y[i] = 2 * v; y[4096] = v;";
  case Flaw::InputWrite:
    return "y[i] = 2 * v; if (i == 0) x[5] = 2 * v;";
  case Flaw::WrongResult:
    return "y[i] = v;";
  case Flaw::Slow: // A chain of 65536 sums, each of which is exact.
    return "float sum = 0; for (int k = 0; k < 65536; ++k) sum = __fadd_rn(sum, v * 0x1p-15f); y[i] = sum;";
  case Flaw::Crash:
    return "y[i + (1ull << 40)] = v;";
  case Flaw::None:
    break;
  }
  return "y[i] = 2 * v;";
}

inline codegen::KernelPlan faultyCudaPlan(Flaw flaw, const std::string &target) {
  codegen::KernelPlan plan = faultyPlan(Flaw::None);
  plan.target = target;
  plan.source = "extern \"C\" __global__ void twice(float *x, float *y) {\n"
                "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  float v = x[i];\n  " +
                cudaBodyOf(flaw) + "\n}\n";
  codegen::Launch &launch = plan.launches.front();
  launch.entry = "twice";
  launch.grid[0] = faultyElements / 256;
  launch.block[0] = 256;
  launch.items = 0;
  launch.grain = 1;
  return plan;
}

/// Candidates with these flaws, ranked in this order.
inline TuningTask faultyTask(const std::vector<Flaw> &flaws, const std::function<codegen::KernelPlan(Flaw)> &planOf) {
  TuningTask task = taskOfFunctions();
  task.name = "double";
  task.ops = "mul";
  task.templateName = "test.double";
  task.signature = "mul f32 4096";
  task.work = {.flops = 4096, .bytesRead = 4 * 4096, .bytesWritten = 4 * 4096};
  functionsOf(task).onCandidates = [count = flaws.size()] {
    std::vector<codegen::EstimatedConfig> candidates;
    for (std::size_t i = 0; i < count; ++i)
      candidates.push_back({1.0 + static_cast<double>(i), {{"id", static_cast<std::int64_t>(i)}}});
    return candidates;
  };
  functionsOf(task).onEmit = [flaws, planOf](const codegen::TileConfig &config) -> Result<codegen::KernelPlan> {
    return planOf(flaws[static_cast<std::size_t>(config["id"])]);
  };
  functionsOf(task).onMakeInputs = [] {
    std::vector<float> values(faultyElements);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 1 + static_cast<float>(i % 7);
    HostBuffers inputs(1, std::vector<std::byte>(4 * values.size()));
    std::memcpy(inputs[0].data(), values.data(), inputs[0].size());
    return inputs;
  };
  functionsOf(task).onCheck = [](const HostBuffers &inputs, const ReadOutput &read) -> Result<void> {
    float x = 0, y = 0;
    std::memcpy(&x, &inputs[0][std::size_t{4} * 77], sizeof x);
    if (Result<void> done = read(0, std::size_t{4} * 77, std::as_writable_bytes(std::span(&y, 1))); !done)
      return done;
    return y == 2 * x ? Result<void>() : Error{ErrorCode::WrongResult, "element 77 is off"};
  };
  return task;
}

} // namespace kfuse::tuner::test
