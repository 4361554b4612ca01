#include "ir/Scalar.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <numeric>

using namespace mlir;

namespace kfuse::ir {

int64_t elementsIn(ArrayRef<int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

DType computeType(DType stored) { return isFloat(stored) ? DType::F32 : smallInteger(stored) ? DType::I32 : stored; }

int64_t Domain::points() const { return elementsIn(extents); }

/// Whether a node differs along `dim` by itself, whatever its operands do.
static bool readsDim(const ScalarNode &node, unsigned dim) {
  if (node.kind == ScalarNode::Kind::Index)
    return node.index.isFunctionOfDim(dim);
  return node.kind == ScalarNode::Kind::Load &&
         (node.map.isFunctionOfDim(dim) ||
          llvm::any_of(node.guards, [&](const Guard &guard) { return guard.index.isFunctionOfDim(dim); }));
}

bool ScalarGraph::dependsOn(Scalar s, unsigned dim) const {
  // Each node once, users before what they use: a value that many others are made of is reached on as many paths.
  std::vector<bool> needed(static_cast<size_t>(s.id) + 1);
  needed[s.id] = true;
  for (int id = s.id; id >= 0; --id) {
    const ScalarNode &node = nodes[id];
    const bool hidesDim = (node.kind == ScalarNode::Kind::Reduce && static_cast<int>(dim) == domain.reductionDim) ||
                          (node.kind == ScalarNode::Kind::Contract && static_cast<int>(dim) == domain.contractionDim);
    if (!needed[id] || hidesDim)
      continue;
    if (readsDim(node, dim))
      return true;
    for (Scalar operand : node.operands)
      needed[operand.id] = true;
    for (Scalar symbol : node.symbols)
      needed[symbol.id] = true;
  }
  return false;
}

static void printScalars(llvm::raw_ostream &os, ArrayRef<Scalar> scalars) {
  llvm::interleaveComma(scalars, os, [&](Scalar s) { os << "%" << s.id; });
}

static void printNode(llvm::raw_ostream &os, const ScalarNode &node) {
  switch (node.kind) {
  case ScalarNode::Kind::Load:
    os << "load " << node.input << " " << node.map;
    for (const Guard &guard : node.guards)
      os << " if " << guard.low << " <= " << guard.index << " < " << guard.high;
    break;
  case ScalarNode::Kind::Constant:
    if (isFloat(node.type))
      os << node.constant;
    else
      os << node.integer;
    break;
  case ScalarNode::Kind::Index:
    os << "index " << node.index;
    break;
  case ScalarNode::Kind::Apply:
    os << node.function << " ";
    break;
  case ScalarNode::Kind::Cast:
    os << "cast ";
    break;
  case ScalarNode::Kind::Reduce:
    os << "reduce " << node.function << " ";
    break;
  case ScalarNode::Kind::Contract:
    os << "contract " << node.function << (node.function.empty() ? "" : " ");
    break;
  }
  printScalars(os, node.operands);
  if (!node.symbols.empty()) {
    os << " where s = ";
    printScalars(os, node.symbols);
  }
}

std::string ScalarGraph::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "domain ";
  llvm::interleave(domain.extents, os, "x");
  if (domain.reductionDim >= 0)
    os << " reducing d" << domain.reductionDim;
  if (domain.contractionDim >= 0)
    os << " contracting d" << domain.contractionDim;
  os << "\n";
  for (auto [id, node] : llvm::enumerate(nodes)) {
    os << "%" << id << ": " << toString(node.type) << " = ";
    printNode(os, node);
    os << "\n";
  }
  if (runExtent)
    os << "run ends d" << runExtent->dim << " at %" << runExtent->count.id << "\n";
  for (const ScalarOutput &output : outputs) {
    os << "store %" << output.value.id << " as " << toString(output.type) << " " << output.map;
    if (output.inPlace >= 0)
      os << " in place of input " << output.inPlace;
    os << "\n";
  }
  return text;
}

} // namespace kfuse::ir
