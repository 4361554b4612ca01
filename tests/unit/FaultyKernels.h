// CPU kernels that compute y = 2 x, or go wrong in one of the ways that candidates do.
#pragma once

#include "codegen/KernelPlan.h"

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

} // namespace kfuse::tuner::test
