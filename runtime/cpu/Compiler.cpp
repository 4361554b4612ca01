#include "codegen/CompileOptions.h"
#include "runtime/Device.h"
#include "runtime/cpu/HostCpu.h"
#include "runtime/cpu/Lowering.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Config/llvm-config.h"

#include <algorithm>
#include <chrono>

using namespace mlir;

namespace kfuse::runtime {
namespace {

/// Keeps the first error that MLIR reports, for the one line an Error holds.
class FirstDiagnostic {
public:
  explicit FirstDiagnostic(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          if (message.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
            message = diagnostic.str();
          return success();
        }) {}

  Error error(const std::string &kernel, std::string_view step) const {
    return Error{ErrorCode::Compile, kernel + ": " + std::string(step) + " failed: " + message};
  }

private:
  std::string message;
  ScopedDiagnosticHandler handler;
};

class CpuCompiler final : public KernelCompiler {
public:
  std::string version() const override { return "llvm " LLVM_VERSION_STRING; }

  Result<CompiledKernel> compile(const codegen::KernelPlan &plan) override {
    auto start = std::chrono::steady_clock::now();
    Result<std::vector<std::byte>> object = toObject(plan);
    if (!object)
      return object.error();
    CompiledKernel kernel;
    kernel.image = std::move(*object);
    kernel.compileMs = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return kernel;
  }

private:
  static Result<std::vector<std::byte>> toObject(const codegen::KernelPlan &plan) {
    MLIRContext context(MLIRContext::Threading::DISABLED);
    context.loadDialect<affine::AffineDialect, arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect,
                        linalg::LinalgDialect, LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect,
                        scf::SCFDialect, vector::VectorDialect>();
    FirstDiagnostic diagnostic(context);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(plan.source, ParserConfig(&context));
    if (!module)
      return diagnostic.error(plan.name, "parsing");
    cpu::inlineScalarFunctions(*module);
    if (failed(cpu::vectorizeTiles(*module)))
      return diagnostic.error(plan.name, "vectorising");
    if (failed(cpu::unrollVectors(*module)))
      return diagnostic.error(plan.name, "unrolling vectors");
    if (failed(cpu::lowerToLlvm(*module, cpu::hostCpu())))
      return diagnostic.error(plan.name, "lowering to LLVM");
    const bool contracts = !std::ranges::count(plan.options, codegen::noContraction);
    return cpu::emitObject(*module, cpu::hostCpu(), contracts);
  }
};

} // namespace

std::unique_ptr<KernelCompiler> makeCpuCompiler() { return std::make_unique<CpuCompiler>(); }

} // namespace kfuse::runtime
