// Models from files: an ONNX file or the dialect's own text becomes one function @main.
#pragma once

#include "ir/import/ParameterData.h"
#include "kfuse/error.h"
#include "kfuse/types.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kfuse::ir {

class Checkpoint;

struct ImportOptions {
  /// Shapes of inputs with dynamic dimensions; a symbolic dimension may be named instead, with one size.
  std::map<std::string, Shape> shapes;
  /// Globs ("*weight*") naming inputs that are fixed between runs.
  std::vector<std::string> parameters;
  /// Inputs that become the memory of outputs, "past*=present*" or "past*=present*:4096" (StatePatterns).
  std::vector<std::string> states{};
  /// Sizes of symbolic dimensions by their names, those of --dims.
  std::map<std::string, std::int64_t> sizes{};
  /// Weights of the arguments that have the names of its tensors; null for none.
  std::shared_ptr<const Checkpoint> checkpoint{};
  /// What stands in front of the arguments' names there, "model.layers.0.".
  std::string checkpointPrefix{};
};

/// What became of an input that is written and returned.
struct StateNote {
  std::string input, output;
  bool isInPlace = false;
  std::string how; ///< What is written where; or why it is not in place, and what to do.
};

/// The input that says how many rows a run finds in the caches that grow, and the most that leave room for new ones.
struct PastLength {
  std::string input;
  std::int64_t most = 0;
};

/// The module holds one function @main. Its arguments carry kfuse.role ("input", "parameter" or
/// "state") and kfuse.name, its results kfuse.name; names of arguments are unique, and so are those of
/// results. Every tensor has a static shape.
struct Model {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// By argument name. Parameters that are not here have no data in the file: the caller gives it.
  std::map<std::string, ParameterData> parameters;
  std::vector<StateNote> states{};
  std::optional<PastLength> pastLength{};
};

/// Reads an ONNX file (opset 13 to 24) or the dialect's text; which of them, the content tells.
/// Errors: Io for files, Usage for options that do not fit the model, BadModel for everything else.
Result<Model> loadModel(const std::string &path, const ImportOptions &options, mlir::MLIRContext &context);

} // namespace kfuse::ir
