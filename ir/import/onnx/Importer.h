// An ONNX graph written in the dialect, node by node.
#pragma once

#include "ir/import/Model.h"
#include "ir/import/onnx/Names.h"
#include "ir/import/onnx/ValueUses.h"
#include "ir/import/onnx/file/GrowingCaches.h"
#include "ir/import/onnx/node/OnnxOp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace kfuse::ir::onnx {

class Importer : Surroundings {
public:
  Importer(const std::shared_ptr<const ::onnx::ModelProto> &proto, DataFolders folders, const GrowingCaches &growing,
           mlir::MLIRContext &context);

  /// `count` rows are new in each run of the caches that grow.
  Result<Model> run(const ImportOptions &options, std::int64_t count);
  /// How many there are, where run() failed since it was told another number; else 0.
  std::int64_t otherCount() { return emit->cachedPast() ? emit->cachedPast()->otherCount : 0; }

private:
  Result<void> declareInputs(const ImportOptions &options, std::int64_t count);
  Result<void> declareCaches(const std::vector<TensorDesc> &inputs, std::int64_t count);
  Result<void> checkCaches();
  void eraseUnused();
  Result<void> declareInitializers(const ::onnx::GraphProto &graph);
  Result<void> addInitializer(const ::onnx::TensorProto &initializer);
  Result<mlir::Value> valueOf(const ::onnx::TensorProto &initializer);
  Result<void> addNode(const ::onnx::NodeProto &node);
  Result<llvm::SmallVector<mlir::Value>> operandsOf(const ::onnx::NodeProto &node, const OnnxOp &op);
  Result<void> finish();

  std::optional<Ints> declaredShape(llvm::StringRef value) const override;
  bool isOnlyMoved(llvm::StringRef value) const override { return onnx::isOnlyMoved(graph, value); }
  bool isConvertible(mlir::Value value) const override;
  bool isRightFactor(llvm::StringRef value) const override { return onnx::isRightFactor(graph, value); }
  bool mayUpdate(llvm::StringRef input, llvm::StringRef result) const override;
  mlir::Value converted(mlir::Value value, const std::string &form, const Conversion &convert) override;
  std::optional<llvm::SmallVector<mlir::Value>> importBody(const ::onnx::GraphProto &body,
                                                           llvm::ArrayRef<mlir::Value> inputs) override;
  Result<llvm::SmallVector<mlir::Value>> addBody(const ::onnx::GraphProto &body, llvm::ArrayRef<mlir::Value> inputs);

  std::string storedName(mlir::Value value) const;
  mlir::Value addArgument(const TensorDesc &desc, llvm::StringRef role);
  mlir::Attribute text(llvm::StringRef value) { return mlir::StringAttr::get(&context, value); }

  mlir::MLIRContext &context;
  std::shared_ptr<const ::onnx::ModelProto> proto;
  const ::onnx::GraphProto &graph;
  TensorReader tensors;
  const GrowingCaches &growing;
  Model model;
  mlir::func::FuncOp main;
  std::optional<Emitter> emit;
  Names names;
  /// Floats that some op must know when the model is read.
  llvm::StringSet<> numbers;
  /// Sizes of symbolic dimensions, as the caller gave them.
  std::map<std::string, std::int64_t> symbols;
  /// Initializers of graphs inside of nodes: a loop's body is imported once a step, its weights once.
  std::map<const ::onnx::TensorProto *, mlir::Value> innerInitializers;
  /// Parameters whose data has been given another form, and which.
  llvm::DenseMap<mlir::Value, std::string> forms;
  int innerNodes = 0, depth = 0;
  std::optional<Error> innerError;
  llvm::SmallVector<mlir::DictionaryAttr> argumentAttributes;
  llvm::StringSet<> argumentNames;
};

} // namespace kfuse::ir::onnx
