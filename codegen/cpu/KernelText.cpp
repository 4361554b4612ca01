#include "codegen/cpu/KernelText.h"

#include "ir/Scalar.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cassert>

using namespace mlir;

namespace kfuse::codegen::cpu {
namespace {

constexpr int64_t cacheLine = 64;

std::string memref(ArrayRef<int64_t> shape, StringRef element) {
  std::string type = "memref<";
  for (int64_t size : shape)
    type += std::to_string(size) + "x";
  return type + element.str() + ">";
}

/// f32 constants as bits where they have no exact short decimal: infinities and NaN.
std::string literal(double value) {
  llvm::SmallString<32> text;
  llvm::APFloat number(static_cast<float>(value));
  if (number.isFinite())
    text = llvm::formatv("{0:e9}", static_cast<float>(value)).str();
  else
    text = "0x" + llvm::utohexstr(number.bitcastToAPInt().getZExtValue());
  return (text + " : f32").str();
}

} // namespace

std::string computeTypeName(DType type) {
  return type == DType::Bool ? "i1" : std::string(toString(ir::computeType(type)));
}

std::string storedTypeName(DType type) { return byteWidth(type) == 1 ? "i8" : std::string(toString(type)); }

View KernelText::argument(StringRef name, StringRef element, int64_t elements, StringRef attributes) {
  View view{("%" + name).str(), memref({elements}, element)};
  arguments += (arguments.empty() ? "" : ", ") + view.name + ": " + view.type;
  if (!attributes.empty())
    arguments += (" {" + attributes + "}").str();
  return view;
}

void KernelText::line(const Twine &text) {
  body.append(indent * 2, ' ');
  body += text.str() + "\n";
}

std::string KernelText::fresh(StringRef prefix) { return ("%" + prefix + Twine(counters[prefix.str()]++)).str(); }

std::string KernelText::let(StringRef prefix, const Twine &value) {
  std::string name = fresh(prefix);
  line(name + " = " + value);
  return name;
}

std::string KernelText::index(int64_t value) {
  auto [found, isNew] = constants.try_emplace(std::to_string(value), "%c" + std::to_string(value));
  if (isNew)
    head += "    " + found->second + " = arith.constant " + std::to_string(value) + " : index\n";
  return found->second;
}

std::string KernelText::declared(const std::string &literal) {
  auto [found, isNew] = constants.try_emplace(literal, "%k" + std::to_string(constants.size()));
  if (isNew)
    head += "    " + found->second + " = arith.constant " + literal + "\n";
  return found->second;
}

std::string KernelText::constant(double value, DType type) {
  assert(isFloat(type) && "integers have a text of their own");
  return declared(literal(value));
}

std::string KernelText::integer(int64_t value, DType type) {
  if (type == DType::Bool)
    return declared(value != 0 ? "true" : "false");
  return declared(std::to_string(value) + " : " + computeTypeName(type));
}

std::string KernelText::zero(DType type) { return isFloat(type) ? constant(0, type) : integer(0, type); }

View KernelText::stack(ArrayRef<int64_t> shape, StringRef element) {
  View view{fresh("stack"), memref(shape, element)};
  head +=
      "    " + view.name + " = memref.alloca() {alignment = " + std::to_string(cacheLine) + "} : " + view.type + "\n";
  return view;
}

std::string KernelText::apply(AffineExpr expr, const Names &dims, const Names &symbols) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return index(constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return symbols[symbol.getPosition()];
  // Name only the dimensions that the expression reads.
  SmallVector<AffineExpr> renumbered(dims.size());
  std::string operands;
  unsigned used = 0;
  for (unsigned i = 0; i < dims.size(); ++i) {
    renumbered[i] = getAffineDimExpr(used, expr.getContext());
    if (!expr.isFunctionOfDim(i))
      continue;
    operands += (used++ ? ", " : "") + dims[i];
  }
  AffineMap map = AffineMap::get(used, symbols.size(), expr.replaceDims(renumbered));
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "affine.apply affine_map<" << map << ">(" << operands << ")";
  if (!symbols.empty())
    os << "[" << llvm::join(symbols, ", ") << "]";
  return let("i", text);
}

Names KernelText::delinearise(const std::string &item, ArrayRef<int64_t> grid) {
  Names result(grid.size());
  std::string rest = item;
  int64_t outermost = 0; // Sizes before it are 1.
  while (outermost + 1 < static_cast<int64_t>(grid.size()) && grid[outermost] == 1)
    ++outermost;
  for (int64_t i = static_cast<int64_t>(grid.size()) - 1; i >= 0; --i) {
    if (grid[i] == 1 && i != outermost) {
      result[i] = index(0);
    } else if (i <= outermost) {
      result[i] = rest;
    } else {
      result[i] = let("d", "arith.remui " + rest + ", " + index(grid[i]) + " : index");
      rest = let("r", "arith.divui " + rest + ", " + index(grid[i]) + " : index");
    }
  }
  return result;
}

View KernelText::slice(const View &flat, StringRef element, const std::string &offset, ArrayRef<ViewDim> dims,
                       StringRef attribute) {
  std::string sizes, strides, shape;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    sizes += (i ? ", " : "") + std::to_string(dim.size);
    strides += (i ? ", " : "") + std::to_string(dim.stride);
    shape += std::to_string(dim.size) + "x";
  }
  View view;
  view.type = "memref<" + shape + element.str() + ", strided<[" + strides + "], offset: ?>>";
  view.name = let("m", "memref.reinterpret_cast " + flat.name + " to offset: [" + offset + "], sizes: [" + sizes +
                           "], strides: [" + strides + "]" + (attribute.empty() ? "" : " {" + attribute + "}") + " : " +
                           flat.type + " to " + view.type);
  return view;
}

void KernelText::block(const Twine &opening, llvm::function_ref<void()> body) {
  line(opening);
  ++indent;
  body();
  --indent;
  line("}");
}

void KernelText::loop(const std::string &low, const std::string &high, int64_t step,
                      llvm::function_ref<void(const std::string &)> body) {
  std::string by = index(step), iv = fresh("d");
  block("scf.for " + iv + " = " + low + " to " + high + " step " + by + " {", [&] { body(iv); });
}

void KernelText::when(const std::string &condition, llvm::function_ref<void()> body) {
  if (condition.empty())
    return body();
  block("scf.if " + condition + " {", body);
}

std::string KernelText::choose(const std::string &condition, const std::string &type,
                               llvm::function_ref<std::string()> read, const std::string &otherwise) {
  std::string name = fresh("v");
  block(name + " = scf.if " + condition + " -> (" + type + ") {", [&] { line("scf.yield " + read() + " : " + type); });
  // The block closed with a brace; the else branch goes behind it.
  body.pop_back();
  body += " else {\n";
  ++indent;
  line("scf.yield " + otherwise + " : " + type);
  --indent;
  line("}");
  return name;
}

std::string KernelText::str() const {
  return "  func.func @" + function + "(" + arguments + (arguments.empty() ? "" : ", ") +
         "%begin: index, %end: index) {\n" + head + body + "    return\n  }\n";
}

void forStrips(KernelText &text, int64_t extent, int64_t width,
               llvm::function_ref<void(const std::string &, int64_t)> body) {
  int64_t whole = extent / width * width;
  if (whole == width)
    body(text.index(0), width);
  else if (whole > 0)
    text.loop(text.index(0), text.index(whole), width, [&](const std::string &base) { body(base, width); });
  if (whole < extent)
    body(text.index(whole), extent - whole);
}

void forStripsOfBlock(KernelText &text, const std::string &block, int64_t stripsPerBlock, int64_t extent, int64_t width,
                      llvm::function_ref<void(const std::string &, int64_t)> body) {
  int64_t blocks = blocksOf(extent, width, stripsPerBlock), whole = extent / width * width;
  if (blocks == 1)
    return forStrips(text, extent, width, body);
  std::string low = text.let("low", "arith.muli " + block + ", " + text.index(width * stripsPerBlock) + " : index");
  std::string end = text.let("end", "arith.addi " + low + ", " + text.index(width * stripsPerBlock) + " : index");
  std::string high = text.let("high", "arith.minui " + end + ", " + text.index(whole) + " : index");
  text.loop(low, high, width, [&](const std::string &base) { body(base, width); });
  if (whole == extent)
    return;
  std::string isLast = text.let("last", "arith.cmpi eq, " + block + ", " + text.index(blocks - 1) + " : index");
  text.when(isLast, [&] { body(text.index(whole), extent - whole); });
}

} // namespace kfuse::codegen::cpu
