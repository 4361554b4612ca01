// What stands in for the CUDA device where kfuse was built without <cuda.h>.
#include "runtime/Device.h"
#include "runtime/pack/Selection.h"

namespace kfuse::runtime {
namespace {

Error withoutHeaders() {
  return Error{ErrorCode::NoDevice, "no CUDA device: kfuse was built without CUDA headers; set KFUSE_CUDA_INCLUDE to "
                                    "the folder of cuda.h and build again, or use --target cpu"};
}

} // namespace

Result<std::unique_ptr<Device>> openCuda(int) { return withoutHeaders(); }
bool hasCudaDriver() { return false; }
Result<std::vector<GpuFacts>> listGpus() { return withoutHeaders(); }
Result<DeviceKind> cudaKind(int) { return withoutHeaders(); }

} // namespace kfuse::runtime
