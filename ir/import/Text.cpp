#include "ir/import/Text.h"

#include "ir/FirstError.h"
#include "ir/dialect/Kfuse.h"
#include "ir/import/Boundary.h"
#include "ir/import/Limits.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace kfuse::ir {
namespace {

constexpr size_t maxTextBytes = size_t{64} << 20;
/// The parser calls itself for every bracket: some 20,000 overflow a stack of 8 MiB. A fused region nests
/// about ten deep.
constexpr int maxDepth = 128;

Error malformed(const Twine &message) { return {ErrorCode::BadModel, message.str()}; }

/// Reads text as far as nesting goes: skips strings and comments, and counts brackets.
class NestingScan {
public:
  explicit NestingScan(StringRef text) : text(text) {}

  Result<void> run() {
    for (; at < text.size(); ++at)
      if (Result<void> step = advance(); !step)
        return step;
    return {};
  }

private:
  Result<void> advance() {
    char c = text[at];
    line += c == '\n';
    if (c == '"')
      skipString();
    else if (c == '/' && text.substr(at).starts_with("//"))
      at = std::min(text.find('\n', at), text.size()) - 1;
    else if (StringRef("([{").contains(c))
      ++nested;
    else if (StringRef(")]}").contains(c))
      --nested;
    else if (c == '<' && next() != '=')
      ++angled;
    else if (c == '>' && at > 0 && text[at - 1] != '-' && next() != '=') // Neither an arrow nor a comparison.
      angled = std::max(angled - 1, 0);
    else if (text.substr(at).starts_with("affine_"))
      return malformed("line " + Twine(line) + " holds an affine map or set, which the dialect has no use for");
    else if ((c == '#' || c == '!') && isDefinition())
      return malformed("line " + Twine(line) + " defines an alias; write types and attributes out");
    if (nested + angled > maxDepth)
      return malformed("line " + Twine(line) + " nests over " + Twine(maxDepth) +
                       " brackets deep; a model nests about ten");
    return {};
  }

  char next() const { return at + 1 < text.size() ? text[at + 1] : '\0'; }

  /// Leaves `at` on the closing quote, or on the end of the line: the parser refuses what is open there.
  void skipString() {
    for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
      at += text[at] == '\\';
    line += at < text.size() && text[at] == '\n';
  }

  /// "#name =" at the start of a line. Aliases name each other, so they nest without brackets.
  bool isDefinition() const {
    StringRef before = text.take_front(at).rtrim(" \t");
    StringRef after =
        text.substr(at + 1).drop_while([](char c) { return isalnum(c) || c == '_' || c == '$' || c == '.'; });
    return (before.empty() || before.back() == '\n') && after.ltrim().starts_with("=");
  }

  StringRef text;
  size_t at = 0;
  int line = 1;
  int nested = 0, angled = 0;
};

/// "line 3, column 7: what MLIR says".
std::string textOf(const FirstError &error) {
  auto place = error.location ? (*error.location)->findInstanceOf<FileLineColLoc>() : FileLineColLoc();
  const std::string where =
      place && place.getLine() > 0
          ? ("line " + Twine(place.getLine()) + ", column " + Twine(place.getColumn()) + ": ").str()
          : "";
  return where + StringRef(error.message).trim().str();
}

bool isTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding())
    return false;
  Type element = tensor.getElementType();
  const bool isFloat =
      element.isF32() || element.isF16() || element.isBF16() || element.isFloat8E4M3FN() || element.isFloat8E5M2();
  const bool isSmall = (element.isInteger(8) || element.isInteger(4)) && !element.isSignedInteger();
  const bool isInteger = element.isSignlessInteger(32) || element.isSignlessInteger(64) || element.isSignlessInteger(1);
  return (isFloat || isSmall || isInteger) && checkedElementCount(tensor.getShape(), dtypeOf(element)).value_or(0) > 0;
}

LogicalResult checkTypes(Operation *op, TypeRange types) {
  for (Type type : types)
    if (!isTensor(type))
      return op->emitError() << type
                             << " is no tensor of f32, f16, bf16, f8E4M3FN, f8E5M2, i64, i32, i8, ui8, i4, ui4 or i1 "
                                "with a static shape "
                                "of at most 16 dimensions, 1 byte to 1 TiB";
  return success();
}

/// What every later stage takes for granted: @main alone, of one block, with ops of the dialect on static
/// tensors. Before the ops' own verifiers, which multiply sizes.
LogicalResult checkStructure(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || !llvm::hasSingleElement(*module.getBody()))
    return module.emitError("a model is a module with one function, @main");
  if (!main.getBody().hasOneBlock())
    return main.emitError("@main needs a body of one block");
  WalkResult walk = main.walk([&](Operation *op) -> WalkResult {
    if (op == main)
      return checkTypes(op, main.getArgumentTypes());
    if (!isa<func::ReturnOp>(op) && !isa_and_present<KfuseDialect>(op->getDialect()))
      return op->emitError() << "'" << op->getName() << "' is no op of the dialect";
    for (Region &region : op->getRegions())
      if (region.hasOneBlock() && failed(checkTypes(op, region.getArgumentTypes())))
        return WalkResult::interrupt();
    return checkTypes(op, op->getResultTypes());
  });
  return failure(walk.wasInterrupted());
}

} // namespace

Result<Model> importText(StringRef text, const std::string &path, MLIRContext &context) {
  if (text.size() > maxTextBytes)
    return malformed("the text has " + Twine(text.size()) +
                     " bytes, over 64 MiB; give weights as parameters, not as constants");
  if (Result<void> scanned = NestingScan(text).run(); !scanned)
    return scanned.error();
  context.loadDialect<KfuseDialect, func::FuncDialect>();
  FirstError error(&context);
  Model model;
  // A copy: MLIR's lexer reads the zero that it expects after the text, which a mapped file need not have.
  std::string terminated = text.str();
  model.module = parseSourceString<ModuleOp>(terminated, ParserConfig(&context, /*verifyAfterParse=*/false), path);
  if (!model.module || failed(checkStructure(*model.module)) || failed(verify(*model.module)))
    return malformed(error.location ? textOf(error) : "the text is no module");
  if (Result<void> boundary = completeBoundary(model.module->lookupSymbol<func::FuncOp>("main")); !boundary)
    return boundary.error();
  return model;
}

} // namespace kfuse::ir
