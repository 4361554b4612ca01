// Prints nodes of a scalar graph as CUDA statements, one line a node.
#pragma once

#include "codegen/LinearGraph.h"
#include "codegen/cuda/text/IndexText.h"
#include "codegen/cuda/text/SourceWriter.h"

#include <functional>
#include <map>

namespace kfuse::codegen::cuda {

/// Type of an element in memory and of a value in registers: bf16 is stored, float computed.
llvm::StringRef storedType(DType type);
llvm::StringRef valueType(DType type);
/// A number of a float type, and one of an integer type or a boolean.
std::string literalText(double value);
std::string integerText(int64_t value, DType type);

/// One scope of generated code: which values have a name in it, and what the dimensions are called.
/// An inner scope starts as a copy. Values are named v<id> after the graph's nodes.
class ValuePrinter {
public:
  using LoadText = std::function<std::string(ir::Scalar)>;

  ValuePrinter(const LinearGraph &graph, SourceWriter &writer, llvm::ArrayRef<std::string> dims)
      : graph(graph), writer(&writer), dims(dims) {}

  /// The text that names a value here; first prints the lines that compute it where it is new.
  std::string value(ir::Scalar s);
  /// States that the text `text` is the value of `s` from here on.
  void define(ir::Scalar s, std::string text) { known[s.id] = std::move(text); }
  /// States that division by `s` may be multiplication with `text`, its reciprocal.
  void defineReciprocal(ir::Scalar s, std::string text) { reciprocals[s.id] = std::move(text); }
  bool hasReciprocal(ir::Scalar s) const { return reciprocals.count(s.id); }
  /// How loads are read in this scope; by default straight from memory.
  void readLoadsBy(LoadText text) { loadText = std::move(text); }
  /// An inner scope in which dimension `dim` has another name.
  ValuePrinter within(unsigned dim, std::string name) const;

  /// An access's offset and conditions, after printing the symbols they use. Conditions are joined
  /// by &&; "" when there is none.
  std::string offset(mlir::AffineExpr expr, llvm::ArrayRef<ir::Scalar> symbols);
  std::string condition(llvm::ArrayRef<ir::Guard> guards, llvm::ArrayRef<ir::Scalar> symbols);

  llvm::StringRef dimName(unsigned dim) const { return dims[dim]; }
  SourceWriter &out() const { return *writer; }

private:
  std::string print(ir::Scalar s);
  std::string elementText(ir::Scalar load);
  IndexNames names(llvm::ArrayRef<ir::Scalar> symbols, bool wide);

  const LinearGraph &graph;
  SourceWriter *writer;
  llvm::SmallVector<std::string, 6> dims;
  std::map<int, std::string> known, reciprocals;
  LoadText loadText;
};

} // namespace kfuse::codegen::cuda
