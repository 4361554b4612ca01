// The first error that MLIR reports, for the one line that an Error holds.
#pragma once

#include "mlir/IR/Diagnostics.h"

#include <optional>
#include <string>

namespace kfuse::ir {

/// Keeps the first error that MLIR reports while it lives; the others, and warnings, are not printed either.
class FirstError {
public:
  explicit FirstError(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (!location && diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
            message = diagnostic.str();
            location = diagnostic.getLocation();
          }
          return mlir::success();
        }) {}

  std::string message; ///< "" where there was none.
  std::optional<mlir::Location> location;

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace kfuse::ir
