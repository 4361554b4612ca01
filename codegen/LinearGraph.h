// A region's scalar form with every access as one offset into a dense buffer.
#pragma once

#include "ir/Scalar.h"

#include <vector>

namespace kfuse::codegen {

/// The scalar form that templates print. As in ir::ScalarGraph, but the maps of loads and outputs have one result each,
/// the element offset in the buffer, and neighbouring dimensions that every access walks as one are one: [64, 12, 128]
/// read and written contiguously is [98304]. 4-bit integers are halves of bytes (codegen/PackedLoads.h).
struct LinearGraph {
  ir::ScalarGraph graph;
  /// Per output, over its symbols: the store happens where all hold (a state update out of range
  /// writes nothing).
  std::vector<std::vector<ir::Guard>> storeGuards;
  /// Per node: bit d is set when its value differs along dimension d.
  std::vector<unsigned> dimsUsed;

  const ir::ScalarNode &operator[](ir::Scalar s) const { return graph[s]; }
  bool dependsOn(ir::Scalar s, unsigned dim) const { return dimsUsed[s.id] >> dim & 1; }
  llvm::ArrayRef<int64_t> extents() const { return graph.domain.extents; }
  mlir::AffineExpr offset(ir::Scalar load) const { return graph[load].map.getResult(0); }
  /// Whether every offset and the number of results stay below 2^30, with room for a grid's overshoot.
  bool fits32Bits() const;
};

/// Linearises `graph`. Dimensions collapse but for the last `fixedDims`, which keep their roles
/// (columns; M, N and K). There is at least one dimension.
LinearGraph linearised(const ir::ScalarGraph &graph, unsigned fixedDims);

/// Makes dimension `outer` and the one after it one, if every access walks them so. Returns whether it did.
bool mergeWithNext(LinearGraph &graph, unsigned outer);

/// Lets two dimensions of the domain change places.
void interchange(LinearGraph &graph, unsigned a, unsigned b);

/// Whether `offset` walks the dimensions up to `dimM` and then `inner` row by row, densely.
bool isRowMajor(const LinearGraph &graph, mlir::AffineExpr offset, unsigned dimM, unsigned inner);

/// Symbols may take any value below this; the true extents are not known here.
inline constexpr int64_t unknownExtent = int64_t{1} << 31;

} // namespace kfuse::codegen
