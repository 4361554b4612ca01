#include "ir/RegionKey.h"

#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlir;

namespace kfuse::ir {
namespace {

/// Numbers as bytes, texts behind their lengths. MLIR's printer would make an AsmState for every type and
/// attribute, which took a quarter of the time to plan a block; those that our ops have do not need it.
class KeyWriter {
public:
  void write(Block &body) {
    key.reserve(1024);
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
    auto slice = dyn_cast<SliceOp>(op);
    for (NamedAttribute attribute : op.getAttrs())
      if (attribute.getName() != attentionAttrName) {
        write(attribute.getName().getValue());
        if (slice && attribute.getName() == slice.getOffsetsAttrName())
          writeOffsets(slice);
        else
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

  /// Where slices alone read an argument, it does not matter how far inside it they lie, but for how it is aligned: a
  /// tensor that is cut into thousands of pieces makes few kinds of regions.
  void writeOffsets(SliceOp slice) {
    constexpr int64_t alignment = 256; // Elements; more than any vector or line that a kernel reads at once.
    const ArrayRef<int64_t> offsets = slice.getOffsets();
    SmallVector<int64_t> base(offsets.size(), 0);
    Value source = slice.getOperand();
    if (isa<BlockArgument>(source) && llvm::all_of(source.getUsers(), llvm::IsaPred<SliceOp>)) {
      base.assign(offsets.begin(), offsets.end());
      for (Operation *user : source.getUsers())
        for (auto [least, offset] : llvm::zip_equal(base, cast<SliceOp>(user).getOffsets()))
          least = std::min(least, offset);
    }
    write(offsets.size());
    for (auto [offset, least] : llvm::zip_equal(offsets, base))
      write(offset - least / alignment * alignment);
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
  /// Seven bits a byte, the last byte without the eighth: most numbers are small.
  void write(int64_t number) {
    auto rest = static_cast<uint64_t>(number);
    for (; rest >= 128; rest >>= 7)
      key.push_back(static_cast<char>(rest | 128));
    key.push_back(static_cast<char>(rest));
  }
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
