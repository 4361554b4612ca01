#include "ir/reference/Attributes.h"

#include "ir/dialect/Kfuse.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectResourceBlobManager.h"

#include <cstring>

namespace kfuse::reference {

Result<HostTensor> tensorOf(mlir::ElementsAttr attribute) {
  HostTensor tensor =
      HostTensor::zeros(ir::dtypeOf(attribute.getShapedType()), Shape(attribute.getShapedType().getShape()));
  llvm::ArrayRef<char> data;
  if (auto dense = mlir::dyn_cast<mlir::DenseElementsAttr>(attribute)) {
    if (tensor.type == DType::Bool) { // Packed eight to a byte.
      for (auto [i, value] : llvm::enumerate(dense.getValues<bool>()))
        tensor.bytes[i] = std::byte{value};
      return tensor;
    }
    if (isPacked(tensor.type)) { // A byte each in the attribute.
      Values values{tensor.type, tensor.shape, {}};
      for (const llvm::APInt &value : dense.getValues<llvm::APInt>())
        values.numbers.push_back({.integer = value.getSExtValue()});
      return toTensor(values);
    }
    data = dense.getRawData();
  } else if (auto resource = mlir::dyn_cast<mlir::DenseResourceElementsAttr>(attribute)) {
    if (mlir::AsmResourceBlob *blob = resource.getRawHandle().getBlob())
      data = blob->getData();
  }
  std::size_t width = byteWidth(tensor.type);
  if (data.size() != tensor.bytes.size() && (data.size() != width || tensor.bytes.empty()))
    return Error{ErrorCode::BadModel, "a constant of " + std::to_string(tensor.bytes.size()) + " bytes holds " +
                                          std::to_string(data.size()) +
                                          " bytes of data; was it elided when the text was printed?"};
  for (std::size_t offset = 0; offset < tensor.bytes.size(); offset += data.size())
    std::memcpy(tensor.bytes.data() + offset, data.data(), data.size());
  return tensor;
}

mlir::DenseElementsAttr attributeOf(const HostTensor &tensor, mlir::MLIRContext *context) {
  auto type = mlir::RankedTensorType::get(tensor.shape, ir::elementTypeOf(tensor.type, context));
  if (tensor.type == DType::Bool) {
    llvm::SmallVector<bool> values;
    for (std::byte byte : tensor.bytes)
      values.push_back(byte != std::byte{0});
    return mlir::DenseElementsAttr::get(type, values);
  }
  if (isPacked(tensor.type)) {
    llvm::SmallVector<llvm::APInt> values;
    for (Number number : toValues(tensor).numbers)
      values.emplace_back(4, static_cast<std::uint64_t>(number.integer) & 15);
    return mlir::DenseElementsAttr::get(type, values);
  }
  llvm::ArrayRef data(reinterpret_cast<const char *>(tensor.bytes.data()), tensor.bytes.size());
  std::size_t width = byteWidth(tensor.type);
  bool isSplat = !data.empty() && data.drop_front(width) == data.drop_back(width);
  return mlir::DenseElementsAttr::getFromRawBuffer(type, isSplat ? data.take_front(width) : data);
}

} // namespace kfuse::reference
