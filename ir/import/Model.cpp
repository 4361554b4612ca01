#include "ir/import/Model.h"

#include "ir/MappedFile.h"
#include "ir/Printable.h"
#include "ir/import/Boundary.h"
#include "ir/import/States.h"
#include "ir/import/Text.h"
#include "ir/import/TextSizes.h"
#include "ir/import/checkpoint/Weights.h"
#include "ir/import/onnx/Onnx.h"

#include "llvm/ADT/StringExtras.h"

#include <filesystem>

namespace kfuse::ir {
namespace {

/// Names in a broken file may hold anything, and there may be a million of them.
std::string oneLine(const std::string &message) {
  constexpr std::size_t maxLength = 8192;
  std::string line = printable(message.substr(0, maxLength));
  return message.size() > maxLength ? line + " ..." : line;
}

/// Text holds no control characters; a serialised protobuf starts with one.
bool isText(llvm::StringRef content) {
  return llvm::all_of(content.take_front(4096), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\r' || c == '\t';
  });
}

onnx::DataFolders foldersOf(const std::filesystem::path &path, const MappedFile &file) {
  const std::filesystem::path folder = path.parent_path();
  return {folder.empty() ? "." : folder, std::filesystem::path(file.place()).parent_path()};
}

/// Text with these sizes by name.
Result<Model> importSized(llvm::StringRef content, const std::map<std::string, std::int64_t> &sizes,
                          const std::string &path, mlir::MLIRContext &context) {
  Result<std::string> text = withSizes(content, sizes);
  if (!text)
    return text.error();
  return importText(*text, path, context);
}

Result<void> takeCheckpoint(Model &model, const ImportOptions &options) {
  return options.checkpoint ? takeWeights(model, *options.checkpoint, options.checkpointPrefix) : Result<void>();
}

Result<Model> load(const std::string &path, const ImportOptions &options, mlir::MLIRContext &context) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.error();
  std::span<const std::byte> bytes = file->bytes();
  llvm::StringRef content(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  if (content.trim().empty())
    return Error{ErrorCode::BadModel, "the file is empty; copy or export it again"};
  bool isOnnx = !isText(content);
  Result<Model> model = isOnnx ? importOnnx(bytes, foldersOf(path, *file), options, context)
                               : importSized(content, options.sizes, path, context);
  if (!model)
    return model;
  auto main = model->module->lookupSymbol<mlir::func::FuncOp>("main");
  if (!isOnnx) // The shapes of an ONNX file are made of the options.
    if (Result<void> shapes = checkShapes(main, options.shapes); !shapes)
      return shapes.error();
  if (Result<void> applied = applyParameterPatterns(main, options.parameters); !applied)
    return applied.error();
  if (Result<void> taken = takeCheckpoint(*model, options); !taken)
    return taken.error();
  if (Result<void> made = makeStates(*model, options.states); !made)
    return made.error();
  return model;
}

} // namespace

Result<Model> loadModel(const std::string &path, const ImportOptions &options, mlir::MLIRContext &context) {
  Result<Model> model = load(path, options, context);
  if (model || model.error().code == ErrorCode::Io)
    return model;
  return Error{model.error().code, oneLine(path + ": " + model.error().message)};
}

} // namespace kfuse::ir
