#include "ir/RegionKey.h"

#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace kfuse::ir {

std::string regionKey(Block &body) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::DenseMap<Value, unsigned> number;
  auto define = [&](Value value) {
    number.try_emplace(value, number.size());
    os << value.getType() << ";";
  };
  for (BlockArgument argument : body.getArguments())
    define(argument);
  for (Operation &op : body) {
    os << op.getName().getStringRef();
    for (NamedAttribute attribute : op.getAttrs())
      if (attribute.getName() != attentionAttrName)
        os << "," << attribute.getName().getValue() << "=" << attribute.getValue();
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
