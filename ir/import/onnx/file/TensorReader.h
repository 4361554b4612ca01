// An ONNX tensor's elements, wherever the file keeps them.
#pragma once

#include "ir/MappedFile.h"
#include "ir/import/Model.h"
#include "ir/import/onnx/file/DataFolders.h"
#include "ir/import/onnx/file/onnx.pb.h"
#include "ir/reference/Tensor.h"

#include <map>
#include <optional>

namespace kfuse::ir::onnx {

/// The element type kfuse keeps an ONNX type in (f64 as f32), or nothing.
std::optional<DType> dtypeOfOnnx(int elementType);
/// "FLOAT", "INT8", ...; the number of an unknown type.
std::string nameOfOnnxType(int elementType);

class TensorReader {
public:
  /// Tensors read keep `proto` alive.
  TensorReader(std::shared_ptr<const ::onnx::ModelProto> proto, DataFolders folders)
      : proto(std::move(proto)), folders(std::move(folders)) {}

  /// BadModel, naming the tensor, unless the data is as long as type and dimensions say.
  Result<ParameterData> read(const ::onnx::TensorProto &tensor);

private:
  Result<ParameterData> readExternal(const ::onnx::TensorProto &tensor, std::size_t bytes);
  Result<std::shared_ptr<const MappedFile>> open(const std::string &location);

  std::shared_ptr<const ::onnx::ModelProto> proto;
  DataFolders folders;
  std::map<std::string, std::shared_ptr<const MappedFile>> files;
};

/// A copy.
reference::HostTensor toHost(const ParameterData &data);

} // namespace kfuse::ir::onnx
