#ifndef KFUSE_INTERFACES_TD
#define KFUSE_INTERFACES_TD

include "mlir/IR/OpBase.td"

def FusableOpInterface : OpInterface<"FusableOpInterface"> {
  let description = [{
    What a pass or code generator may ask an op. Passes ask; those that name ops are in docs/adding-an-op.md.
  }];
  let cppNamespace = "::kfuse::ir";
  let methods = [
    InterfaceMethod<"How the op's result elements depend on its operands' elements.",
      "::kfuse::ir::OpKind", "getOpKind">,
    InterfaceMethod<[{
        Floating point operations, as a lower bound of the work: one per element of a pointwise op
        and per element read by a reduction, 2MNK for a contraction, none for layout.
      }], "int64_t", "getFlops">,
    InterfaceMethod<[{
        Describes one element of the result at `index` (one expression per result dimension).
      }], "::kfuse::ir::Scalar", "scalarise",
      (ins "::kfuse::ir::ScalarBuilder &":$builder, "::llvm::ArrayRef<::mlir::AffineExpr>":$index)>,
    InterfaceMethod<[{
        Where the element of operand `operand` at `operandIndex` lands in the result, for an op that
        moves every element of that operand to one place (same-shape pointwise, transpose, reshape);
        nothing for the others.
      }], "::std::optional<::llvm::SmallVector<::mlir::AffineExpr>>", "forwardIndex",
      (ins "unsigned":$operand, "::llvm::ArrayRef<::mlir::AffineExpr>":$operandIndex), "",
      /*defaultImplementation=*/[{ return std::nullopt; }]>,
    InterfaceMethod<[{
        Whether places of the result read ranges of an operand that overlap and leave it, as windows do. Then equal
        numbers of places and elements do not mean that they correspond one to one, and the result in memory would
        hold an element several times.
      }], "bool", "readsOverlap", (ins), "", /*defaultImplementation=*/[{ return false; }]>,
    InterfaceMethod<[{
        Whether those who read the result compute it from the operands, as they follow layout, and nobody stores it: it
        would take a multiple of the operands' memory, and computing it takes next to no time. Nothing moves in between.
      }], "bool", "isComputedByReaders", (ins), "", /*defaultImplementation=*/[{ return false; }]>,
  ];
}

#endif
