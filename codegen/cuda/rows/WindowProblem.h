// What a region that reduces windows reads: the dimensions its windows slide along, and how each operand moves with
// them.
#pragma once

#include "codegen/KernelTemplate.h"
#include "codegen/LinearGraph.h"

#include <optional>

namespace kfuse::codegen::cuda {

/// A load of what is reduced.
struct WindowOperand {
  /// What tells apart the elements that the windows of a strip read in one row of taps.
  enum class Along {
    Window, ///< Position stride * result + dilation * tap: neighbours share most of them.
    Tap,    ///< The tap alone: weights.
    Strip,  ///< The result alone, or nothing.
    Both
  };
  ir::Scalar load;
  Along along = Along::Both;
  int64_t unit = 0;        ///< Elements from one position of a Window to the next.
  bool slidesDown = false; ///< Rows of a tile share its rows, or it is the same in all.
};

/// A strip is `n` neighbouring results along dimension `strip`. The reduction dimension is split in two: rows of taps
/// that follow each other, and the taps of a row.
struct WindowProblem {
  LinearGraph graph; ///< dimsUsed of the dimensions in front of rowTap.
  unsigned rowTap, tap, strip;
  std::optional<unsigned> down;  ///< Another dimension along which windows share rows of taps.
  std::optional<unsigned> dense; ///< Another dimension along which operands and results are neighbours: channels.
  int64_t stride, dilation;      ///< In positions.
  int64_t strideDown = 1;        ///< In rows of taps.
  std::vector<ir::Scalar> reductions;
  std::vector<WindowOperand> operands;
  std::vector<ir::Scalar> outputs;

  int64_t taps() const { return graph.extents()[tap]; }
  int64_t rowTaps() const { return graph.extents()[rowTap]; }
  int64_t positions(int64_t results) const { return stride * (results - 1) + dilation * (taps() - 1) + 1; }
  /// What is reduced.
  std::vector<ir::Scalar> roots() const;
  /// Dimensions of the results.
  unsigned resultDims() const { return rowTap; }

  /// The windows of a region with one pass of reductions; the reason when they are none.
  static Result<WindowProblem> of(const Region &region);
};

/// The coefficient of `dim` in an index that is linear in it.
std::optional<int64_t> coefficientOf(mlir::AffineExpr index, unsigned dim);

/// An index of a window's operand at the position that one more dimension, behind all of the problem's, counts.
mlir::AffineExpr atPosition(const WindowProblem &problem, mlir::AffineExpr index);

} // namespace kfuse::codegen::cuda
