// The first error that MLIR reports, for the one line that an Error holds.
#pragma once

#include "kfuse/error.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

#include <optional>
#include <string>

namespace kfuse::ir {

/// Begins what emitInternalError() reports.
inline constexpr llvm::StringLiteral internalErrorMark = "a bug of kfuse: ";

/// Reports what cannot be, unless kfuse has a bug; FirstError::as() makes it an Error of the code Internal.
inline mlir::InFlightDiagnostic emitInternalError(mlir::Operation *op) { return op->emitOpError(internalErrorMark); }

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

  /// The error, of the code Internal where emitInternalError() reported it, else of `code`.
  Error as(ErrorCode code) const {
    const bool isBug = message.find(internalErrorMark) != std::string::npos;
    return {isBug ? ErrorCode::Internal : code, message};
  }

  std::string message; ///< "" where there was none.
  std::optional<mlir::Location> location;

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace kfuse::ir
