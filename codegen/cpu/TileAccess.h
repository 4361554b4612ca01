// How an index runs through a tile of the iteration space.
#pragma once

#include "codegen/LinearGraph.h"

#include <optional>

namespace kfuse::codegen::cpu {

/// One dimension of a tile: points base + 0 ... base + size - 1 of domain dimension `dim`, where base
/// is a multiple of `alignment`.
struct TileDim {
  unsigned dim;
  int64_t size;
  int64_t alignment;
};

/// An index that is linear in a tile: `base` at the tile's first point (an expression of the domain
/// dimensions there and of symbols) plus stride_i steps along tile dimension i.
struct TileIndex {
  mlir::AffineExpr base;
  llvm::SmallVector<int64_t, 2> strides;
  bool isUniform() const {
    return llvm::all_of(strides, [](int64_t stride) { return stride == 0; });
  }
};

/// The linear form of `expr` in the tile, if it has one. Uses the alignment of the tile's base: with
/// tiles of 32 that start at multiples of 32, (i + 64) mod 128 is linear though it wraps.
std::optional<TileIndex> linearInTile(mlir::AffineExpr expr, llvm::ArrayRef<TileDim> tile);

/// Whether the index of the tile's first point is a multiple of `unit`, whichever tile it is.
bool startsAtMultiple(const TileIndex &index, int64_t unit, llvm::ArrayRef<TileDim> tile);

/// Whether all points of the tile are on one side of the guard's bounds, so that its base decides.
bool isUniformInTile(const ir::Guard &guard, llvm::ArrayRef<TileDim> tile);

/// An offset that is linear in a tile and whose tile dimensions, in memory order, end with stride 1.
struct StridedAccess {
  TileIndex index;
  llvm::SmallVector<unsigned, 2> dims;
};

std::optional<StridedAccess> stridedAccess(mlir::AffineExpr offset, llvm::ArrayRef<TileDim> tile);

/// Whether each run of contiguous elements covers whole cache lines of memory that starts on one.
bool coversLines(const StridedAccess &access, DType type, llvm::ArrayRef<TileDim> tile);

/// Accesses of the graph that a tile of these dimensions cannot make with strided operands: they go
/// through a buffer, an order of magnitude slower.
int stagedAccesses(const LinearGraph &graph, llvm::ArrayRef<TileDim> tile);

} // namespace kfuse::codegen::cpu
