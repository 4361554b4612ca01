// Caches that a file returns longer than it takes them, present = concat(past, new), kept in place.
//
// Past and present share a state with room for `capacity` rows; how many of them the past has, `length`, is an input of
// the model. While the file is read the past has as many rows as fit before the new ones, so that every shape is known.
// Shapes that the file computes from the past's length take the constant, and everything else takes the value at run
// time. Rows of the state behind the present hold anything: what sums over them is given zeros there, or refused.
#pragma once

#include "ir/dialect/Kfuse.h"

#include "llvm/ADT/DenseMap.h"

#include <cstdint>
#include <string>

namespace kfuse::ir::onnx {

/// Which dimensions of a value count the rows of a present (or past), by bits.
struct CacheRows {
  std::uint32_t counting = 0;
  std::uint32_t stale = 0; ///< Those of them whose rows behind the present hold anything.
  std::uint32_t zero = 0;  ///< Those of them whose rows behind the present are zero.
  bool areMixed = false;   ///< Rows share a dimension with something else.

  bool any() const { return counting != 0 || areMixed; }
};

class CachedPast {
public:
  /// `length` is a scalar of i64; `count` rows are new in each run.
  CachedPast(std::int64_t capacity, std::int64_t count, mlir::Value length)
      : capacity(capacity), count(count), length(length) {}

  const std::int64_t capacity, count;
  const mlir::Value length;

  std::int64_t past() const { return capacity - count; }

  // The states. A past is a view of its state, of which nothing but its shape is read.

  struct State {
    mlir::BlockArgument memory;
    std::int64_t axis = 0;
    mlir::Value present; ///< Null until new rows are joined to it.
  };
  void addState(mlir::Value view, State state);
  /// The state that `value` is the past of, or null.
  State *stateOf(mlir::Value value);

  // Rows of values.

  CacheRows rowsOf(mlir::Value value) const { return rows.lookup(value); }
  void setRows(mlir::Value value, CacheRows of);
  /// Notes the rows of `result`, which `op` computes; why that is refused, or "".
  std::string follow(mlir::Operation *op, mlir::Value result);

  // Constants whose value at run time is another.

  static bool varies(mlir::Value value);
  /// `constant` is `atRunTime`; null where nothing says what it is then.
  void setVarying(mlir::Value constant, mlir::Value atRunTime);
  mlir::Value atRunTime(mlir::Value constant) const { return varying.lookup(constant); }

  /// Whether dimension `dim` of `value` counts rows of the present, or of the past.
  bool countsPresent(mlir::Value value, unsigned dim) const;
  bool countsPast(mlir::Value value, unsigned dim) const;

  /// Rows that were joined to a past, where they are not `count`; else 0.
  std::int64_t otherCount = 0;

private:
  llvm::DenseMap<mlir::Value, State> states;
  llvm::DenseMap<mlir::Value, CacheRows> rows;
  llvm::DenseMap<mlir::Value, mlir::Value> varying;
};

} // namespace kfuse::ir::onnx
