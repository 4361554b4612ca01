#include "runtime/cpu/Lowering.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace kfuse::runtime::cpu {
namespace {

/// bf16 to f32 as integers: LLVM would move comparisons of an extended value in front of the
/// extension, where x86 has none and takes the vector apart.
struct ExtendBf16 : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &rewriter) const override {
    Value value = op.getIn();
    if (!getElementTypeOrSelf(value.getType()).isBF16() || !getElementTypeOrSelf(op.getType()).isF32())
      return failure();
    auto like = [&](Type element) -> Type {
      auto vector = dyn_cast<VectorType>(value.getType());
      return vector ? Type(vector.clone(element)) : element;
    };
    Type i32 = like(rewriter.getI32Type());
    Value half = rewriter.create<arith::BitcastOp>(op.getLoc(), like(rewriter.getI16Type()), value);
    Value wide = rewriter.create<arith::ExtUIOp>(op.getLoc(), i32, half);
    Attribute sixteen = rewriter.getI32IntegerAttr(16);
    if (auto vector = dyn_cast<VectorType>(i32))
      sixteen = DenseElementsAttr::get(vector, sixteen);
    Value shift = rewriter.create<arith::ConstantOp>(op.getLoc(), i32, cast<TypedAttr>(sixteen));
    Value bits = rewriter.create<arith::ShLIOp>(op.getLoc(), wide, shift);
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), bits);
    return success();
  }
};

/// Ops that stand for several simpler ones: affine.apply, views, bf16 conversions, floor division.
LogicalResult expandOps(ModuleOp module, const HostCpu &cpu) {
  RewritePatternSet patterns(module.getContext());
  populateAffineToStdConversionPatterns(patterns);
  memref::populateExpandStridedMetadataPatterns(patterns);
  arith::populateArithExpandOpsPatterns(patterns);
  patterns.add<ExtendBf16>(module.getContext());
  if (!cpu.hasBf16Conversion)
    arith::populateExpandBFloat16Patterns(patterns);
  vector::populateVectorMaskOpLoweringPatterns(patterns);
  return applyPatternsAndFoldGreedily(module, std::move(patterns));
}

LogicalResult lowerLoops(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  populateSCFToControlFlowConversionPatterns(patterns);
  ConversionTarget target(*module.getContext());
  target.addIllegalDialect<scf::SCFDialect>();
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  return applyPartialConversion(module, target, std::move(patterns));
}

LogicalResult lowerRest(ModuleOp module) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  options.useBarePtrCallConv = true;
  LLVMTypeConverter types(context, options);
  RewritePatternSet patterns(context);
  populateVectorToLLVMConversionPatterns(types, patterns, /*reassociateFPReductions=*/true);
  populateFinalizeMemRefToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  populateFuncToLLVMConversionPatterns(types, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyFullConversion(module, target, std::move(patterns));
}

/// Bare pointers leave casts to a memref and back.
void dropCasts(ModuleOp module) {
  SmallVector<UnrealizedConversionCastOp> casts;
  module.walk([&](UnrealizedConversionCastOp cast) { casts.push_back(cast); });
  for (UnrealizedConversionCastOp cast : casts)
    if (auto from = cast.getOperand(0).getDefiningOp<UnrealizedConversionCastOp>())
      if (from.getOperandTypes() == cast.getResultTypes())
        cast.replaceAllUsesWith(from.getOperands());
  for (UnrealizedConversionCastOp cast : llvm::reverse(casts))
    if (cast.use_empty())
      cast.erase();
}

/// `void name(void *const *args, int64_t begin, int64_t end)`, which unpacks the pointers for the kernel.
void addEntry(LLVM::LLVMFuncOp kernel) {
  std::string name = kernel.getName().str();
  OpBuilder builder(kernel);
  Location loc = kernel.getLoc();
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type integer = builder.getI64Type();
  kernel.setName(name + "_kernel");
  kernel.setLinkage(LLVM::Linkage::Internal);
  auto type = LLVM::LLVMFunctionType::get(kernel.getFunctionType().getReturnType(), {pointer, integer, integer});
  auto entry = builder.create<LLVM::LLVMFuncOp>(loc, name, type);
  Block *body = entry.addEntryBlock(builder);
  builder.setInsertionPointToStart(body);
  SmallVector<Value> arguments;
  for (unsigned i = 0; i + 2 < kernel.getNumArguments(); ++i) {
    auto slot = builder.create<LLVM::GEPOp>(loc, pointer, pointer, body->getArgument(0), ArrayRef<LLVM::GEPArg>{i});
    arguments.push_back(builder.create<LLVM::LoadOp>(loc, pointer, slot));
  }
  arguments.append({body->getArgument(1), body->getArgument(2)});
  builder.create<LLVM::CallOp>(loc, kernel, arguments);
  builder.create<LLVM::ReturnOp>(loc, ValueRange{});
}

} // namespace

LogicalResult lowerToLlvm(ModuleOp module, const HostCpu &cpu) {
  if (failed(expandOps(module, cpu)) || failed(lowerLoops(module)) || failed(lowerRest(module)))
    return failure();
  dropCasts(module);
  for (LLVM::LLVMFuncOp kernel : llvm::to_vector(module.getOps<LLVM::LLVMFuncOp>()))
    if (!kernel.isExternal())
      addEntry(kernel);
  return success();
}

} // namespace kfuse::runtime::cpu
