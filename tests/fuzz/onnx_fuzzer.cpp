// Any bytes as an ONNX model: an error or a module that verifies, is planned and printed as kernels; never a crash.
#include "ir/import/onnx/Onnx.h"
#include "tests/fuzz/PlanAndEmit.h"

#include <cstdlib>

using namespace kfuse;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::span bytes(reinterpret_cast<const std::byte *>(data), size);
  Result<ir::Model> model = ir::importOnnx(bytes, {KFUSE_TEST_DIR "/data", ""}, {}, context);
  if (!model)
    return model.error().message.empty() ? std::abort(), 0 : 0;
  for (const auto &[name, parameter] : model->parameters)
    if (parameter.bytes.size() != TensorDesc{name, parameter.type, parameter.shape}.bytes())
      std::abort();
  test::planAndEmit(*model->module);
  return 0;
}
