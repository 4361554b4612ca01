#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace kfuse::ir {

void KfuseDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ir/dialect/KfuseOps.cpp.inc"
      >();
}

llvm::StringRef toString(OpKind kind) {
  switch (kind) {
  case OpKind::Pointwise:
    return "pointwise";
  case OpKind::RowReduction:
    return "row reduction";
  case OpKind::Contraction:
    return "contraction";
  case OpKind::Layout:
    return "layout";
  case OpKind::Generator:
    return "generator";
  case OpKind::StateUpdate:
    return "state update";
  }
  return "";
}

DType dtypeOf(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (element.isF32())
    return DType::F32;
  if (element.isF16())
    return DType::F16;
  if (element.isBF16())
    return DType::BF16;
  if (element.isFloat8E4M3FN())
    return DType::F8E4M3;
  if (element.isFloat8E5M2())
    return DType::F8E5M2;
  if (element.isInteger(32))
    return DType::I32;
  if (element.isInteger(64))
    return DType::I64;
  if (element.isInteger(8))
    return element.isUnsignedInteger() ? DType::U8 : DType::I8;
  if (element.isInteger(4))
    return element.isUnsignedInteger() ? DType::U4 : DType::I4;
  assert(element.isInteger(1) && "the dialect's tensors hold no other type");
  return DType::Bool;
}

Type elementTypeOf(DType type, MLIRContext *context) {
  Builder builder(context);
  switch (type) {
  case DType::F32:
    return builder.getF32Type();
  case DType::F16:
    return builder.getF16Type();
  case DType::BF16:
    return builder.getBF16Type();
  case DType::F8E4M3:
    return builder.getFloat8E4M3FNType();
  case DType::F8E5M2:
    return builder.getFloat8E5M2Type();
  case DType::I32:
    return builder.getI32Type();
  case DType::I64:
    return builder.getI64Type();
  case DType::Bool:
    return builder.getI1Type();
  case DType::I8:
    return builder.getIntegerType(8);
  case DType::U8:
    return builder.getIntegerType(8, /*isSigned=*/false);
  case DType::I4:
    return builder.getIntegerType(4);
  case DType::U4:
    return builder.getIntegerType(4, /*isSigned=*/false);
  }
  return {};
}

Shape shapeOf(Value value) { return Shape(dimsOf(value)); }

int64_t bytesOf(Value value) { return static_cast<int64_t>(byteSize(dtypeOf(value.getType()), shapeOf(value))); }

} // namespace kfuse::ir

#include "ir/dialect/KfuseDialect.cpp.inc"

#include "ir/dialect/KfuseInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "ir/dialect/KfuseOps.cpp.inc"
