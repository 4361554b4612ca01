#include "ir/RegionKey.h"

#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace kfuse::ir {
namespace {

// MLIR's printer makes an AsmState for every type and attribute, which took a quarter of the time to plan a block.
// These are what our ops have.

void write(llvm::raw_ostream &os, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getEncoding()) {
    os << type;
    return;
  }
  for (int64_t size : tensor.getShape())
    os << size << "x";
  os << toString(dtypeOf(tensor));
}

void write(llvm::raw_ostream &os, Attribute attribute) {
  if (auto integers = dyn_cast<DenseI64ArrayAttr>(attribute))
    llvm::interleave(integers.asArrayRef(), os, "_");
  else if (auto integer = dyn_cast<IntegerAttr>(attribute); integer && integer.getType().isInteger(64))
    os << integer.getInt();
  else if (!isa<UnitAttr>(attribute))
    os << attribute;
}

} // namespace

std::string regionKey(Block &body) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::DenseMap<Value, unsigned> number;
  auto define = [&](Value value) {
    number.try_emplace(value, number.size());
    write(os, value.getType());
    os << ";";
  };
  for (BlockArgument argument : body.getArguments())
    define(argument);
  for (Operation &op : body) {
    os << op.getName().getStringRef();
    for (NamedAttribute attribute : op.getAttrs())
      if (attribute.getName() != attentionAttrName) {
        os << "," << attribute.getName().getValue() << "=";
        write(os, attribute.getValue());
      }
    for (Region &inner : op.getRegions())
      for (Block &block : inner)
        os << "{" << regionKey(block) << "}";
    for (Value operand : op.getOperands())
      os << "%" << number.lookup(operand);
    os << ":";
    for (Value result : op.getResults())
      define(result);
  }
  return text;
}

} // namespace kfuse::ir
