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

/// f32 lanes as bf16, two in an integer, for each half of a cache line. LLVM 19 has no nontemporal store
/// of bf16 and turns a cast in front of one back; what the instruction's result is, it leaves alone.
Value roundToBf16Line(OpBuilder &builder, Location loc, Value lanes, int32_t first) {
  constexpr int32_t perInstruction = 16;
  auto integers = VectorType::get(perInstruction / 2, builder.getI32Type());
  auto half = [&](int32_t begin) -> Value {
    SmallVector<int32_t> mask = llvm::to_vector(llvm::seq(begin, begin + perInstruction));
    Value wide = builder.create<LLVM::ShuffleVectorOp>(loc, lanes, lanes, mask);
    return builder
        .create<LLVM::InlineAsmOp>(loc, TypeRange(integers), wide, "vcvtneps2bf16 $1, $0", "=v,v",
                                   /*has_side_effects=*/false, /*is_align_stack=*/false, LLVM::AsmDialectAttr(),
                                   ArrayAttr())
        .getResult(0);
  };
  SmallVector<int32_t> all = llvm::to_vector(llvm::seq<int32_t>(0, perInstruction));
  return builder.create<LLVM::ShuffleVectorOp>(loc, half(first), half(first + perInstruction), all);
}

/// A nontemporal store of rounded bf16, cache line by cache line; any other store of bf16 is a plain one.
void storeBf16Lines(LLVM::StoreOp store, const HostCpu &cpu) {
  constexpr int32_t perLine = 32, lineBytes = 64;
  auto rounding = store.getValue().getDefiningOp<LLVM::FPTruncOp>();
  if (!rounding || cpu.vectorBits < 512)
    return store.setNontemporal(false);
  OpBuilder builder(store);
  Location loc = store.getLoc();
  auto type = cast<VectorType>(store.getValue().getType());
  for (int32_t first = 0; first < type.getNumElements(); first += perLine) {
    Value line = builder.create<LLVM::GEPOp>(loc, store.getAddr().getType(), builder.getI8Type(), store.getAddr(),
                                             ArrayRef<LLVM::GEPArg>{first / perLine * lineBytes});
    builder.create<LLVM::StoreOp>(loc, roundToBf16Line(builder, loc, rounding.getArg(), first), line,
                                  store.getAlignment().value_or(0), /*isVolatile=*/false, /*isNonTemporal=*/true);
  }
  store.erase();
}

/// Makes nontemporal stores into what x86 has: without an alignment it has none. Buffers start at
/// multiples of 16 bytes and such stores at multiples of a cache line behind. Whether there are any.
bool finishNontemporalStores(LLVM::LLVMFuncOp kernel, const HostCpu &cpu) {
  constexpr std::uint64_t alignment = 16;
  SmallVector<LLVM::StoreOp> stores;
  kernel.walk([&](LLVM::StoreOp store) {
    if (store.getNontemporal())
      stores.push_back(store);
  });
  for (LLVM::StoreOp store : stores) {
    store.setAlignment(alignment);
    if (getElementTypeOrSelf(store.getValue().getType()).isBF16())
      storeBf16Lines(store, cpu);
  }
  return !stores.empty();
}

/// `void name(void *const *args, int64_t begin, int64_t end)`, which unpacks the pointers for the kernel.
void addEntry(LLVM::LLVMFuncOp kernel, const HostCpu &cpu) {
  std::string name = kernel.getName().str();
  bool isWeaklyOrdered = finishNontemporalStores(kernel, cpu);
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
  if (isWeaklyOrdered) // Other threads read the result after this one has said that it is done.
    builder.create<LLVM::CallIntrinsicOp>(loc, TypeRange(), "llvm.x86.sse.sfence", ValueRange());
  builder.create<LLVM::ReturnOp>(loc, ValueRange{});
}

} // namespace

LogicalResult lowerToLlvm(ModuleOp module, const HostCpu &cpu) {
  if (failed(expandOps(module, cpu)) || failed(lowerLoops(module)) || failed(lowerRest(module)))
    return failure();
  dropCasts(module);
  for (LLVM::LLVMFuncOp kernel : llvm::to_vector(module.getOps<LLVM::LLVMFuncOp>()))
    if (!kernel.isExternal())
      addEntry(kernel, cpu);
  return success();
}

} // namespace kfuse::runtime::cpu
