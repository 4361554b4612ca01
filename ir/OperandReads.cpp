#include "ir/OperandReads.h"

using namespace mlir;

namespace kfuse::ir {
namespace {

using Index = SmallVector<AffineExpr>;

/// Learns where an op reads its operands; answers everything else with a dummy.
class ReadRecorder : public ScalarBuilder {
public:
  ReadRecorder(MLIRContext *context, unsigned operands, AffineExpr reduction)
      : recorded(operands), ctx(context), reduction(reduction) {}
  SmallVector<SmallVector<Index>> recorded;

  MLIRContext *context() override { return ctx; }
  Scalar operand(unsigned i, ArrayRef<AffineExpr> index) override {
    recorded[i].emplace_back(index);
    return {0};
  }
  Scalar constant(double, DType) override { return {0}; }
  Scalar integer(int64_t, DType) override { return {0}; }
  Scalar apply(StringRef, ArrayRef<Scalar>, DType) override { return {0}; }
  Scalar cast(Scalar, DType) override { return {0}; }
  Scalar indexValue(AffineExpr) override { return {0}; }
  AffineExpr dynamicIndex(Scalar, int64_t) override { return getAffineSymbolExpr(0, ctx); }
  Scalar guarded(Guard, llvm::function_ref<Scalar()> body) override { return body(); }
  bool isLoad(Scalar) const override { return true; }
  Scalar reduce(StringRef, int64_t, llvm::function_ref<Scalar(AffineExpr)> body) override {
    return reduction ? body(reduction) : Scalar{};
  }
  Scalar contract(int64_t, llvm::function_ref<Scalar(AffineExpr)> lhs, llvm::function_ref<Scalar(AffineExpr)> rhs,
                  StringRef) override {
    if (reduction)
      lhs(reduction), rhs(reduction);
    return {0};
  }
  Scalar refuse(const Twine &) override { return {}; }

private:
  MLIRContext *ctx;
  AffineExpr reduction;
};

} // namespace

SmallVector<SmallVector<SmallVector<AffineExpr>>> operandReads(FusableOpInterface op, ArrayRef<AffineExpr> index,
                                                               AffineExpr reduction) {
  ReadRecorder recorder(op->getContext(), op->getNumOperands(), reduction);
  op.scalarise(recorder, index);
  return std::move(recorder.recorded);
}

} // namespace kfuse::ir
