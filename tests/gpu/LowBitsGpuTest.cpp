// Weights of few bits on the GPU stay as they are in memory.
#include "codegen/cuda/text/DeviceLibrary.h"
#include "tests/gpu/Gpu.h"
#include "tests/unit/LowBitMemory.h"

using namespace kfuse;
using namespace kfuse::test;

TEST_CASE("Weights of few bits on a GPU: no byte of a run is a dequantised matrix's") {
  Gpu gpu;
  auto compiler = take(runtime::makeCudaCompiler(codegen::cuda::deviceHeaders()));
  for (int rows : {1, 40, 100})
    for (DType type : {DType::BF16, DType::F16})
      checkLowBitMemory(rows, type, *ir::findTarget(gpu.device->target()), *gpu.device, *compiler);
}
