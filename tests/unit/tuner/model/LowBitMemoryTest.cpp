// Weights of few bits on the CPU stay as they are in memory.
#include "LowBitMemory.h"

using namespace kfuse;
using namespace kfuse::test;

TEST_CASE("cpu: no byte of a run is a dequantised matrix's") {
  std::unique_ptr<runtime::Device> device = runtime::openCpu(2);
  std::unique_ptr<runtime::KernelCompiler> compiler = runtime::makeCpuCompiler();
  for (int rows : {1, 40})
    checkLowBitMemory(rows, DType::F32, cpuTarget(), *device, *compiler);
}
