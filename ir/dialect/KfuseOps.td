#ifndef KFUSE_OPS_TD
#define KFUSE_OPS_TD

include "ir/dialect/KfuseDialect.td"
include "ir/dialect/KfuseInterfaces.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===- Types -----------------------------------------------------------------------------------===//

def Kfuse_Float : AnyTypeOf<[F32, F16, BF16]>;
def Kfuse_Integer : AnyTypeOf<[I32, I64]>;
def Kfuse_Float8 : AnyTypeOf<[F8E4M3FN, F8E5M2]>;
def Kfuse_SmallInteger : AnyTypeOf<[I8, UI8, I<4>, UI<4>]>;
def Kfuse_Number : AnyTypeOf<[F32, F16, BF16, I32, I64, I1]>;
def Kfuse_Element : AnyTypeOf<[F32, F16, BF16, I32, I64, I1, F8E4M3FN, F8E5M2, Kfuse_SmallInteger]>;

def Kfuse_Tensor : StaticShapeTensorOf<[Kfuse_Element]>;
def Kfuse_FloatTensor : StaticShapeTensorOf<[Kfuse_Float]>;
def Kfuse_SmallIntegerTensor : StaticShapeTensorOf<[Kfuse_SmallInteger]>;
/// What arithmetic takes: 8-bit floats and small integers are cast first.
def Kfuse_NumberTensor : StaticShapeTensorOf<[Kfuse_Number]>;
def Kfuse_FactorTensor : StaticShapeTensorOf<[Kfuse_Float, Kfuse_Float8]>;
def Kfuse_IndexTensor : StaticShapeTensorOf<[Kfuse_Integer]>;
def Kfuse_BoolTensor : StaticShapeTensorOf<[I1]>;
def Kfuse_BitTensor : StaticShapeTensorOf<[I32, I64, I1]>;

//===- Bases -----------------------------------------------------------------------------------===//

class Kfuse_Op<string mnemonic, list<Trait> traits = []> : Op<Kfuse_Dialect, mnemonic, traits>;

/// A fusable op whose result type follows from its operands.
class Kfuse_InferredOp<string mnemonic, string kind, list<Trait> traits = []>
    : Kfuse_Op<mnemonic, [Pure, FusableOpInterface, InferTypeOpInterface] # traits> {
  let results = (outs Kfuse_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  code methods = [{
    ::kfuse::ir::OpKind getOpKind() { return ::kfuse::ir::OpKind::}] # kind # [{; }
    int64_t getFlops();
    ::kfuse::ir::Scalar scalarise(::kfuse::ir::ScalarBuilder &builder, ::llvm::ArrayRef<::mlir::AffineExpr> index);
    static ::llvm::LogicalResult inferReturnTypes(::mlir::MLIRContext *context,
        ::std::optional<::mlir::Location> location, ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes,
        ::mlir::OpaqueProperties properties, ::mlir::RegionRange regions,
        ::llvm::SmallVectorImpl<::mlir::Type> &types);
  }];
  let extraClassDeclaration = methods;
}

/// An op with an explicit result type that moves elements and computes nothing.
class Kfuse_LayoutOp<string mnemonic, list<Trait> traits = []>
    : Kfuse_Op<mnemonic, [Pure, FusableOpInterface] # traits> {
  let results = (outs Kfuse_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  code methods = [{
    ::kfuse::ir::OpKind getOpKind() { return ::kfuse::ir::OpKind::Layout; }
    int64_t getFlops() { return 0; }
    ::kfuse::ir::Scalar scalarise(::kfuse::ir::ScalarBuilder &builder, ::llvm::ArrayRef<::mlir::AffineExpr> index);
  }];
  let extraClassDeclaration = methods;
}

/// Elementwise over operands of one element type that broadcast as in NumPy. The scalar function's
/// name is the mnemonic: one row for it in each scalar table (CUDA text, CPU lowering, reference).
class Kfuse_PointwiseOp<string mnemonic, string resultElement = "operand">
    : Kfuse_Op<mnemonic, [Pure, FusableOpInterface, InferTypeOpInterface]> {
  let results = (outs Kfuse_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  string function = "getOperationName().drop_front(sizeof(\"kfuse\"))";
  code methods = [{
    ::kfuse::ir::OpKind getOpKind() { return ::kfuse::ir::OpKind::Pointwise; }
    int64_t getFlops() { return ::kfuse::ir::detail::pointwiseFlops(getOperation()); }
    ::llvm::StringRef getScalarFunction() { return }] # function # [{; }
    ::kfuse::ir::Scalar scalarise(::kfuse::ir::ScalarBuilder &builder, ::llvm::ArrayRef<::mlir::AffineExpr> index) {
      return ::kfuse::ir::detail::scalarisePointwise(getOperation(), getScalarFunction(), builder, index);
    }
    ::std::optional<::llvm::SmallVector<::mlir::AffineExpr>>
    forwardIndex(unsigned operand, ::llvm::ArrayRef<::mlir::AffineExpr> operandIndex) {
      return ::kfuse::ir::detail::forwardPointwise(getOperation(), operand, operandIndex);
    }
    static ::llvm::LogicalResult inferReturnTypes(::mlir::MLIRContext *, ::std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr, ::mlir::OpaqueProperties, ::mlir::RegionRange,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::kfuse::ir::detail::inferPointwise(getOperationName(), location, operands,
          ::kfuse::ir::detail::ResultElement::}] # resultElement # [{, types);
    }
  }];
  let extraClassDeclaration = methods;
}

class Kfuse_UnaryOp<string mnemonic, Type operandType = Kfuse_FloatTensor> : Kfuse_PointwiseOp<mnemonic> {
  let arguments = (ins operandType:$operand);
}
class Kfuse_BinaryOp<string mnemonic, Type operandType = Kfuse_NumberTensor> : Kfuse_PointwiseOp<mnemonic> {
  let arguments = (ins operandType:$lhs, operandType:$rhs);
}

//===- Pointwise -------------------------------------------------------------------------------===//

def Kfuse_ReluOp : Kfuse_UnaryOp<"relu", Kfuse_NumberTensor> { let summary = "max(x, 0); NaN stays NaN"; }
def Kfuse_GeluOp : Kfuse_UnaryOp<"gelu"> { let summary = "x / 2 (1 + erf(x / sqrt 2))"; }
def Kfuse_GeluTanhOp : Kfuse_UnaryOp<"gelu_tanh"> {
  let summary = "x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))";
}
def Kfuse_SiluOp : Kfuse_UnaryOp<"silu"> { let summary = "x / (1 + exp(-x))"; }
def Kfuse_SigmoidOp : Kfuse_UnaryOp<"sigmoid"> { let summary = "1 / (1 + exp(-x))"; }
def Kfuse_TanhOp : Kfuse_UnaryOp<"tanh"> { let summary = "hyperbolic tangent"; }
def Kfuse_ErfOp : Kfuse_UnaryOp<"erf"> { let summary = "error function"; }
def Kfuse_ExpOp : Kfuse_UnaryOp<"exp"> { let summary = "e^x"; }
def Kfuse_Expm1Op : Kfuse_UnaryOp<"expm1"> { let summary = "e^x - 1, without loss near 0"; }
def Kfuse_LogOp : Kfuse_UnaryOp<"log"> { let summary = "natural logarithm"; }
def Kfuse_Log1pOp : Kfuse_UnaryOp<"log1p"> { let summary = "log(1 + x), without loss near 0"; }
def Kfuse_SqrtOp : Kfuse_UnaryOp<"sqrt"> { let summary = "square root"; }
def Kfuse_RsqrtOp : Kfuse_UnaryOp<"rsqrt"> { let summary = "1 / sqrt x"; }
def Kfuse_ReciprocalOp : Kfuse_UnaryOp<"reciprocal"> { let summary = "1 / x"; }
def Kfuse_SinOp : Kfuse_UnaryOp<"sin"> { let summary = "sine"; }
def Kfuse_CosOp : Kfuse_UnaryOp<"cos"> { let summary = "cosine"; }
def Kfuse_AtanOp : Kfuse_UnaryOp<"atan"> { let summary = "arc tangent"; }
def Kfuse_RoundOp : Kfuse_UnaryOp<"round"> { let summary = "nearest integer; of two equally near the even one"; }
def Kfuse_FloorOp : Kfuse_UnaryOp<"floor"> { let summary = "largest integer not above x"; }
def Kfuse_NegOp : Kfuse_UnaryOp<"neg", Kfuse_NumberTensor> { let summary = "-x"; }
def Kfuse_AbsOp : Kfuse_UnaryOp<"abs", Kfuse_NumberTensor> { let summary = "|x|"; }
def Kfuse_NotOp : Kfuse_UnaryOp<"not", Kfuse_BoolTensor> { let summary = "logical negation"; }
def Kfuse_IsNanOp : Kfuse_PointwiseOp<"is_nan", "boolean"> {
  let summary = "true where x is NaN";
  let arguments = (ins Kfuse_FloatTensor:$operand);
}

def Kfuse_AddOp : Kfuse_BinaryOp<"add"> { let summary = "a + b"; }
def Kfuse_SubOp : Kfuse_BinaryOp<"sub"> { let summary = "a - b"; }
def Kfuse_MulOp : Kfuse_BinaryOp<"mul"> { let summary = "a b"; }
def Kfuse_DivOp : Kfuse_BinaryOp<"div"> { let summary = "a / b; integers truncate towards zero, by 0 they give 0"; }
def Kfuse_MaxOp : Kfuse_BinaryOp<"max"> { let summary = "the larger; NaN if either is NaN"; }
def Kfuse_MinOp : Kfuse_BinaryOp<"min"> { let summary = "the smaller; NaN if either is NaN"; }
def Kfuse_PowOp : Kfuse_BinaryOp<"pow", Kfuse_FloatTensor> { let summary = "a^b"; }
def Kfuse_ModOp : Kfuse_BinaryOp<"mod"> { let summary = "a - floor(a / b) b: the sign of b; of integers by 0, 0"; }
def Kfuse_RemOp : Kfuse_BinaryOp<"rem"> { let summary = "a - trunc(a / b) b: the sign of a; of integers by 0, 0"; }
def Kfuse_AndOp : Kfuse_BinaryOp<"and", Kfuse_BitTensor> { let summary = "logical and; of integers bit by bit"; }
def Kfuse_OrOp : Kfuse_BinaryOp<"or", Kfuse_BitTensor> { let summary = "logical or; of integers bit by bit"; }

class Kfuse_CompareOp<string mnemonic> : Kfuse_PointwiseOp<mnemonic, "boolean"> {
  let arguments = (ins Kfuse_NumberTensor:$lhs, Kfuse_NumberTensor:$rhs);
}
def Kfuse_EqOp : Kfuse_CompareOp<"eq"> { let summary = "a == b"; }
def Kfuse_NeOp : Kfuse_CompareOp<"ne"> { let summary = "a != b"; }
def Kfuse_LtOp : Kfuse_CompareOp<"lt"> { let summary = "a < b"; }
def Kfuse_LeOp : Kfuse_CompareOp<"le"> { let summary = "a <= b"; }
def Kfuse_GtOp : Kfuse_CompareOp<"gt"> { let summary = "a > b"; }
def Kfuse_GeOp : Kfuse_CompareOp<"ge"> { let summary = "a >= b"; }

def Kfuse_WhereOp : Kfuse_PointwiseOp<"where", "lastOperand"> {
  let summary = "b where the condition holds, else c";
  let arguments = (ins Kfuse_BoolTensor:$condition, Kfuse_Tensor:$then, Kfuse_Tensor:$otherwise);
}

def Kfuse_CastOp : Kfuse_Op<"cast", [Pure, FusableOpInterface, SameOperandsAndResultShape]> {
  let summary = "conversion; float to integer truncates, to a narrower float rounds to nearest even";
  let description = [{
    From a float to an integer it saturates: what is too large or too small becomes the end of the type, NaN 0. To a
    narrower integer the high bits are dropped.

    To an integer of 8 bits floats saturate, too, and other integers keep their low 8 bits. No cast makes 4-bit
    integers, which no kernel stores.

    To f8E4M3FN or f8E5M2 it saturates: what is too large, infinity too, becomes the largest number (448 or
    57344); NaN stays NaN. Casts between floats vanish inside a fused region: values round, and saturate, where
    they are stored.
  }];
  let arguments = (ins Kfuse_Tensor:$operand);
  let results = (outs Kfuse_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::kfuse::ir::OpKind getOpKind() { return ::kfuse::ir::OpKind::Pointwise; }
    int64_t getFlops() { return 0; }
    ::kfuse::ir::Scalar scalarise(::kfuse::ir::ScalarBuilder &builder, ::llvm::ArrayRef<::mlir::AffineExpr> index);
    ::std::optional<::llvm::SmallVector<::mlir::AffineExpr>>
    forwardIndex(unsigned operand, ::llvm::ArrayRef<::mlir::AffineExpr> operandIndex) {
      return ::kfuse::ir::detail::forwardPointwise(getOperation(), operand, operandIndex);
    }
  }];
}

def Kfuse_DequantizeOp : Kfuse_InferredOp<"dequantize", "Pointwise"> {
  let summary = "(q - zero) scale, with a zero and a scale for each block of q";
  let description = [{
    blocks[i] elements along dimension i share a scale, or all where it is 0; the last block of a dimension may be
    shorter. scales, and zeros where there are any, have ceil(size / blocks[i]) elements along it: [0, 0] is one scale a
    tensor, [1, 0] one a row, [1, 128] groups of 128. The difference from integers is exact, from floats it is rounded
    to their type, as in HQQ; the result has the scales' type.
  }];
  let arguments = (ins Kfuse_SmallIntegerTensor:$quantized, Kfuse_FloatTensor:$scales,
                       Optional<StaticShapeTensorOf<[Kfuse_Float, Kfuse_SmallInteger]>>:$zeros,
                       DenseI64ArrayAttr:$blocks);
  let hasVerifier = 1;
  let extraClassDeclaration = methods # [{
    bool isComputedByReaders() { return true; }
    ::std::optional<::llvm::SmallVector<::mlir::AffineExpr>>
    forwardIndex(unsigned operand, ::llvm::ArrayRef<::mlir::AffineExpr> operandIndex) {
      if (operand != 0)
        return std::nullopt;
      return ::llvm::SmallVector<::mlir::AffineExpr>(operandIndex);
    }
  }];
}

//===- Rows and contractions -------------------------------------------------------------------===//

def Kfuse_MatmulOp : Kfuse_InferredOp<"matmul", "Contraction"> {
  let summary = "a b over the last two dimensions, accumulated in f32";
  let description = [{
    a: [batch..., M, K] (or [batch..., K, M] with transpose_a), b: [batch..., K, N] (or [batch..., N, K]
    with transpose_b). Batch dimensions broadcast as in NumPy. Result: [batch..., M, N] of a's type, or of f32
    where the operands are 8-bit floats, which may be a pair of both: multiply it by their scales.

    `tf32` allows f32 operands to be cut behind 10 bits of mantissa, as tensor cores read them; without it f32
    is true f32.
  }];
  let arguments = (ins Kfuse_FactorTensor:$lhs, Kfuse_FactorTensor:$rhs, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       UnitAttr:$tf32);
  let hasVerifier = 1;
  let extraClassDeclaration = methods # [{
    /// Sizes of the product.
    int64_t getM();
    int64_t getN();
    int64_t getK();
  }];
}

def Kfuse_SoftmaxOp : Kfuse_InferredOp<"softmax", "RowReduction"> {
  let summary = "exp(x - max) / sum exp(x - max) over the last dimension";
  let arguments = (ins Kfuse_FloatTensor:$operand);
  let extraClassDeclaration = methods # [{
    ::std::optional<::llvm::SmallVector<::mlir::AffineExpr>>
    forwardIndex(unsigned operand, ::llvm::ArrayRef<::mlir::AffineExpr> operandIndex) {
      return ::llvm::SmallVector<::mlir::AffineExpr>(operandIndex);
    }
  }];
}

def Kfuse_LayerNormOp : Kfuse_InferredOp<"layer_norm", "RowReduction", [AttrSizedOperandSegments]> {
  let summary = "(x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension, in f32";
  let arguments = (ins Kfuse_FloatTensor:$operand, Optional<Kfuse_FloatTensor>:$weight,
                       Optional<Kfuse_FloatTensor>:$bias, F32Attr:$epsilon);
  let hasVerifier = 1;
  let extraClassDeclaration = methods # [{
    ::std::optional<::llvm::SmallVector<::mlir::AffineExpr>>
    forwardIndex(unsigned operand, ::llvm::ArrayRef<::mlir::AffineExpr> operandIndex) {
      if (operand != 0)
        return std::nullopt;
      return ::llvm::SmallVector<::mlir::AffineExpr>(operandIndex);
    }
  }];
}

def Kfuse_RmsNormOp : Kfuse_InferredOp<"rms_norm", "RowReduction"> {
  let summary = "x / sqrt(mean(x^2) + epsilon) * weight over the last dimension, in f32";
  let arguments = (ins Kfuse_FloatTensor:$operand, Optional<Kfuse_FloatTensor>:$weight, F32Attr:$epsilon);
  let hasVerifier = 1;
  let extraClassDeclaration = methods # [{
    ::std::optional<::llvm::SmallVector<::mlir::AffineExpr>>
    forwardIndex(unsigned operand, ::llvm::ArrayRef<::mlir::AffineExpr> operandIndex) {
      if (operand != 0)
        return std::nullopt;
      return ::llvm::SmallVector<::mlir::AffineExpr>(operandIndex);
    }
  }];
}

def Kfuse_ReduceOp : Kfuse_InferredOp<"reduce", "RowReduction"> {
  let summary = "sum, max, min or mean over `axes` (ascending), which the result drops";
  let arguments = (ins Kfuse_NumberTensor:$operand, StrAttr:$function, DenseI64ArrayAttr:$axes);
  let hasVerifier = 1;
}

def Kfuse_RotaryOp : Kfuse_InferredOp<"rotary", "Pointwise"> {
  let summary = "rotary position embedding";
  let description = [{
    x: [..., D]. Pairs (x_i, x_{i + D/2}) (or neighbours with `interleaved`) are rotated by the angle whose
    cosine and sine are given as tensors that broadcast against x, with last dimension D or D/2.
    Su et al., RoFormer, 2021.
  }];
  let arguments = (ins Kfuse_FloatTensor:$operand, Kfuse_FloatTensor:$cos, Kfuse_FloatTensor:$sin,
                       UnitAttr:$interleaved);
}

//===- Layout ----------------------------------------------------------------------------------===//

def Kfuse_ReshapeOp : Kfuse_LayoutOp<"reshape"> {
  let summary = "the same elements in row-major order under another shape";
  let arguments = (ins Kfuse_Tensor:$operand);
  let extraClassDeclaration = methods # [{
    ::std::optional<::llvm::SmallVector<::mlir::AffineExpr>>
    forwardIndex(unsigned operand, ::llvm::ArrayRef<::mlir::AffineExpr> operandIndex);
  }];
}
def Kfuse_TransposeOp : Kfuse_LayoutOp<"transpose"> {
  let summary = "result dimension i is operand dimension permutation[i]";
  let arguments = (ins Kfuse_Tensor:$operand, DenseI64ArrayAttr:$permutation);
  let extraClassDeclaration = methods # [{
    ::std::optional<::llvm::SmallVector<::mlir::AffineExpr>>
    forwardIndex(unsigned operand, ::llvm::ArrayRef<::mlir::AffineExpr> operandIndex);
  }];
}
def Kfuse_BroadcastOp : Kfuse_LayoutOp<"broadcast"> {
  let summary = "NumPy broadcasting to the result's shape";
  let arguments = (ins Kfuse_Tensor:$operand);
}
def Kfuse_SliceOp : Kfuse_LayoutOp<"slice"> {
  let summary = "elements offset + i * stride of each dimension; the result's shape gives the counts";
  let arguments = (ins Kfuse_Tensor:$operand, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides);
}
def Kfuse_ConcatOp : Kfuse_LayoutOp<"concat"> {
  let summary = "operands one after the other along `axis`";
  let arguments = (ins Variadic<Kfuse_Tensor>:$operands_, I64Attr:$axis);
}
def Kfuse_GatherOp : Kfuse_LayoutOp<"gather"> {
  let summary = "data's slices along `axis` at the indices: data[..., indices[...], ...]";
  let description = [{
    Result: data's dimensions before axis, the indices' dimensions, data's after axis. Negative indices
    count from the end, and all are clamped into range.
  }];
  let arguments = (ins Kfuse_Tensor:$data, Kfuse_IndexTensor:$indices, I64Attr:$axis);
}

def Kfuse_WindowOp : Kfuse_LayoutOp<"window"> {
  let summary = "sliding windows over the last dimensions, 0 where a window leaves the operand";
  let description = [{
    x: [outer..., S1, ..., Sk] with k entries in each attribute. Result: [outer..., K1, ..., Kk, O1, ..., Ok] with
    Ki = kernel[i] and Oi from the result's type; its element is x[..., o_i stride_i + k_i dilation_i - pad_i]. A
    convolution is a contraction over the K's and channels of it, a pooling a reduction over the K's.
  }];
  let arguments = (ins Kfuse_Tensor:$operand, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pads);
  let extraClassDeclaration = methods # [{
    bool readsOverlap() { return true; }
  }];
}

def Kfuse_PrefixOp : Kfuse_LayoutOp<"prefix"> {
  let summary = "the operand, of which a run needs the first elements along `axis` alone";
  let description = [{
    Those are times * lengths[length] + plus. Nobody reads the elements behind them: they may be anything, and a kernel
    need not compute them.
  }];
  let arguments = (ins Kfuse_Tensor:$operand, Kfuse_IndexTensor:$lengths, I64Attr:$axis, I64Attr:$length,
                       I64Attr:$times, I64Attr:$plus);
  let extraClassDeclaration = methods # [{
    ::std::optional<::llvm::SmallVector<::mlir::AffineExpr>>
    forwardIndex(unsigned operand, ::llvm::ArrayRef<::mlir::AffineExpr> operandIndex);
  }];
}

//===- Generators and state --------------------------------------------------------------------===//

def Kfuse_ConstantOp
    : Kfuse_Op<"constant", [Pure, ConstantLike, FusableOpInterface, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor known when the model is compiled";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Kfuse_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    ::kfuse::ir::OpKind getOpKind() { return ::kfuse::ir::OpKind::Generator; }
    int64_t getFlops() { return 0; }
    ::kfuse::ir::Scalar scalarise(::kfuse::ir::ScalarBuilder &builder, ::llvm::ArrayRef<::mlir::AffineExpr> index);
  }];
}
def Kfuse_IotaOp : Kfuse_Op<"iota", [Pure, FusableOpInterface]> {
  let summary = "each element is its own index along dimension `dim`";
  let arguments = (ins I64Attr:$dim);
  let results = (outs Kfuse_IndexTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::kfuse::ir::OpKind getOpKind() { return ::kfuse::ir::OpKind::Generator; }
    int64_t getFlops() { return 0; }
    ::kfuse::ir::Scalar scalarise(::kfuse::ir::ScalarBuilder &builder, ::llvm::ArrayRef<::mlir::AffineExpr> index);
  }];
}
def Kfuse_StateUpdateOp : Kfuse_Op<"state_update", [Pure, FusableOpInterface, AllTypesMatch<["state", "result"]>]> {
  let summary = "the state with `value` written at `position` along `axis`, in place";
  let description = [{
    state: [..., S, ...], value: the same but for n along axis; position: a scalar, or one per index of
    dimension 0. Positions outside [0, S - n] write nothing. With a position for each row of the value, [n] along
    axis 0 and else [1 or the size of dimension 0, n], each row is written at its own, or nowhere; no two at one. The
    result takes the state's memory: the state's old value may not be read after the update.
  }];
  let arguments = (ins Kfuse_Tensor:$state, Kfuse_Tensor:$value, Kfuse_IndexTensor:$position, I64Attr:$axis);
  let results = (outs Kfuse_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::kfuse::ir::OpKind getOpKind() { return ::kfuse::ir::OpKind::StateUpdate; }
    int64_t getFlops() { return 0; }
    ::kfuse::ir::Scalar scalarise(::kfuse::ir::ScalarBuilder &builder, ::llvm::ArrayRef<::mlir::AffineExpr> index);
  }];
}

//===- Sequences -------------------------------------------------------------------------------===//

def Kfuse_SameSequenceOp : Kfuse_Op<"same_sequence", [Pure]> {
  let summary = "which rows and keys belong to one of several sequences that are packed behind each other";
  let description = [{
    row_starts: where the rows of each sequence begin, ascending, and where the last one ends ("cu_seqlens");
    key_starts: the same of keys. Result: [rows, keys]. With `causal` the last row of a sequence sees its last key, the
    row before one key less. Passes make ops of it (kfuse-expand-sequences).
  }];
  let arguments = (ins Kfuse_IndexTensor:$row_starts, Kfuse_IndexTensor:$key_starts, UnitAttr:$causal);
  let results = (outs Kfuse_BoolTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===- Regions ---------------------------------------------------------------------------------===//

class Kfuse_RegionOp<string mnemonic> : Kfuse_Op<mnemonic, [Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let arguments = (ins Variadic<Kfuse_Tensor>:$inputs);
  let results = (outs Variadic<Kfuse_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "operands attr-dict-with-keyword `:` functional-type(operands, results) $body";
  let hasVerifier = 1;
}
def Kfuse_FusedOp : Kfuse_RegionOp<"fused"> {
  let summary = "a region that one kernel template accepts: one kernel";
}
def Kfuse_AttentionOp : Kfuse_RegionOp<"attention"> {
  let summary = "scaled dot product attention, recognised: q k^T, scale, mask, softmax, product with v";
}
def Kfuse_YieldOp : Kfuse_Op<"yield", [Pure, Terminator, ParentOneOf<["FusedOp", "AttentionOp"]>]> {
  let arguments = (ins Variadic<Kfuse_Tensor>:$results_);
  let assemblyFormat = "attr-dict ($results_^ `:` type($results_))?";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

#endif
