// A model of tests/data or examples/models, imported.
#pragma once

#include "ir/dialect/Kfuse.h"
#include "ir/import/Model.h"
#include "ir/reference/Evaluator.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace kfuse {

inline std::string testData(const std::string &name) { return KFUSE_TEST_DIR "/data/" + name; }
inline std::string exampleModel(const std::string &name) { return KFUSE_TEST_DIR "/../examples/models/" + name; }

class ImportedModel {
public:
  explicit ImportedModel(const std::string &path, const ir::ImportOptions &options = {})
      : ImportedModel([&](mlir::MLIRContext &context) { return ir::loadModel(path, options, context); }) {}
  template <class Make>
    requires std::is_invocable_r_v<Result<ir::Model>, Make, mlir::MLIRContext &>
  explicit ImportedModel(const Make &make) : context(mlir::MLIRContext::Threading::DISABLED), model(make(context)) {}

  explicit operator bool() const { return static_cast<bool>(model); }
  /// "" when there is none.
  std::string error() const { return model ? "" : model.error().message; }
  ErrorCode code() const { return model.error().code; }
  ir::Model &get() { return *model; }
  mlir::func::FuncOp main() { return model->module->lookupSymbol<mlir::func::FuncOp>("main"); }

  std::string name(unsigned argument) {
    return main().getArgAttrOfType<mlir::StringAttr>(argument, "kfuse.name").str();
  }
  std::string role(unsigned argument) {
    return main().getArgAttrOfType<mlir::StringAttr>(argument, "kfuse.role").str();
  }
  std::string resultName(unsigned i) { return main().getResultAttrOfType<mlir::StringAttr>(i, "kfuse.name").str(); }
  Shape argumentShape(unsigned i) { return ir::shapeOf(main().getArgument(i)); }
  Shape resultShape(unsigned i) {
    return Shape(llvm::cast<mlir::RankedTensorType>(main().getResultTypes()[i]).getShape());
  }

  /// Ops of this name, "kfuse.matmul".
  int count(llvm::StringRef op) {
    int found = 0;
    main().walk([&](mlir::Operation *one) { found += one->getName().getStringRef() == op; });
    return found;
  }

  /// The results by name; parameters from the file, inputs as given.
  std::map<std::string, std::vector<double>> evaluate(const std::map<std::string, reference::HostTensor> &inputs = {}) {
    std::vector<reference::HostTensor> arguments;
    for (mlir::BlockArgument argument : main().getArguments()) {
      std::string argumentName = name(argument.getArgNumber());
      if (auto input = inputs.find(argumentName); input != inputs.end()) {
        arguments.push_back(input->second);
        continue;
      }
      const ir::ParameterData &data = model->parameters.at(argumentName);
      arguments.push_back({data.type, data.shape, {data.bytes.begin(), data.bytes.end()}});
    }
    Result<std::vector<reference::Values>> values =
        reference::evaluate(main().getBody().front(), arguments, reference::Mode::Exact);
    std::map<std::string, std::vector<double>> results;
    for (unsigned i = 0; values && i < values->size(); ++i)
      results[resultName(i)] = reference::toDoubles(reference::toTensor((*values)[i]));
    return results;
  }

private:
  mlir::MLIRContext context;
  Result<ir::Model> model;
};

} // namespace kfuse
