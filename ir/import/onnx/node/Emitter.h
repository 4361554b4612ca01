// Appends the dialect's ops to @main, and folds what is known already.
//
// A failure is sticky: the first reason is kept, the method returns a null value, and every method
// given a null value returns one. A handler may thus write down a whole decomposition and leave the
// checking to whoever called it.
#pragma once

#include "ir/dialect/Kfuse.h"
#include "ir/import/Limits.h"
#include "ir/import/onnx/node/CachedPast.h"
#include "ir/reference/Tensor.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"

#include <optional>
#include <string>

namespace kfuse::ir::onnx {

using Ints = llvm::SmallVector<std::int64_t, 6>;
using reference::HostTensor;

/// The attributes of an op; ops without any have no such type of their own.
template <class Op> struct PropertiesOf {
  using Type = mlir::EmptyProperties;
};
template <class Op>
  requires requires { typename Op::Properties; }
struct PropertiesOf<Op> {
  using Type = typename Op::Properties;
};
template <class Op> using Properties = typename PropertiesOf<Op>::Type;

/// "[2, 3]".
std::string toString(llvm::ArrayRef<std::int64_t> dims);
/// 0, 1, ..., count - 1.
Ints counted(std::int64_t count);

class Emitter {
public:
  explicit Emitter(mlir::OpBuilder builder);

  /// The ops that follow come from `location`.
  void at(mlir::Location newLocation) { location = newLocation; }
  mlir::MLIRContext *context() const { return builder.getContext(); }

  mlir::Value fail(const llvm::Twine &reason);
  bool failed() const { return !reason.empty(); }
  const std::string &failure() const { return reason; }

  // Constants.
  mlir::Value constant(const HostTensor &tensor);
  /// Every element is the one of `value`; costs one element whatever the shape.
  mlir::Value splat(HostTensor value, llvm::ArrayRef<std::int64_t> shape);
  mlir::Value splat(double value, DType type, llvm::ArrayRef<std::int64_t> shape = {});
  mlir::Value scalarLike(mlir::Value like, double value) { return like ? splat(value, dtypeOf(like.getType())) : like; }
  /// An i64 vector.
  mlir::Value integers(llvm::ArrayRef<std::int64_t> values);
  /// The elements of a constant that is the same in every run.
  static std::optional<HostTensor> constantOf(mlir::Value value);
  static std::optional<Ints> constantIntegers(mlir::Value value);
  /// The same for what asks for sizes, of which those of a cache are its capacity's.
  static std::optional<HostTensor> sizesOf(mlir::Value value);
  static std::optional<Ints> sizeIntegers(mlir::Value value);
  static bool varies(mlir::Value value) { return CachedPast::varies(value); }

  /// An op whose result type follows from its operands.
  template <class Op> mlir::Value make(mlir::ValueRange operands, Properties<Op> properties = {});
  template <class Op> mlir::Value unary(mlir::Value x) { return make<Op>(x); }
  template <class Op> mlir::Value binary(mlir::Value a, mlir::Value b) { return make<Op>({a, b}); }
  mlir::Value add(mlir::Value a, mlir::Value b) { return binary<AddOp>(a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return binary<SubOp>(a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return binary<MulOp>(a, b); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return binary<DivOp>(a, b); }
  mlir::Value mul(mlir::Value a, double b) { return b == 1 ? a : mul(a, scalarLike(a, b)); }
  mlir::Value add(mlir::Value a, double b) { return b == 0 ? a : add(a, scalarLike(a, b)); }
  mlir::Value where(mlir::Value condition, mlir::Value then, mlir::Value otherwise);
  /// Conversion; to bool it is "differs from 0".
  mlir::Value cast(mlir::Value x, DType type);

  /// (quantised - zeros) scales; `zeros` may be null.
  mlir::Value dequantize(mlir::Value quantised, mlir::Value scales, mlir::Value zeros,
                         llvm::ArrayRef<std::int64_t> blocks);
  mlir::Value matmul(mlir::Value a, mlir::Value b, bool transposeA = false, bool transposeB = false);
  mlir::Value reduce(mlir::Value x, llvm::StringRef function, llvm::ArrayRef<std::int64_t> ascendingAxes);
  mlir::Value reduceKeepingDims(mlir::Value x, llvm::StringRef function, llvm::ArrayRef<std::int64_t> ascendingAxes);
  mlir::Value layerNorm(mlir::Value x, mlir::Value weight, mlir::Value bias, double epsilon);
  mlir::Value rmsNorm(mlir::Value x, mlir::Value weight, double epsilon);
  mlir::Value rotary(mlir::Value x, mlir::Value cos, mlir::Value sin, bool interleaved);

  // Layout. The identity gives back its operand.
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<std::int64_t> shape);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<std::int64_t> permutation);
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<std::int64_t> shape);
  mlir::Value slice(mlir::Value x, llvm::ArrayRef<std::int64_t> offsets, llvm::ArrayRef<std::int64_t> sizes,
                    llvm::ArrayRef<std::int64_t> strides);
  /// Elements [offset, offset + size) of one dimension.
  mlir::Value slice(mlir::Value x, std::int64_t axis, std::int64_t offset, std::int64_t size);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> pieces, std::int64_t axis);
  mlir::Value gather(mlir::Value data, mlir::Value indices, std::int64_t axis);
  /// The windows of a kernel over the last dimensions of `x`, [..., K1, ..., O1, ...]; 0 outside it.
  mlir::Value window(mlir::Value x, llvm::ArrayRef<std::int64_t> kernel, llvm::ArrayRef<std::int64_t> strides,
                     llvm::ArrayRef<std::int64_t> dilations, llvm::ArrayRef<std::int64_t> pads,
                     llvm::ArrayRef<std::int64_t> counts);
  /// Each element is its index along `dim`. Never folded, so that masks made of it stay computed.
  mlir::Value iota(llvm::ArrayRef<std::int64_t> shape, std::int64_t dim, DType type = DType::I64);

  /// `state`, an argument that becomes a state, with `rows` written over its own from `position` along `axis` on.
  mlir::Value updateRows(mlir::Value state, mlir::Value rows, mlir::Value position, std::int64_t axis);

  // Caches that are kept in place (CachedPast).

  /// From here on; `length` is the past's in each run.
  void keepPast(std::int64_t capacity, std::int64_t count, mlir::Value length);
  /// Null where no cache is kept.
  CachedPast *cachedPast() { return past ? &*past : nullptr; }
  /// What the file knows as the past: the first rows of a state.
  mlir::Value pastOf(mlir::BlockArgument state, std::int64_t axis);
  /// The sizes of dimensions [start, end) as a vector, and at run time those that there are then.
  mlir::Value sizes(mlir::Value x, std::int64_t start, std::int64_t end);
  /// Notes that dimensions of a present's size count its rows.
  mlir::Value countingRows(mlir::Value x);

private:
  using Attributes = llvm::ArrayRef<std::pair<llvm::StringRef, mlir::Attribute>>;
  /// An op whose result type is given; its element is the first operand's unless told.
  template <class Op>
  mlir::Value makeTyped(mlir::ValueRange operands, llvm::ArrayRef<std::int64_t> shape, Attributes attributes = {},
                        mlir::Type element = {});
  mlir::Value append(mlir::OperationState &state);
  /// The constant that `op` computes, or null where it is better left in the graph.
  mlir::Value fold(mlir::Operation *op);
  /// Null, and failed, for a type that no tensor may have.
  mlir::RankedTensorType tensorType(llvm::ArrayRef<std::int64_t> shape, mlir::Type element);
  bool areUsable(mlir::ValueRange operands);
  mlir::Value appendBesidePast(mlir::Operation *op, mlir::Value folded);
  /// Gives `op` what its operands are at run time; false where one is nothing that can be computed then.
  bool takeRunTimeOperands(mlir::Operation *op);
  /// Hides what lies behind the present from a softmax of scores.
  void hideStaleRows(SoftmaxOp softmax);
  /// The state of `view` with `rows` written behind its past.
  mlir::Value join(CachedPast::State &state, mlir::Value rows, std::int64_t axis);

  mlir::OpBuilder builder;
  mlir::Location location;
  std::string reason;
  /// MLIR's verifiers speak through diagnostics: the first becomes the reason.
  mlir::ScopedDiagnosticHandler diagnostics;
  /// Elements that folding may still make: the context keeps every constant it ever saw.
  std::int64_t foldBudget = std::int64_t{16} << 20;
  std::optional<CachedPast> past;
  mlir::Value presentLength; ///< Rows of the past and what is new.
  mlir::Value isPresent;     ///< A flag a row of a state; null before it is asked for.
};

template <class Op> mlir::Value Emitter::make(mlir::ValueRange operands, Properties<Op> properties) {
  if (!areUsable(operands))
    return {};
  mlir::OperationState state(location, Op::getOperationName());
  state.addOperands(operands);
  mlir::OpaqueProperties inferFrom = nullptr;
  if constexpr (!std::is_same_v<Properties<Op>, mlir::EmptyProperties>) {
    state.getOrAddProperties<Properties<Op>>() = properties;
    inferFrom = state.getRawProperties();
  }
  llvm::SmallVector<mlir::Type, 1> types;
  if (mlir::failed(Op::inferReturnTypes(context(), location, operands, {}, inferFrom, {}, types)))
    return fail("its operands do not fit");
  state.addTypes(types);
  return append(state);
}

} // namespace kfuse::ir::onnx
