#include "tuner/api/CheckpointFiles.h"

namespace kfuse::tuner {

ir::checkpoint::StoredTensors tensorsOf(runtime::Safetensors file) {
  const auto shared = std::make_shared<const runtime::Safetensors>(std::move(file));
  ir::checkpoint::StoredTensors tensors;
  for (const auto &[name, tensor] : shared->all())
    tensors.emplace(name, ir::checkpoint::StoredTensor{tensor.type, runtime::typeStoredAs(tensor.type), tensor.shape,
                                                       tensor.bytes, shared});
  return tensors;
}

Result<std::shared_ptr<const ir::Checkpoint>> openCheckpoint(const std::string &folder) {
  return ir::Checkpoint::open(folder, [](const std::string &path) -> Result<ir::checkpoint::StoredTensors> {
    Result<runtime::Safetensors> file = runtime::Safetensors::open(path);
    if (!file)
      return file.error();
    return tensorsOf(std::move(*file));
  });
}

} // namespace kfuse::tuner
