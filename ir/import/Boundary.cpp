#include "ir/import/Boundary.h"

#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/GlobPattern.h"

using mlir::StringAttr;
using mlir::func::FuncOp;

namespace kfuse::ir {
namespace {

Error malformed(const llvm::Twine &message) { return {ErrorCode::BadModel, message.str()}; }
Error usage(const llvm::Twine &message) { return {ErrorCode::Usage, message.str()}; }

llvm::StringRef nameOf(FuncOp main, unsigned argument) {
  return main.getArgAttrOfType<StringAttr>(argument, nameAttrName).getValue();
}

std::string inputsOf(FuncOp main) {
  llvm::SmallVector<llvm::StringRef> names;
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    names.push_back(nameOf(main, i));
  return names.empty() ? "none" : llvm::join(names, ", ");
}

/// The attribute's text. An attribute that is missing is set to `otherwise`; one that is no string is an error.
Result<llvm::StringRef> textOf(mlir::Attribute given, const std::string &otherwise, llvm::StringRef attribute,
                               llvm::function_ref<void(StringAttr)> set, mlir::MLIRContext *context) {
  if (given && !mlir::isa<StringAttr>(given))
    return malformed("attribute " + attribute + " of @main is no string");
  auto text = given ? mlir::cast<StringAttr>(given) : StringAttr::get(context, otherwise);
  if (!given)
    set(text);
  return text.getValue(); // Owned by the context.
}

} // namespace

Result<void> completeBoundary(FuncOp main) {
  mlir::MLIRContext *context = main.getContext();
  llvm::StringSet<> arguments, results;
  for (unsigned i = 0; i < main.getNumArguments(); ++i) {
    auto attribute = [&](llvm::StringRef name, const std::string &otherwise) {
      return textOf(
          main.getArgAttr(i, name), otherwise, name, [&](StringAttr text) { main.setArgAttr(i, name, text); }, context);
    };
    Result<llvm::StringRef> role = attribute(roleAttrName, "input");
    if (!role)
      return role.error();
    if (!llvm::is_contained({"input", "parameter", "state"}, *role))
      return malformed("argument " + llvm::Twine(i) + " of @main has the role '" + *role +
                       "'; input, parameter or state");
    std::string otherwise = "arg" + std::to_string(i);
    Result<llvm::StringRef> name = attribute(nameAttrName, otherwise);
    if (!name)
      return name.error();
    if (name->empty() || !arguments.insert(*name).second)
      return malformed("two arguments of @main have the name '" + *name + "', or one has none");
  }
  for (unsigned i = 0; i < main.getNumResults(); ++i) {
    std::string otherwise = "result" + std::to_string(i);
    Result<llvm::StringRef> name = textOf(
        main.getResultAttr(i, nameAttrName), otherwise, nameAttrName,
        [&](StringAttr text) { main.setResultAttr(i, nameAttrName, text); }, context);
    if (!name)
      return name.error();
    if (name->empty() || !results.insert(*name).second)
      return malformed("two results of @main have the name '" + *name + "', or one has none");
  }
  return {};
}

Result<void> applyParameterPatterns(FuncOp main, const std::vector<std::string> &patterns) {
  for (const std::string &pattern : patterns) {
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(pattern);
    if (!glob)
      return usage("--params " + pattern + " is no glob: " + llvm::toString(glob.takeError()));
    bool matched = false;
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      if (!glob->match(nameOf(main, i)))
        continue;
      matched = true;
      if (main.getArgAttrOfType<StringAttr>(i, roleAttrName).getValue() == "input")
        main.setArgAttr(i, roleAttrName, StringAttr::get(main.getContext(), "parameter"));
    }
    if (!matched)
      return usage("--params " + pattern + " matches no input; the model has " + inputsOf(main));
  }
  return {};
}

Result<void> checkShapes(FuncOp main, const std::map<std::string, Shape> &shapes) {
  for (const auto &[name, shape] : shapes) {
    auto arguments = llvm::seq<unsigned>(0, main.getNumArguments());
    auto argument = llvm::find_if(arguments, [&, &name = name](unsigned i) { return nameOf(main, i) == name; });
    if (argument == arguments.end())
      return usage("--shape " + name + "=" + kfuse::toString(shape) + " names no input; the model has " +
                   inputsOf(main));
    if (Shape actual = shapeOf(main.getArgument(*argument)); actual != shape)
      return usage("--shape " + name + "=" + kfuse::toString(shape) + " does not fit input '" + name + "', which is " +
                   kfuse::toString(actual) + " in the file");
  }
  return {};
}

} // namespace kfuse::ir
