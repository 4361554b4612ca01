// Parsing the dialect's text in tests.
#pragma once

#include "ir/dialect/Kfuse.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <doctest/doctest.h>

#include <string>

namespace kfuse::test {

/// A context with the dialects that a model's text uses.
struct IrContext {
  mlir::MLIRContext context;
  IrContext() {
    context.disableMultithreading();
    context.loadDialect<ir::KfuseDialect, mlir::func::FuncDialect>();
  }
};

/// A parsed module; the first complaint of the parser or a verifier is in `diagnostic`.
struct ParsedModule : IrContext {
  std::string diagnostic;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  explicit ParsedModule(const std::string &text) {
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &given) {
      if (diagnostic.empty())
        diagnostic = given.str();
      return mlir::success();
    });
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
  /// The body of the first function.
  mlir::Block &body() {
    REQUIRE_MESSAGE(module, diagnostic);
    return (*module->getOps<mlir::func::FuncOp>().begin()).getBody().front();
  }
};

} // namespace kfuse::test
