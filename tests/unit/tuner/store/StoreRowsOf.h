// Rows for tests of the store: number i is always the same.
#pragma once

#include "runtime/Device.h"
#include "tuner/record/Choice.h"
#include "tuner/record/Measurement.h"

#include <string>

namespace kfuse::tuner::test {

inline Choice choiceNumber(int i) {
  Choice choice;
  choice.region = "region " + std::to_string(i);
  choice.kernel = "kernel " + std::to_string(i);
  choice.name = "matmul_add";
  choice.ops = "matmul + add";
  choice.target = "sm_90a";
  choice.sku = "Fake GPU";
  choice.compiler = "fake 1";
  choice.driver = "1.0";
  choice.config = {{"m", 128}, {"k", i}};
  choice.effort = Effort::Full;
  choice.timing = Timing{12.345678901234567 + i, 0.0123, 10};
  choice.candidates = 40;
  choice.failed = 3;
  choice.cut = i % 2;
  return choice;
}

inline runtime::CompiledKernel binaryNumber(int i) {
  runtime::CompiledKernel binary;
  binary.image.assign(3000, static_cast<std::byte>(i));
  binary.facts = {.registers = 168, .spillBytes = 0, .stackBytes = 16, .staticSharedBytes = 1024};
  binary.compileMs = 31.4;
  binary.log = "ptxas info";
  return binary;
}

inline Measurement measurementNumber(int i) {
  Measurement measurement;
  measurement.kernel = "kernel " + std::to_string(i);
  measurement.region = "region";
  measurement.config = {{"m", i}};
  measurement.driver = "1.0";
  measurement.estimateUs = 7.5;
  if (i % 2 == 0)
    measurement.timing = Timing{3.25 * (i + 1), 0.01, 3};
  else
    measurement.failure = Failure{FailureKind::WrongResult, "output 0 is off"};
  return measurement;
}

} // namespace kfuse::tuner::test
