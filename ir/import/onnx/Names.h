// What names mean in a graph, and in the graphs inside of its nodes.
#pragma once

#include "kfuse/error.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <string>

namespace kfuse::ir::onnx {

class Names {
public:
  /// A graph inside of a node: what it defines hides what names mean around it, until the end of the scope.
  class Scope {
  public:
    explicit Scope(Names &names);
    ~Scope();
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    friend Names;
    void hide(const std::string &name);

    Names &names;
    Scope *outer;
    llvm::StringSet<> own;
    llvm::StringMap<mlir::Value> hidden;
    llvm::StringMap<std::string> hiddenMissing;
  };

  bool isInsideNode() const { return scope != nullptr; }

  /// BadModel for a name that a value of the same graph has, and for none.
  Result<void> define(const std::string &name, mlir::Value value);
  /// The name is a result of `maker` that kfuse does not make.
  void setMissing(const std::string &name, const std::string &maker);

  /// Null for a name without a value.
  mlir::Value lookup(const std::string &name) const { return values.lookup(name); }
  bool contains(const std::string &name) const { return values.contains(name); }
  /// The node that would make a result that kfuse does not make; null for other names.
  const std::string *makerOfMissing(const std::string &name) const;
  /// BadModel where `reader` asks for what has no value.
  Result<mlir::Value> read(const std::string &name, const std::string &reader) const;

private:
  llvm::StringMap<mlir::Value> values;
  llvm::StringMap<std::string> missing; ///< Results that kfuse does not make, with the node that would.
  Scope *scope = nullptr;               ///< The innermost graph inside of a node.
};

} // namespace kfuse::ir::onnx
