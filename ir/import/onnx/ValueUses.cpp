#include "ir/import/onnx/ValueUses.h"

#include "ir/import/onnx/Ops.h"

namespace kfuse::ir::onnx {

using ::onnx::NodeProto;
using ::onnx::ValueInfoProto;

void addNamesRead(const ::onnx::GraphProto &graph, llvm::StringSet<> &names, llvm::StringSet<> &numbers) {
  for (const NodeProto &node : graph.node()) {
    for (const std::string &name : node.input())
      names.insert(name);
    if (const OnnxOp *op = findOp(node); op && op->numbers < static_cast<unsigned>(node.input_size()))
      numbers.insert(node.input(static_cast<int>(op->numbers)));
    for (const ::onnx::AttributeProto &attribute : node.attribute())
      if (attribute.has_g())
        addNamesRead(attribute.g(), names, numbers);
  }
  for (const ValueInfoProto &output : graph.output())
    names.insert(output.name());
}

int usesOf(const ::onnx::GraphProto &graph, llvm::StringRef value) {
  int uses = 0;
  for (const NodeProto &node : graph.node()) {
    uses += static_cast<int>(llvm::count(node.input(), value));
    for (const ::onnx::AttributeProto &attribute : node.attribute())
      if (attribute.has_g())
        uses += usesOf(attribute.g(), value);
  }
  for (const ValueInfoProto &output : graph.output())
    uses += output.name() == value ? 1 : 0;
  return uses;
}

bool isOnlyMoved(const ::onnx::GraphProto &graph, llvm::StringRef value) {
  constexpr llvm::StringLiteral moves[] = {"Concat",  "Expand", "Flatten", "Gather",    "Identity",
                                           "Reshape", "Slice",  "Squeeze", "Transpose", "Unsqueeze"};
  constexpr llvm::StringLiteral ends[] = {"Cast", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};
  llvm::SmallVector<llvm::StringRef> left{value};
  llvm::StringSet<> seen;
  while (!left.empty()) {
    const llvm::StringRef name = left.pop_back_val();
    if (!seen.insert(name).second)
      continue;
    for (const ValueInfoProto &output : graph.output())
      if (name == output.name())
        return false;
    bool isRead = false;
    for (const NodeProto &node : graph.node()) {
      const bool holdsGraphs = llvm::any_of(node.attribute(), [](const auto &attribute) { return attribute.has_g(); });
      if (holdsGraphs) // They may read anything around them.
        return false;
      if (!llvm::is_contained(node.input(), name))
        continue;
      isRead = true;
      if (llvm::is_contained(moves, node.op_type()))
        left.append(node.output().begin(), node.output().end());
      else if (!llvm::is_contained(ends, node.op_type()))
        return false;
    }
    if (!isRead)
      return false;
  }
  return true;
}

bool isRightFactor(const ::onnx::GraphProto &graph, llvm::StringRef value) {
  auto isProduct = [](const NodeProto &node) {
    auto isTurned = [](const auto &attribute) { return attribute.name() == "transB" && attribute.i() != 0; };
    return node.op_type() == "MatMul" || (node.op_type() == "Gemm" && llvm::none_of(node.attribute(), isTurned));
  };
  int read = 0;
  for (const NodeProto &node : graph.node())
    read += isProduct(node) && node.input_size() > 1 && node.input(1) == value ? 1 : 0;
  return read > 0 && read == usesOf(graph, value);
}

} // namespace kfuse::ir::onnx
