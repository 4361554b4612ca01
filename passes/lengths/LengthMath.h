// Ops that compute with the lengths of a run: which elements count, and where they lie in the caller's memory.
#pragma once

#include "passes/lengths/Axis.h"

#include "ir/dialect/Kfuse.h"

#include "mlir/IR/Builders.h"

namespace kfuse::passes {

/// A tensor's rows: all up to the last dimension that follows a length. In memory each is `inner` elements, whatever
/// the lengths are.
struct Rows {
  llvm::SmallVector<Factor> factors; ///< The sizes of all dimensions up to that one.
  std::int64_t count = 1;            ///< The rows at the largest lengths.
  std::int64_t inner = 1;

  explicit Rows(llvm::ArrayRef<Axis> axes);
  /// Whether row i of a shorter tensor is row i of one of the bounds.
  bool lieInOrder() const { return factors.size() == 1; }
};

/// `value`, of which a run reads along each dimension as many elements as `axes` say: a kfuse.prefix for each that
/// follows a length, the first dimension's last. Of several factors the first one counts.
mlir::Value prefixOf(mlir::OpBuilder &builder, mlir::Value value, llvm::ArrayRef<Axis> axes,
                     llvm::function_ref<mlir::Value()> lengths);

class LengthMath {
public:
  LengthMath(mlir::OpBuilder builder, mlir::Value lengths) : builder(builder), lengths(lengths) {}

  /// Ops that follow are made in front of `op`.
  void before(mlir::Operation *op) {
    builder.setInsertionPoint(op);
    location = op->getLoc();
  }

  /// How many elements count, as a tensor of one i64.
  mlir::Value length(const Factor &factor);
  /// Which of a dimension's elements count, i1 along dimension `dim` of `rank`, which has 1 of all others.
  mlir::Value counting(const Axis &axis, unsigned dim, unsigned rank);
  /// Where row i, or the last one that counts before it, lies in a tensor of the run's lengths: i64 of each row.
  mlir::Value rowsToRead(const Rows &rows);
  /// Where row i belongs in it, or `elsewhere` for a row that does not count.
  mlir::Value rowsToWrite(const Rows &rows, std::int64_t elsewhere);
  /// 0 for the rows that count, 1 for the others.
  mlir::Value whetherToWrite(const Rows &rows);

  /// What a run reads of it.
  mlir::Value prefix(mlir::Value value, llvm::ArrayRef<Axis> axes) {
    return prefixOf(builder, value, axes, [&] { return lengths; });
  }

  /// A tensor of this one element, which broadcasts.
  mlir::Value constant(mlir::Attribute number);
  mlir::Value integer(std::int64_t value) { return constant(builder.getI64IntegerAttr(value)); }
  mlir::Value iota(std::int64_t count);
  template <class Op> mlir::Value make(mlir::ValueRange operands) { return builder.create<Op>(location, operands); }
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<std::int64_t> shape);
  mlir::Value cast(mlir::Value value, mlir::Type element);
  mlir::Value where(mlir::Value condition, mlir::Value then, mlir::Value otherwise) {
    return make<ir::WhereOp>({condition, then, otherwise});
  }
  mlir::OpBuilder &ops() { return builder; }
  mlir::Location where() const { return location; }

private:
  struct Coordinate {
    Factor factor;
    mlir::Value index; ///< i64 of each row.
  };
  llvm::SmallVector<Coordinate> coordinates(llvm::ArrayRef<Factor> factors, std::int64_t count);
  mlir::Value allCount(llvm::ArrayRef<Coordinate> coordinates);
  mlir::Value place(llvm::ArrayRef<Coordinate> coordinates, bool clamps);

  mlir::OpBuilder builder;
  mlir::Value lengths;
  mlir::Location location = builder.getUnknownLoc();
};

} // namespace kfuse::passes
