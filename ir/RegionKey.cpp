#include "ir/RegionKey.h"

#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace kfuse::ir {
namespace {

/// Numbers as they lie in memory, texts behind their lengths. MLIR's printer would make an AsmState for every type and
/// attribute, which took a quarter of the time to plan a block; those that our ops have do not need it.
class KeyWriter {
public:
  void write(Block &body) {
    write(body.getNumArguments());
    for (BlockArgument argument : body.getArguments())
      define(argument);
    for (Operation &op : body)
      write(op);
    write(StringRef()); // No op's name.
  }
  std::string take() { return std::move(key); }

private:
  void write(Operation &op) {
    write(op.getName().getStringRef());
    for (NamedAttribute attribute : op.getAttrs())
      if (attribute.getName() != attentionAttrName) {
        write(attribute.getName().getValue());
        write(attribute.getValue());
      }
    write(op.getNumRegions());
    for (Region &inner : op.getRegions())
      for (Block &block : inner)
        write(block);
    write(op.getNumOperands());
    for (Value operand : op.getOperands())
      write(number.lookup(operand));
    write(op.getNumResults());
    for (Value result : op.getResults())
      define(result);
  }

  void define(Value value) {
    number.try_emplace(value, number.size());
    auto tensor = dyn_cast<RankedTensorType>(value.getType());
    if (!tensor || tensor.getEncoding())
      return writePrinted(value.getType());
    write(tensor.getRank());
    for (int64_t size : tensor.getShape())
      write(size);
    write(static_cast<int64_t>(dtypeOf(tensor)));
  }

  void write(Attribute attribute) {
    if (auto integers = dyn_cast<DenseI64ArrayAttr>(attribute)) {
      write(integers.size());
      for (int64_t integer : integers.asArrayRef())
        write(integer);
    } else if (auto integer = dyn_cast<IntegerAttr>(attribute); integer && integer.getType().isInteger(64)) {
      write(integer.getInt());
    } else if (auto text = dyn_cast<StringAttr>(attribute)) {
      write(text.getValue());
    } else if (auto number = dyn_cast<FloatAttr>(attribute)) {
      write(number.getValue().bitcastToAPInt().getZExtValue());
    } else if (!isa<UnitAttr>(attribute)) {
      writePrinted(attribute);
    }
  }

  template <class Printed> void writePrinted(Printed printed) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << printed;
    write(StringRef(text));
  }
  void write(int64_t number) { key.append(reinterpret_cast<const char *>(&number), sizeof number); }
  void write(StringRef text) {
    write(static_cast<int64_t>(text.size()));
    key.append(text.data(), text.size());
  }

  std::string key;
  llvm::DenseMap<Value, int64_t> number;
};

} // namespace

std::string regionKey(Block &body) {
  KeyWriter writer;
  writer.write(body);
  return writer.take();
}

} // namespace kfuse::ir
