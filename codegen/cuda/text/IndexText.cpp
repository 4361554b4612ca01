#include "codegen/cuda/text/IndexText.h"

#include "ir/IndexMath.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;

namespace kfuse::codegen::cuda {
namespace {

std::string factorText(AffineExpr expr, const IndexNames &names) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return names.dims[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return names.symbols[symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  std::string lhs = indexText(binary.getLHS(), names);
  if (!isa<AffineDimExpr, AffineSymbolExpr>(binary.getLHS()))
    lhs = "(" + lhs + ")";
  return lhs + (binary.getKind() == AffineExprKind::Mod ? " % " : " / ") + indexText(binary.getRHS(), names) + "u";
}

/// a % b * c reads left to right, as it is meant.
std::string termText(const ir::IndexTerm &term, int64_t magnitude, const IndexNames &names) {
  std::string number = std::to_string(magnitude);
  if (!term.term)
    return number;
  return factorText(term.term, names) + (magnitude == 1 ? "" : " * " + number);
}

} // namespace

std::string indexText(AffineExpr expr, const IndexNames &names) {
  SmallVector<ir::IndexTerm> terms;
  ir::collectTerms(expr, 1, terms);
  // A leading minus would need a space of its own: positive terms go first.
  SmallVector<ir::IndexTerm> ordered;
  for (bool negative : {false, true})
    llvm::copy_if(terms, std::back_inserter(ordered),
                  [&](const ir::IndexTerm &term) { return (term.coefficient < 0) == negative; });
  std::string text;
  for (const ir::IndexTerm &term : ordered) {
    if (term.coefficient == 0)
      continue;
    bool isNegative = term.coefficient < 0;
    text += text.empty() ? (isNegative ? "-" : "") : (isNegative ? " - " : " + ");
    text += termText(term, std::abs(term.coefficient), names);
  }
  return text.empty() ? "0" : text;
}

std::string splitText(StringRef linear, ArrayRef<int64_t> extents, ArrayRef<std::string> names) {
  std::string text;
  int64_t stride = 1;
  for (size_t i = extents.size(); i-- > 0; stride *= extents[i]) {
    std::string value = linear.str();
    if (stride > 1)
      value += " / " + std::to_string(stride) + "u";
    if (i > 0)
      value += " % " + std::to_string(extents[i]) + "u";
    text = (i > 0 ? ", " : "") + names[i] + " = " + value + text;
  }
  return text.empty() ? "" : "const Index " + text + ";";
}

} // namespace kfuse::codegen::cuda
